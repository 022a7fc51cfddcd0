//! `cargo xtask parity`: compares recorded pairs of stream and transcript, and mutates them.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;

use crate::shell;

/// Which pairs to compare.
#[derive(Args)]
pub(crate) struct ParityArgs {
    /// The folder that the recorded pairs are in, at any depth; default: the project's recordings
    path: Option<PathBuf>,
    /// Try one of this many mutations
    #[arg(long, default_value_t = 1)]
    share: usize,
}

/// Runs the check, and ends as it ends: 0 all in order, 1 something found, 2 not readable.
pub(crate) fn run(args: &ParityArgs) -> Result<ExitCode> {
    let recordings = || shell::root().join("crates/threadfold-convert/tests/data");
    let path = args.path.clone().unwrap_or_else(recordings);
    let path = std::path::absolute(&path)
        .with_context(|| format!("`{}` is not a path", path.display()))?;
    let run = "cargo run --quiet --locked --release --package threadfold-testkit --bin parity --";
    let code = shell::exit_code(shell::command(run).arg(path).arg(args.share.to_string()))?;
    Ok(ExitCode::from(code))
}
