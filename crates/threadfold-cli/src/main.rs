//! The `threadfold` program.

mod commands;
mod error;
mod error_hints;
mod export;
mod import;
mod input;
mod machine;
mod printable;
mod progress;
mod run;
mod runtime;
mod sessions;
mod store;
mod terminal;
mod view;
mod watch;

use std::process::ExitCode;

use clap::Parser;

use crate::commands::Command;

/// Look at the conversations of AI agents
#[derive(Parser)]
#[command(name = "threadfold", version, arg_required_else_help = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    match Args::parse().command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.tell(),
    }
}
