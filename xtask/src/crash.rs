//! `cargo xtask crash`: kills the processes of store and loop and simulates power cuts, then
//! verifies the data and reports tools that ran twice.

mod postgres;

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::shell;

/// What to kill, and how often.
#[derive(Args)]
pub(crate) struct CrashArgs {
    /// What to kill; default: the store and the loop, in a file
    what: Option<CrashTarget>,
    /// How often to kill the process
    #[arg(long, default_value_t = 200)]
    kills: u64,
    /// How often to cut the power of a store; needs Linux and root, and is skipped elsewhere
    #[arg(long, default_value_t = 0)]
    cuts: u64,
    /// With `postgres`: how often to kill the database
    #[arg(long, default_value_t = 100)]
    server_kills: u64,
    /// With `postgres`: how often to drop the answer to a commit
    #[arg(long, default_value_t = 50)]
    answers: u64,
    /// With `postgres`: how often to cut a node off from the database, for 5 to 60 seconds
    #[arg(long, default_value_t = 20)]
    partitions: u64,
    /// With `postgres`: how often to interrupt a copy between two stores
    #[arg(long, default_value_t = 20)]
    copies: u64,
    /// With `postgres`: how often to kill runs of the loop at random moments
    #[arg(long, default_value_t = 200)]
    loop_kills: u64,
}

/// A process to kill.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CrashTarget {
    /// A process that appends to a store
    Store,
    /// A process that runs the loop
    Loop,
    /// Nodes over one PostgreSQL, the database, the network between them, and runs that are resumed
    /// on other machines; writes `docs/postgres-report.md`
    Postgres,
}

pub(crate) fn run(args: &CrashArgs) -> Result<()> {
    if args.what == Some(CrashTarget::Postgres) {
        return postgres::run(args);
    }
    let [kills, cuts] = [args.kills, args.cuts].map(|it| it.to_string());
    let run = "cargo run --quiet --locked --release --package";
    println!("# Crash report\n");
    if args.what != Some(CrashTarget::Loop) {
        println!("## The store\n");
        let mut store = shell::command(&format!("{run} threadfold-testkit --bin store-crash --"));
        shell::run(store.args(["store", "--kills", &kills, "--cuts", &cuts]))?;
        println!();
    }
    if args.what != Some(CrashTarget::Store) {
        println!("## The loop\n");
        let mut killed =
            shell::command(&format!("{run} threadfold-loop-crash --bin crash-loop --"));
        shell::run(killed.args(["--kills", &kills]))?;
    }
    Ok(())
}
