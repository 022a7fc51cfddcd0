//! `cargo xtask`: the project's chores, a file each.

mod bench;
mod shell;
mod skipped;
mod test;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::bench::BenchArgs;

/// Do the project's chores
#[derive(Parser)]
#[command(name = "xtask", bin_name = "cargo xtask", arg_required_else_help = true)]
struct Args {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Check and test everything, after setting up what that needs
    Test,
    /// Check what compilers do not: arrows between crates, purity, sizes, headers
    Tidy,
    /// Run a benchmark
    Bench(BenchArgs),
}

fn main() -> ExitCode {
    let result = match Args::parse().chore {
        Chore::Test => test::run(),
        Chore::Tidy => tidy::run(),
        Chore::Bench(args) => bench::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            for cause in error.chain().skip(1) {
                eprintln!("cause: {cause}");
            }
            ExitCode::FAILURE
        }
    }
}
