//! `cargo xtask corpus`: checks real sessions in place.

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

/// Runs the check and returns its exit code: 0 ok, 1 findings, 2 unreadable.
pub(crate) fn run(args: &CorpusArgs) -> Result<ExitCode> {
    let path = std::path::absolute(&args.path)
        .with_context(|| format!("`{}` is not a path", args.path.display()))?;
    let run = "cargo run --quiet --locked --release --package threadfold-testkit --bin corpus --";
    let code = shell::exit_code(shell::command(run).arg(path))?;
    Ok(ExitCode::from(code))
}
