//! `cargo xtask tidy`: checks that the compiler does not make.
//!
//! This file collects the inputs; each check is a pure function from text to findings, in a
//! separate file.

mod agent_names;
mod crates;
mod dependencies;
mod deployment;
mod error_causes;
mod exports;
mod finding;
mod header;
mod ignored;
mod included;
mod pure_dependencies;
mod pure_lints;
mod size;
mod type_names;
mod unsafe_code;
mod workspace;

use std::fs;

use anyhow::{Context, Result, bail};

use crate::shell;
use crate::tidy::finding::Finding;
use crate::tidy::workspace::{Member, SourceFile};

pub(crate) fn run() -> Result<()> {
    let members = workspace::members()?;
    let files = workspace::source_files()?;

    let mut findings = dependencies::check(&members);
    findings.extend(members.iter().filter_map(unsafe_code::check_member));
    findings.extend(check_pure_crates(&members)?);
    findings.extend(check_exports(&members, &files)?);
    findings.extend(deployment::check()?);
    for file in &files {
        findings.extend(size::check(file));
        findings.extend(header::check(file));
        findings.extend(ignored::check(file));
        findings.extend(included::check(file));
        findings.extend(agent_names::check(file));
        findings.extend(type_names::check(file));
        findings.extend(unsafe_code::check(file));
        if crates::is_product_source(&file.path) {
            findings.extend(error_causes::check(file));
        }
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

fn check_exports(members: &[Member], files: &[SourceFile]) -> Result<Vec<Finding>> {
    let text = fs::read_to_string(shell::root().join(exports::TABLE))
        .with_context(|| format!("`{}` cannot be read", exports::TABLE))?;
    let table = SourceFile { path: exports::TABLE.to_owned(), text };
    let mut findings = Vec::new();
    for member in members.iter().filter(|it| crates::is_product(&it.name)) {
        let path = member.manifest.path.replace("Cargo.toml", "src/lib.rs");
        if let Some(library) = files.iter().find(|it| it.path == path) {
            findings.extend(exports::check(&table, &member.name, library));
        }
    }
    Ok(findings)
}

fn check_pure_crates(members: &[Member]) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let mut trees = Vec::new();
    for member in members.iter().filter(|it| crates::is_pure(&it.name)) {
        trees.push((member, pure_dependencies::read_tree(&member.name)?));

        let path = member.manifest.path.replace("Cargo.toml", "clippy.toml");
        let text = fs::read_to_string(shell::root().join(&path)).unwrap_or_default();
        findings.extend(pure_lints::check(&SourceFile { path, text }));
    }

    let list = fs::read_to_string(shell::root().join(pure_dependencies::LIST))
        .with_context(|| format!("`{}` cannot be read", pure_dependencies::LIST))?;
    findings.extend(pure_dependencies::check(&list, &trees));
    Ok(findings)
}
