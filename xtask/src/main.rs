//! `cargo xtask`: the project's chores, a file each.

mod bench;
mod corpus;
mod crash;
mod fuzz;
mod picture;
mod shell;
mod skipped;
mod space;
mod test;
mod tidy;
mod wasm;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::bench::BenchArgs;
use crate::corpus::CorpusArgs;
use crate::crash::CrashArgs;
use crate::fuzz::FuzzArgs;
use crate::wasm::WasmArgs;

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
    /// Check all sessions below a folder: nothing dropped, no panic, a prefix then the rest is the whole
    Corpus(CorpusArgs),
    /// Stop a store at any moment, and check that nothing acknowledged is lost
    Crash(CrashArgs),
    /// Look for bytes that break a law
    Fuzz(FuzzArgs),
    /// Draw the picture of the front page
    Picture,
    /// Build for WebAssembly
    Wasm(WasmArgs),
}

fn main() -> ExitCode {
    let result = match Args::parse().chore {
        Chore::Test => test::run(),
        Chore::Tidy => tidy::run(),
        Chore::Bench(args) => bench::run(&args),
        Chore::Corpus(args) => return ended(corpus::run(&args)),
        Chore::Crash(args) => crash::run(&args),
        Chore::Fuzz(args) => fuzz::run(&args),
        Chore::Picture => picture::run(),
        Chore::Wasm(args) => wasm::run(&args),
    };
    ended(result.map(|()| ExitCode::SUCCESS))
}

/// Prints what went wrong, if something did.
fn ended(result: Result<ExitCode>) -> ExitCode {
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            for cause in error.chain().skip(1) {
                eprintln!("cause: {cause}");
            }
            ExitCode::FAILURE
        }
    }
}
