//! Reports of checks that take long, which are committed below `docs`.

use std::fs;

use anyhow::{Context, Result};

use crate::shell;

pub(crate) fn write_report(path: &str, report: &str) -> Result<()> {
    let path = shell::root().join(path);
    fs::write(&path, report).with_context(|| format!("`{}` cannot be written", path.display()))
}

/// Returns the commit that is checked out, with its date.
pub(crate) fn commit() -> Result<String> {
    let commit = shell::read(&mut shell::command("git log -1 --format=%h,%cs"))?;
    let (hash, date) = commit.trim().split_once(',').context("`git log` gave no commit")?;
    let changed = shell::read(&mut shell::command("git status --porcelain -- crates"))?;
    let state = if changed.is_empty() { "" } else { " with uncommitted changes" };
    Ok(format!("commit {hash} of {date}{state}"))
}
