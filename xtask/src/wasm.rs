//! `cargo xtask wasm`: builds the reducer and the converters for WebAssembly.
//!
//! The built files are committed, so that nobody needs this toolchain to use them. Beside them is
//! what they were built from, and with which compiler: where that differs, a check says so.

mod inputs;
mod order;
mod record;
mod toolchain;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::shell;
use record::BuildRecord;
use toolchain::Toolchain;

const TARGET: &str = "wasm32-unknown-unknown";
/// The pure crates, of which the last depends on all others.
const PURE: &str = "threadfold-fold";
const PACKAGE: &str = "threadfold-wasm";
/// Where the built files are, with their record.
const BUILT: &str = "bindings/wasm/built";

/// The modules: the reducer alone, as small as it gets; with converters, where the reducer is
/// faster; and with everything, for those who compare a stream with its transcript.
const MODULES: [(&str, &[&str]); 3] = [
    ("threadfold-core.wasm", &["--no-default-features"]),
    (
        "threadfold.wasm",
        &[
            "--no-default-features",
            "--features=convert",
            "--config",
            "profile.wasm.package.threadfold-core.opt-level=\"s\"",
        ],
    ),
    ("threadfold-verify.wasm", &[]),
];

/// What is built for WebAssembly
#[derive(Args)]
pub(crate) struct WasmArgs {
    /// Check only that the pure crates compile for WebAssembly
    #[arg(long)]
    check_pure: bool,
    /// Build, and compare with the committed files instead of replacing them
    #[arg(long, conflicts_with = "check_pure")]
    check: bool,
}

pub(crate) fn run(args: &WasmArgs) -> Result<()> {
    if args.check_pure {
        return check_pure();
    }
    let toolchain = Toolchain::find()?;
    let built = build(&toolchain)?;
    let record = BuildRecord::of(&toolchain, &built)?;
    if args.check {
        return check(&record, &built);
    }
    let folder = shell::root().join(BUILT);
    fs::create_dir_all(&folder)?;
    for (name, bytes) in &built {
        fs::write(folder.join(name), bytes)?;
        println!("wasm: `{BUILT}/{name}` has {} KB", bytes.len() / 1000);
    }
    record.write(&folder)
}

fn check_pure() -> Result<()> {
    let toolchain = Toolchain::find()?;
    let mut check = toolchain.cargo("check")?;
    check.args(["--package", PURE]);
    shell::run(&mut check)?;
    println!("wasm: `{PURE}` and all that it depends on compile for {TARGET}");
    Ok(())
}

/// Builds the modules, and returns their names and bytes.
fn build(toolchain: &Toolchain) -> Result<Vec<(&'static str, Vec<u8>)>> {
    let mut built = Vec::new();
    for (name, flags) in MODULES {
        let mut command: Command = toolchain.cargo("build")?;
        command.args(flags).args(["--package", PACKAGE, "--profile", "wasm"]);
        shell::run(&mut command)?;
        let file: PathBuf =
            shell::target()?.join("wasm").join(TARGET).join("wasm/threadfold_wasm.wasm");
        let bytes = fs::read(&file).with_context(|| format!("`{}`", file.display()))?;
        built.push((name, order::sort_functions(&bytes)?));
    }
    Ok(built)
}

/// Compares what was built with what is committed.
fn check(record: &BuildRecord, built: &[(&str, Vec<u8>)]) -> Result<()> {
    let folder = shell::root().join(BUILT);
    let committed = BuildRecord::read(&folder)?;
    if committed.inputs != record.inputs {
        bail!("`{BUILT}` was built from other sources: run `cargo xtask wasm`");
    }
    if committed.toolchain != record.toolchain {
        println!(
            "wasm: `{BUILT}` was built by `{}`, and this is `{}`: their bytes cannot be compared",
            committed.toolchain, record.toolchain
        );
        return Ok(());
    }
    for (name, bytes) in built {
        if fs::read(folder.join(name))? != *bytes {
            bail!(
                "`{BUILT}/{name}` has other bytes than the same sources give: run `cargo xtask wasm`"
            );
        }
    }
    println!("wasm: `{BUILT}` has the bytes that these sources give");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_modules_were_built_from_these_sources() {
        let committed = BuildRecord::read(&shell::root().join(BUILT)).unwrap();
        let inputs = inputs::hash().unwrap();
        assert_eq!(committed.inputs, inputs, "stale: run `cargo xtask wasm`");
    }

    #[test]
    fn the_committed_modules_are_those_of_their_record() {
        let folder = shell::root().join(BUILT);
        let committed = BuildRecord::read(&folder).unwrap();
        for (name, _) in MODULES {
            let found = record::hash_of(&fs::read(folder.join(name)).unwrap());
            assert_eq!(committed.modules.get(name), Some(&found), "{name}");
        }
    }
}
