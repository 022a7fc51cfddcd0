//! `cargo xtask test`: the one command that sets up, checks and tests everything.
//!
//! Cheap checks come first, so that a missing space is not found after minutes of tests.

use std::path::Path;
use std::time::Instant;
use std::{env, fs};

use anyhow::{Context, Result};

use crate::{disk_space, js, shell, skipped, tidy, web};

pub(crate) fn run() -> Result<()> {
    let target = shell::target()?;
    disk_space::warn_if_short(&target);
    let result = check_all(&target);
    if result.is_err() {
        disk_space::warn_if_short(&target);
    }
    result
}

fn check_all(target: &Path) -> Result<()> {
    let start = Instant::now();
    let skipped = skipped::list(target);
    skipped::clear(&skipped)?;
    step("test runner", ensure_nextest)?;
    step("programs", ensure_programs)?;
    step("formatting", || cargo("fmt --all --check"))?;
    step("lints", || cargo("clippy --workspace --all-targets --locked -- -D warnings"))?;
    step("tidy", tidy::run)?;
    // Without target flags: everything but the benchmarks.
    step("tests", || {
        cargo(&format!("nextest run --workspace --locked --test-threads {}", threads()))
    })?;
    step("npm packages", js::install)?;
    step("the npm package", js::test)?;
    step("the page", web::test)?;
    step("examples in docs", || cargo("test --doc --workspace --locked"))?;
    step("docs", build_docs)?;
    for line in skipped::read(&skipped)? {
        eprintln!("    {line}");
    }
    eprintln!("==> all passed in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Returns how many tests run at once: more than there are processors, for a third of the time a test
/// waits for a process, a disk or a clock.
fn threads() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    processors + processors.div_ceil(2)
}

/// Announces a step, runs it, and reports how long it took.
fn step(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    eprintln!("==> {name}");
    let start = Instant::now();
    work().with_context(|| format!("the step `{name}` did not pass"))?;
    eprintln!("    {name}: {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Runs cargo as all steps do.
pub(crate) fn cargo(arguments: &str) -> Result<()> {
    let mut command = shell::command(&format!("cargo {arguments}"));
    // Incremental data is useless without a next build, and doubles the size.
    if env::var_os("CI").is_some() && env::var_os("CARGO_INCREMENTAL").is_none() {
        command.env("CARGO_INCREMENTAL", "0");
    }
    shell::run(&mut command)
}

fn ensure_nextest() -> Result<()> {
    if shell::succeeds(&mut shell::command("cargo nextest --version")) {
        return Ok(());
    }
    cargo("install cargo-nextest --locked")
}

/// Installs what tests need besides cargo.
fn ensure_programs() -> Result<()> {
    ensure_curl()?;
    ensure_postgres()
}

/// The tests of the server use it as a client that everybody has.
fn ensure_curl() -> Result<()> {
    if shell::succeeds(&mut shell::command("curl --version")) {
        return Ok(());
    }
    shell::run(&mut shell::command("apt-get update"))?;
    shell::run(&mut shell::command("apt-get install --yes curl"))
}

/// Tests start servers of their own, each in a temporary folder.
fn ensure_postgres() -> Result<()> {
    let has_server = |version: &fs::DirEntry| version.path().join("bin/postgres").exists();
    let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    if installed.into_iter().any(|it| has_server(&it)) {
        return Ok(());
    }
    shell::run(&mut shell::command("apt-get update"))?;
    shell::run(&mut shell::command("apt-get install --yes --no-install-recommends postgresql"))
}

fn build_docs() -> Result<()> {
    shell::run(
        shell::command("cargo doc --workspace --no-deps --locked")
            .env("RUSTDOCFLAGS", "-Dwarnings"),
    )
}
