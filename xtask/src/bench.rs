//! `cargo xtask bench`: runs one of the benchmarks.

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::{js, shell, web};

/// What to measure, and how.
#[derive(Args)]
pub(crate) struct BenchArgs {
    /// Which benchmark to run
    benchmark: Benchmark,
    /// Arguments for the benchmark, such as a filter
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// The benchmarks; each is a bench target with the same name.
#[derive(Clone, Copy, ValueEnum)]
enum Benchmark {
    /// The cost of one more event
    Reduce,
    /// The cost of loading a session
    Load,
    /// The cost of storing a session; `--postgres`: in PostgreSQL, beside plain inserts and SQLite
    Store,
    /// The cost of recording a turn
    Checkpoint,
    /// Finding and importing thousands of sessions, and opening a large one
    FirstMinute,
    /// The cost of a turn of the loop
    Loop,
    /// The load of many subscribers beside plain WebSockets, and of one that does not read;
    /// `--start`: the start of the server over thousands of sessions
    Serve,
    /// The npm package beside plain JavaScript, and the frames of a page
    Js,
    /// The page with long sessions: first paint, frames and memory
    Web,
}

pub(crate) fn run(args: &BenchArgs) -> Result<()> {
    let targets: &[(&str, &str)] = match args.benchmark {
        Benchmark::Reduce => &[("threadfold-testkit", "reduce")],
        Benchmark::Load => &[("threadfold-testkit", "load")],
        Benchmark::Store if args.arguments.iter().any(|it| it == "--postgres") => {
            &[("threadfold-postgres", "postgres")]
        }
        // Records and whole sessions; the latter need the crate above the store.
        Benchmark::Store => &[("threadfold-testkit", "store"), ("threadfold-engine", "sessions")],
        Benchmark::Checkpoint => &[("threadfold-loop", "checkpoint")],
        Benchmark::FirstMinute => &[("threadfold", "first_minute")],
        // It has the sessions that the program is started over.
        Benchmark::Serve if args.arguments.iter().any(|it| it == "--start") => {
            &[("threadfold", "first_minute")]
        }
        Benchmark::Serve => &[("threadfold-server", "serve")],
        Benchmark::Loop => &[("threadfold-loop", "loop")],
        Benchmark::Js => return js::bench(),
        Benchmark::Web => return web::bench(),
    };
    for (package, target) in targets {
        shell::run(
            shell::command("cargo bench --locked --package")
                .args([package, "--bench", target, "--"])
                .args(&args.arguments),
        )?;
    }
    Ok(())
}
