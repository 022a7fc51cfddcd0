//! The workspace's crates (from cargo) and files (from git).

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::shell;

/// A file of text, with its path from the workspace's root.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SourceFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl SourceFile {
    pub(crate) fn extension(&self) -> &str {
        let extension = Path::new(&self.path).extension();
        extension.and_then(|it| it.to_str()).unwrap_or_default()
    }
}

/// A crate of the workspace.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) manifest: SourceFile,
    pub(crate) dependencies: Vec<Dependency>,
}

impl Member {
    /// Returns the line of the manifest that names `dependency`, or the first.
    pub(crate) fn line_of(&self, dependency: &str) -> usize {
        let names_it = |line: &str| {
            line.strip_prefix(dependency).is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
                || line.ends_with(&format!("dependencies.{dependency}]"))
        };
        let index = self.manifest.text.lines().position(names_it);
        index.map_or(1, |it| it + 1)
    }
}

/// A dependency that a crate declares.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) kind: Option<DependencyKind>,
}

/// What a dependency is for, when it is not for the crate itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DependencyKind {
    Dev,
    Build,
}

/// Returns the crates of the workspace.
pub(crate) fn members() -> Result<Vec<Member>> {
    let json =
        shell::read(&mut shell::command("cargo metadata --format-version 1 --no-deps --locked"))?;
    let metadata: Metadata =
        serde_json::from_str(&json).context("cannot parse the output of `cargo metadata`")?;
    metadata.packages.into_iter().map(member).collect()
}

/// Returns the files that git tracks, or would with the next `git add`, as far as they are
/// source code.
pub(crate) fn source_files() -> Result<Vec<SourceFile>> {
    let paths = shell::read(&mut shell::command(
        "git ls-files -z --cached --others --exclude-standard --deduplicate -- *.rs *.ts *.tsx *.py",
    ))?;
    let mut files = Vec::new();
    for path in paths.split_terminator('\0') {
        let place = shell::root().join(path);
        // A file that was deleted and not committed yet is still listed.
        if place.is_file() {
            files.push(read(path, &place)?);
        }
    }
    Ok(files)
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: String,
    dependencies: Vec<Dependency>,
}

fn member(package: Package) -> Result<Member> {
    let place = Path::new(&package.manifest_path);
    let path = place.strip_prefix(shell::root()).unwrap_or(place);
    Ok(Member {
        name: package.name,
        manifest: read(&path.to_string_lossy(), place)?,
        dependencies: package.dependencies,
    })
}

fn read(path: &str, place: &Path) -> Result<SourceFile> {
    let bytes = fs::read(place).with_context(|| format!("`{path}` cannot be read"))?;
    Ok(SourceFile { path: path.to_owned(), text: String::from_utf8_lossy(&bytes).into_owned() })
}
