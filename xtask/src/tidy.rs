//! `cargo xtask tidy`: checks what no compiler does.
//!
//! This file gathers what is to be looked at; each check is a pure function in a file of
//! its own, from text to findings.

mod agent_names;
mod arrows;
mod crates;
mod fence;
mod finding;
mod header;
mod ignored;
mod included;
mod pure;
mod size;
mod workspace;

use std::fs;

use anyhow::{Context, Result, bail};

use crate::shell;
use crate::tidy::finding::Finding;
use crate::tidy::workspace::{Member, SourceFile};

pub(crate) fn run() -> Result<()> {
    let members = workspace::members()?;
    let files = workspace::source_files()?;

    let mut findings = arrows::check(&members);
    findings.extend(check_pure_crates(&members)?);
    for file in &files {
        findings.extend(size::check(file));
        findings.extend(header::check(file));
        findings.extend(ignored::check(file));
        findings.extend(included::check(file));
        findings.extend(agent_names::check(file));
    }

    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => println!("tidy: ok ({} files, {} crates)", files.len(), members.len()),
        1 => bail!("tidy has 1 finding"),
        count => bail!("tidy has {count} findings"),
    }
    Ok(())
}

fn check_pure_crates(members: &[Member]) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let mut trees = Vec::new();
    for member in members.iter().filter(|it| crates::is_pure(&it.name)) {
        trees.push((member, pure::read_tree(&member.name)?));

        let path = member.manifest.path.replace("Cargo.toml", "clippy.toml");
        let text = fs::read_to_string(shell::root().join(&path)).unwrap_or_default();
        findings.extend(fence::check(&SourceFile { path, text }));
    }

    let list = fs::read_to_string(shell::root().join(pure::LIST))
        .with_context(|| format!("`{}` cannot be read", pure::LIST))?;
    findings.extend(pure::check(&list, &trees));
    Ok(findings)
}
