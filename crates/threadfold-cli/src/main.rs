//! The `threadfold` program.

mod commands;
mod error;
mod error_hints;
mod export;
mod import;
mod input;
mod progress;
mod provider_keys;
mod push;
mod remote;
mod run;
mod runtime;
mod serve;
mod sessions;
mod stop;
mod store;
mod surroundings;
mod terminal;
mod unfinished;
mod unread;
mod view;
mod watch;

use std::process::ExitCode;

use clap::Parser;
use threadfold_export::printable;

use crate::commands::Command;

/// Show and store sessions of AI agents, and run agent loops that survive crashes
#[derive(Parser)]
#[command(name = "threadfold", version, arg_required_else_help = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    match Args::parse().command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(),
    }
}
