//! `cargo xtask web`: builds the page of the server.
//!
//! The built files are committed, so that nobody needs Node to build the server. Beside them is the
//! hash of what they were built from: where that differs, a check says so.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::{js, shell};

/// Where the server embeds the page from.
const BUILT: &str = "crates/threadfold-server/assets";
const RECORD: &str = "built.json";

/// What the page is built from: its own sources, the npm package, and the module of the reducer.
const INPUTS: [&str; 9] = [
    "web/src",
    "web/scripts",
    "web/index.html",
    "web/package.json",
    "web/package-lock.json",
    "web/tsconfig.json",
    "web/vite.config.ts",
    "bindings/js/src",
    "bindings/wasm/built/threadfold-core.wasm",
];

/// How the page is built
#[derive(Args)]
pub(crate) struct WebArgs {
    /// Compare the sources with what the committed files were built from, and build nothing
    #[arg(long)]
    check: bool,
}

#[derive(Serialize, Deserialize)]
struct BuildRecord {
    /// The hash of everything that the page was built from.
    inputs: String,
}

pub(crate) fn run(args: &WebArgs) -> Result<()> {
    if args.check {
        return check();
    }
    js::install()?;
    js::build()?;
    install()?;
    shell::run(&mut npm("npm run build"))?;
    shell::run(&mut npm("node scripts/embed.mjs"))?;
    let record = BuildRecord { inputs: hash()? };
    let text = serde_json::to_string_pretty(&record)? + "\n";
    fs::write(record_path(), text).context("the record cannot be written")
}

/// Installs what the page is built and tested with, by its lock file.
pub(crate) fn install() -> Result<()> {
    shell::run(&mut npm("npm ci --no-audit --no-fund"))
}

/// Checks the types of the page, and tests it in a browser against the program.
pub(crate) fn test() -> Result<()> {
    install()?;
    shell::run(&mut npm("npm run check"))?;
    let mut tests = npm("npx vitest run");
    tests.env("THREADFOLD_PROGRAM", shell::target()?.join("debug/threadfold"));
    tests.env("THREADFOLD_AGENTS", shell::target()?.join("debug/page_agents"));
    shell::run(&mut tests)
}

/// Measures the page in a browser, with the program as users have it.
pub(crate) fn bench() -> Result<()> {
    js::install()?;
    js::build()?;
    install()?;
    shell::run(&mut shell::command("cargo build --locked --release --package threadfold"))?;
    let mut bench = npm("node bench/page.mjs");
    bench.env("THREADFOLD_PROGRAM", shell::target()?.join("release/threadfold"));
    shell::run(&mut bench)
}

fn npm(line: &str) -> Command {
    let mut command = shell::command(line);
    command.current_dir(shell::root().join("web"));
    command
}

fn record_path() -> PathBuf {
    shell::root().join(BUILT).join(RECORD)
}

fn check() -> Result<()> {
    let text =
        fs::read_to_string(record_path()).context("there is no page: run `cargo xtask web`")?;
    let committed: BuildRecord = serde_json::from_str(&text)?;
    if committed.inputs != hash()? {
        bail!("`{BUILT}` was built from other sources: run `cargo xtask web`");
    }
    println!("web: `{BUILT}` was built from these sources");
    Ok(())
}

/// Returns the hash of all inputs.
fn hash() -> Result<String> {
    let mut list =
        shell::command("git ls-files -z --cached --others --exclude-standard --deduplicate --");
    list.args(INPUTS);
    let listed = shell::read(&mut list)?;
    let mut paths: Vec<&str> = listed.split_terminator('\0').collect();
    paths.sort_unstable();
    let mut hasher = blake3::Hasher::new();
    for path in paths {
        let file = shell::root().join(path);
        if !file.is_file() {
            continue;
        }
        let bytes = fs::read(&file).with_context(|| format!("`{path}`"))?;
        for part in [path.as_bytes(), &bytes] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
    }
    Ok(hasher.finalize().to_hex().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_page_was_built_from_these_sources() {
        check().unwrap();
    }
}
