//! `cargo xtask bench`: runs one of the benchmarks.

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::shell;

/// What to measure, and how.
#[derive(Args)]
pub(crate) struct BenchArgs {
    /// Which benchmark to run
    benchmark: Benchmark,
    /// What to pass on to the benchmark, such as a filter
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// The benchmarks there are; each is a bench target of the testkit with the same name.
#[derive(Clone, Copy, ValueEnum)]
enum Benchmark {
    /// The cost of one more event
    Reduce,
    /// The cost of loading a session
    Load,
    /// The cost of keeping a session
    Store,
}

pub(crate) fn run(args: &BenchArgs) -> Result<()> {
    let target = match args.benchmark {
        Benchmark::Reduce => "reduce",
        Benchmark::Load => "load",
        Benchmark::Store => "store",
    };
    shell::run(
        shell::command("cargo bench --locked --package threadfold-testkit --bench")
            .args([target, "--"])
            .args(&args.arguments),
    )
}
