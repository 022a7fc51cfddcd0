//! `cargo xtask`: developer tasks, one file each.

mod bench;
mod corpus;
mod crash;
mod disk_space;
mod fuzz;
mod js;
mod parity;
mod picture;
mod readme;
mod record;
mod report;
mod shell;
mod skipped;
mod soak;
mod test;
mod tidy;
mod types;
mod wasm;
mod web;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::bench::BenchArgs;
use crate::corpus::CorpusArgs;
use crate::crash::CrashArgs;
use crate::fuzz::FuzzArgs;
use crate::parity::ParityArgs;
use crate::record::RecordArgs;
use crate::soak::SoakArgs;
use crate::types::TypesArgs;
use crate::wasm::WasmArgs;
use crate::web::WebArgs;

/// Run developer tasks
#[derive(Parser)]
#[command(name = "xtask", bin_name = "cargo xtask", arg_required_else_help = true)]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install missing tools, then run all checks and tests
    Test,
    /// Check crate dependencies, purity, file sizes and headers
    Tidy,
    /// Run a benchmark
    Bench(BenchArgs),
    /// Check all sessions below a folder: no loss, no panic, incremental folding equals full folding
    Corpus(CorpusArgs),
    /// Compare recorded pairs of stream and transcript, and mutate every field of them
    Parity(ParityArgs),
    /// Kill the store and the loop at random moments, and check that no acknowledged write is lost
    Crash(CrashArgs),
    /// Fuzz for inputs that violate an invariant
    Fuzz(FuzzArgs),
    /// Render the screenshot for the README
    Picture,
    /// Write the tables of the docs that are counted
    Readme,
    /// Record scenarios with a real agent against a scripted model, and verify each recording
    Record(RecordArgs),
    /// Run a check over all its data, and write its report
    Soak(SoakArgs),
    /// Write the TypeScript types of the npm package
    Types(TypesArgs),
    /// Build for WebAssembly
    Wasm(WasmArgs),
    /// Build the page that the server embeds
    Web(WebArgs),
}

fn main() -> ExitCode {
    let result = match Args::parse().task {
        Task::Test => test::run(),
        Task::Tidy => tidy::run(),
        Task::Bench(args) => bench::run(&args),
        Task::Corpus(args) => return ended(corpus::run(&args)),
        Task::Parity(args) => return ended(parity::run(&args)),
        Task::Crash(args) => crash::run(&args),
        Task::Fuzz(args) => fuzz::run(&args),
        Task::Picture => picture::run(),
        Task::Readme => readme::run(),
        Task::Record(args) => return ended(record::run(&args)),
        Task::Soak(args) => return ended(soak::run(&args)),
        Task::Types(args) => types::run(&args),
        Task::Wasm(args) => wasm::run(&args),
        Task::Web(args) => web::run(&args),
    };
    ended(result.map(|()| ExitCode::SUCCESS))
}

/// Prints the error, if any.
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
