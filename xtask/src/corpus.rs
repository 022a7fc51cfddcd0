//! `cargo xtask corpus`: checks the sessions of other people where they lie.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;

use crate::shell;

/// Which sessions to check.
#[derive(Args)]
pub(crate) struct CorpusArgs {
    /// The folder that the sessions are in, at any depth
    path: PathBuf,
}

/// Runs the check, and ends as it ends: 0 all in order, 1 something found, 2 not readable.
pub(crate) fn run(args: &CorpusArgs) -> Result<ExitCode> {
    let path = std::path::absolute(&args.path)
        .with_context(|| format!("`{}` is not a path", args.path.display()))?;
    let run = "cargo run --quiet --locked --release --package threadfold-testkit --bin corpus --";
    let code = shell::exit_code(shell::command(run).arg(path))?;
    Ok(ExitCode::from(code))
}
