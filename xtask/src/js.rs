//! The npm package: what its tests and benchmarks need, and how they are run.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::shell;

/// How many generated streams the tests compare step by step.
const STREAMS: &str = "200";

fn folder() -> PathBuf {
    shell::root().join("bindings/js")
}

fn npm(line: &str) -> Command {
    let mut command = shell::command(line);
    command.current_dir(folder());
    command
}

/// Installs what the package's tests need, by its lock file, and Chromium where it is missing.
pub(crate) fn install() -> Result<()> {
    if !shell::succeeds(&mut shell::command("npm --version")) {
        bail!("`npm` is missing: install Node 20 or newer");
    }
    if !shell::succeeds(&mut shell::command("chromium --version")) {
        shell::run(&mut shell::command("apt-get update"))?;
        shell::run(&mut shell::command("apt-get install --yes --no-install-recommends chromium"))?;
    }
    shell::run(&mut npm("npm ci --no-audit --no-fund"))
}

/// Builds the package, the program that its tests talk to, and the states that they compare with.
pub(crate) fn prepare() -> Result<()> {
    // As the tests are built: with another selection of packages, most would be compiled again.
    crate::test::cargo("nextest run --workspace --locked --no-run")?;
    let target = shell::target()?;
    let mut fixtures = Command::new(target.join("debug/js_fixtures"));
    shell::run(fixtures.arg(target.join("js-fixtures")).arg(STREAMS))?;
    build()
}

/// Builds the package alone.
pub(crate) fn build() -> Result<()> {
    shell::run(&mut npm("node scripts/build.mjs"))
}

/// Runs the package's tests: types, behaviour, packaging and browsers.
pub(crate) fn test() -> Result<()> {
    prepare()?;
    shell::run(&mut vitest(&[])?)
}

/// Returns the test runner for some of the tests.
pub(crate) fn vitest(filters: &[&str]) -> Result<Command> {
    let mut command = npm("npx vitest run");
    command.args(filters).env("THREADFOLD_PROGRAM", shell::target()?.join("debug/threadfold"));
    command.env("THREADFOLD_FIXTURES", shell::target()?.join("js-fixtures"));
    Ok(command)
}

/// Measures the package beside plain JavaScript and the native reducer, then frames in a browser.
pub(crate) fn bench() -> Result<()> {
    install()?;
    prepare()?;
    let native = "cargo build --locked --release --package threadfold-testkit --bin native_reduce";
    shell::run(&mut shell::command(native))?;
    let mut reduce = npm("node --expose-gc bench/reduce.mjs");
    reduce.env("NODE_ENV", "production");
    reduce.env("THREADFOLD_NATIVE_REDUCE", shell::target()?.join("release/native_reduce"));
    shell::run(&mut reduce)?;
    let mut frames = vitest(&["tests/browser/browser.test.ts", "-t", "frames short"])?;
    frames.env("THREADFOLD_FRAME_RUNS", "5").env("THREADFOLD_FRAME_SECONDS", "10");
    shell::run(&mut frames)
}
