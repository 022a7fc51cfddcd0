//! `cargo xtask soak`: runs a check over all its data, which the tests run on a share, and writes the
//! report that is committed below `docs`.

mod autobahn;
mod schemathesis;

use std::fs;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::report::{commit, write_report};
use crate::shell;

/// Which check to run.
#[derive(Args)]
pub(crate) struct SoakArgs {
    /// The check
    name: SoakCheck,
}

/// A check that takes minutes.
#[derive(Clone, Copy, ValueEnum)]
enum SoakCheck {
    /// Mutate every kind of field of every recorded pair; writes `docs/mutations-report.md`
    Mutations,
    /// Disconnect clients of a server 2,000 times, and restart it 20 times; writes
    /// `docs/serve-report.md`
    Serve,
    /// Kill one of three nodes over one database every ten seconds for five minutes, with 300 live
    /// sessions and 300 clients; writes `docs/cluster-report.md`
    Cluster,
    /// Send 5,000 requests that are generated from the OpenAPI; writes
    /// `docs/schemathesis-report.md`
    Schemathesis,
    /// Run the WebSocket cases of the Autobahn test suite, which needs Python 2.7; writes
    /// `docs/autobahn-report.md`
    Autobahn,
    /// Fold 10,000 generated streams in the WebAssembly module, and disconnect the npm package's
    /// client 2,000 times over each transport; writes `docs/js-report.md`
    Js,
}

/// Runs a check and returns its exit code: 0 ok, 1 findings, 2 unreadable.
pub(crate) fn run(args: &SoakArgs) -> Result<ExitCode> {
    match args.name {
        SoakCheck::Mutations => mutations(),
        SoakCheck::Serve => serve(),
        SoakCheck::Cluster => cluster(),
        SoakCheck::Schemathesis => schemathesis::run(),
        SoakCheck::Autobahn => autobahn::run(),
        SoakCheck::Js => js(),
    }
}

const MUTATIONS: &str = "\
# Mutations of recorded pairs

What `cargo xtask soak mutations` found: every kind of field of every kind of record on both sides of the recorded pairs was changed, one at a time, and every record was removed and repeated.
Records that follow each other and records of one kind changed places, and records of one kind exchanged their texts.
A mutation is *caught* if the verdict of `verify` becomes `different` or the records cannot be read, and *excused* if a row of `known_gaps.txt`, or a gap of the run that the verdict lists, names what only one side has.
A mutation of an object's earlier state, which a later record of the same file replaces, or of a record that the file repeats, changes no meaning and is counted apart, and so is a permutation of records whose order has no meaning, by the rule that says why.
Everything else is *unseen*, and there must be none.
";

fn mutations() -> Result<ExitCode> {
    let mut report = format!("{MUTATIONS}\nRun on {}.\n", commit()?);
    let mut worst = 0;
    for agent in ["claude", "codex", "opencode"] {
        let run =
            "cargo run --quiet --locked --release --package threadfold-testkit --bin parity --";
        let folder = shell::root().join("crates/threadfold-convert/tests/data").join(agent);
        let (code, output) = shell::output(shell::command(run).arg(folder))?;
        print!("{output}");
        worst = worst.max(code);
        report += &format!("\n## {agent}\n\n```text\n{output}```\n");
    }
    write_report("docs/mutations-report.md", &report)?;
    Ok(ExitCode::from(worst))
}

const SERVE: &str = "\
# Clients of a server without a gap

What `cargo xtask soak serve` found: clients of a real `threadfold serve` disconnect at random moments and come back with their cursor, while a session grows from an agent's file and from a pushed stream, and while the server is restarted and killed.
After each disconnect, the state of both clients is compared with the server's state at the same record.
";

fn serve() -> Result<ExitCode> {
    let found = shell::root().join("target/serve-report.txt");
    let run = "cargo nextest run --locked --package threadfold serve_soak";
    let mut command = shell::command(run);
    command
        .env("THREADFOLD_SOAK_DISCONNECTS", "2000")
        .env("THREADFOLD_SOAK_RESTARTS", "20")
        .env("THREADFOLD_SOAK_KILLS", "5")
        .env("THREADFOLD_SOAK_REPORT", &found);
    let (code, output) = shell::output(&mut command)?;
    print!("{output}");
    let report = fs::read_to_string(&found).unwrap_or_else(|_| "It failed.\n".to_owned());
    let report = format!("{SERVE}\nRun on {}.\n\n```text\n{report}```\n", commit()?);
    write_report("docs/serve-report.md", &report)?;
    Ok(ExitCode::from(code))
}

const CLUSTER: &str = "\
# Many clients of nodes that are killed

What `cargo xtask soak cluster` found: several real `threadfold serve` over one PostgreSQL are behind one address, which sends each connection to the next of them.
Every session has an agent that pushes lines and a client that follows; one node after another is killed and started again.
";

fn cluster() -> Result<ExitCode> {
    let found = shell::root().join("target/cluster-report.txt");
    if found.exists() {
        fs::remove_file(&found)?;
    }
    let mut command =
        shell::command("cargo nextest run --locked --package threadfold cluster_soak::");
    command
        .env("THREADFOLD_SOAK_SESSIONS", "300")
        .env("THREADFOLD_SOAK_KILLS", "30")
        .env("THREADFOLD_SOAK_INTERVAL_MS", "10000")
        .env("THREADFOLD_SOAK_PAUSE_MS", "1000")
        .env("THREADFOLD_SOAK_REPORT", &found);
    let (code, output) = shell::output(&mut command)?;
    print!("{output}");
    let report = fs::read_to_string(&found).unwrap_or_else(|_| "It failed.\n".to_owned());
    let report = format!("{CLUSTER}\nRun on {}.\n\n```text\n{report}```\n", commit()?);
    write_report("docs/cluster-report.md", &report)?;
    Ok(ExitCode::from(code))
}

const JS: &str = "\
# The npm package and its WebAssembly module

What `cargo xtask soak js` found.
In the module, 10,000 generated streams of events have the state, the hash and the snapshot of the native reducer.
The package's client of a real `threadfold serve` is disconnected at random moments, over server-sent events and over WebSocket, while its session grows and the server is restarted and killed; whenever it is checked, its state has the server's hash.
";

fn js() -> Result<ExitCode> {
    crate::js::install()?;
    crate::js::prepare()?;
    let run = "cargo nextest run --locked --package threadfold-wasm --no-capture every_generated";
    let mut streams = shell::command(run);
    let (streams_code, streams) = shell::output(streams.env("THREADFOLD_SOAK_STREAMS", "10000"))?;
    let mut connect = crate::js::vitest(&["tests/connect.test.ts", "-t", "disconnects"])?;
    connect.env("THREADFOLD_SOAK_DISCONNECTS", "2000").env("NO_COLOR", "1");
    let (connect_code, connect) = shell::output(&mut connect)?;
    print!("{streams}{connect}");
    let is_result =
        |line: &&str| ["streams,", "disconnects,", "Tests "].iter().any(|mark| line.contains(mark));
    let results: Vec<_> = streams.lines().chain(connect.lines()).filter(is_result).collect();
    let report = format!("{JS}\nRun on {}.\n\n```text\n{}\n```\n", commit()?, results.join("\n"));
    write_report("docs/js-report.md", &report)?;
    Ok(ExitCode::from(streams_code.max(connect_code)))
}
