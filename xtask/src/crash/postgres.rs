//! `cargo xtask crash postgres`: kills nodes and their database and cuts the network between them,
//! and kills runs that are resumed on other machines; writes the report.

use std::fs;

use anyhow::{Result, ensure};

use super::CrashArgs;
use crate::report::{commit, write_report};
use crate::shell;

const HEAD: &str = "\
# Crashes over PostgreSQL

What `cargo xtask crash postgres` found.

## Nodes, the database, and the network between them

Agents push lines to several real `threadfold serve` over one PostgreSQL, whose commits are synced, and a client follows each session.
After each fault the log is read: every line that was acknowledged must be in it, once, in its order, with sequence numbers without a gap.
A node that lost its lease meanwhile must be refused, or its lines would be there twice.
In the end every client's state is compared with the fold of the log, by hash, and the store is checked as `doctor` does.
The control sets `synchronous_commit=off`: the same check must find a loss.
";

const LOOP: &str = "\
## The loop

A run is killed, and another machine resumes it once the lease has expired: it cannot see whether the first process still runs.
The run has eight calls of every effect class, up to three in parallel, in five turns; a process outside counts the effects of its tools.
";

pub(super) fn run(args: &CrashArgs) -> Result<()> {
    let found = shell::root().join("target/postgres-report.txt");
    if found.exists() {
        fs::remove_file(&found)?;
    }
    let [kills, server_kills, answers, partitions] =
        [args.kills, args.server_kills, args.answers, args.partitions].map(|it| it.to_string());
    // Nodes are built as tests are: what is measured is not their speed.
    let mut faults =
        shell::command("cargo nextest run --locked --package threadfold --test-threads 1");
    faults
        .args(["-E", "test(cluster_faults::) | test(copies_that_are_interrupted)"])
        .env("THREADFOLD_CRASH_COPIES", args.copies.to_string())
        .env("THREADFOLD_CRASH_NODE_KILLS", kills)
        .env("THREADFOLD_CRASH_SERVER_KILLS", server_kills)
        .env("THREADFOLD_CRASH_CUTS", answers)
        .env("THREADFOLD_CRASH_PARTITIONS", partitions)
        .env("THREADFOLD_CRASH_SHORTEST", "5000")
        .env("THREADFOLD_CRASH_LONGEST", "60000")
        .env("THREADFOLD_SOAK_REPORT", &found);
    let (faults_code, output) = shell::output(&mut faults)?;
    print!("{output}");
    let lines = fs::read_to_string(&found).unwrap_or_else(|_| "It failed.\n".to_owned());
    let mut killed =
        shell::command("cargo run --quiet --locked --package threadfold-loop-crash --");
    killed.args(["--kills", &args.loop_kills.to_string(), "--postgres"]);
    let (loop_code, runs) = shell::output(&mut killed)?;
    print!("{runs}");
    let report = format!(
        "{HEAD}\nRun on {}.\n\n```text\n{lines}```\n\n{LOOP}\n{}\n",
        commit()?,
        runs.trim_end()
    );
    write_report("docs/postgres-report.md", &report)?;
    ensure!(faults_code == 0 && loop_code == 0, "something was lost, or happened twice");
    Ok(())
}
