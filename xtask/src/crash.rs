//! `cargo xtask crash`: kills a store's process and cuts its power, and looks what is left.

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::shell;

/// What to stop, and how often.
#[derive(Args)]
pub(crate) struct CrashArgs {
    /// What to stop
    what: Crashed,
    /// How often to kill the process
    #[arg(long, default_value_t = 200)]
    kills: u64,
    /// How often to cut the power; needs Linux and root, and is skipped elsewhere
    #[arg(long, default_value_t = 0)]
    cuts: u64,
}

/// What can be stopped.
#[derive(Clone, Copy, ValueEnum)]
enum Crashed {
    /// A process that appends to a store
    Store,
}

pub(crate) fn run(args: &CrashArgs) -> Result<()> {
    let what = match args.what {
        Crashed::Store => "store",
    };
    let run = "cargo run --quiet --locked --release --package threadfold-testkit --bin crash --";
    let [kills, cuts] = [args.kills, args.cuts].map(|it| it.to_string());
    shell::run(shell::command(run).args([what, "--kills", &kills, "--cuts", &cuts]))
}
