//! The hash of everything that a module is built from.

use std::fs;

use anyhow::{Context, Result};

use super::{PACKAGE, TARGET};
use crate::shell;

/// The crates in a module, by folder.
const CRATES: [&str; 4] = [
    "bindings/wasm",
    "crates/threadfold-convert",
    "crates/threadfold-core",
    "crates/threadfold-fold",
];

/// Returns the hash of the sources, the versions of all dependencies and the profiles.
pub(super) fn hash() -> Result<String> {
    let mut hasher = blake3::Hasher::new();
    let mut add = |name: &str, bytes: &[u8]| {
        hasher.update(&(name.len() as u64).to_le_bytes());
        hasher.update(name.as_bytes());
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    for path in source_paths()? {
        let bytes = fs::read(shell::root().join(&path)).with_context(|| format!("`{path}`"))?;
        add(&path, &bytes);
    }
    add("dependencies", dependencies()?.as_bytes());
    add("profiles", profiles()?.as_bytes());
    Ok(hasher.finalize().to_hex().to_string())
}

/// Returns the paths of sources and manifests, without those of tests.
fn source_paths() -> Result<Vec<String>> {
    let mut list =
        shell::command("git ls-files -z --cached --others --exclude-standard --deduplicate --");
    list.args(CRATES);
    let listed = shell::read(&mut list)?;
    let is_input = |path: &&str| {
        let is_manifest = path.ends_with("/Cargo.toml");
        let is_source = path.contains("/src/") && !path.ends_with("/tests.rs");
        (is_manifest || is_source) && shell::root().join(path).is_file()
    };
    let mut paths: Vec<_> =
        listed.split_terminator('\0').filter(is_input).map(str::to_owned).collect();
    paths.sort();
    paths.dedup();
    Ok(paths)
}

/// Returns all dependencies of a module with their versions and features.
fn dependencies() -> Result<String> {
    let mut tree = shell::command("cargo tree --locked --edges normal --prefix none --package");
    tree.args([PACKAGE, "--target", TARGET, "--format", "{p} {f}"]);
    let listed = shell::read(&mut tree)?;
    // A crate of the workspace is listed with its path, which differs from machine to machine.
    let mut names: Vec<String> = listed
        .lines()
        .map(|line| line.replace(" (*)", "").replace(&format!("{}", shell::root().display()), ""))
        .collect();
    names.sort();
    names.dedup();
    Ok(names.join("\n"))
}

/// Returns the profiles of the workspace that a module is built with.
fn profiles() -> Result<String> {
    let manifest = fs::read_to_string(shell::root().join("Cargo.toml"))?;
    let is_meant = |section: &&str| {
        section.starts_with("profile.wasm") || section.starts_with("profile.release]")
    };
    Ok(manifest.split("\n[").filter(is_meant).collect())
}
