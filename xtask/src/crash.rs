//! `cargo xtask crash`: kills the store's process and the loop's, cuts the power, and looks what is
//! left and what ran twice.

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::shell;

/// What to stop, and how often.
#[derive(Args)]
pub(crate) struct CrashArgs {
    /// What to stop; all of it if it is not said
    what: Option<Crashed>,
    /// How often to kill the process
    #[arg(long, default_value_t = 200)]
    kills: u64,
    /// How often to cut the power of a store; needs Linux and root, and is skipped elsewhere
    #[arg(long, default_value_t = 0)]
    cuts: u64,
}

/// What can be stopped.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Crashed {
    /// A process that appends to a store
    Store,
    /// A process that runs the loop
    Loop,
}

pub(crate) fn run(args: &CrashArgs) -> Result<()> {
    let [kills, cuts] = [args.kills, args.cuts].map(|it| it.to_string());
    let run = "cargo run --quiet --locked --release --package";
    println!("# Killed, and looked at\n");
    if args.what != Some(Crashed::Loop) {
        println!("## The store\n");
        let mut store = shell::command(&format!("{run} threadfold-testkit --bin crash --"));
        shell::run(store.args(["store", "--kills", &kills, "--cuts", &cuts]))?;
        println!();
    }
    if args.what != Some(Crashed::Store) {
        println!("## The loop\n");
        let mut killed = shell::command(&format!("{run} threadfold-crash --bin crash-loop --"));
        shell::run(killed.args(["--kills", &kills]))?;
    }
    Ok(())
}
