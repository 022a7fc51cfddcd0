//! `cargo xtask fuzz`: looks for bytes that break a law, for a short while.
//!
//! It needs a nightly toolchain, which not everybody has: without one it says so and is content,
//! unless it is required. What it learns about inputs stays in `fuzz/target`; `fuzz/corpus` holds
//! the seeds, which stay few and small.

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};

use crate::shell;

/// Where an input that breaks a law goes; the tests of the converters and of the fold play it again.
const CRASHES: &str = "crates/threadfold-convert/tests/data/crashes";

/// What to fuzz, and how long.
#[derive(Args)]
pub(crate) struct FuzzArgs {
    /// Which target to run, instead of all
    target: Option<Target>,
    /// How long to run each target
    #[arg(long, default_value_t = 10, value_name = "N")]
    seconds: u32,
    /// Fail where there is no nightly toolchain
    #[arg(long)]
    require: bool,
}

/// The targets there are; each is a binary of `fuzz` with the same name.
#[derive(Clone, Copy, ValueEnum)]
enum Target {
    /// Bytes to lines, however they are cut
    Lines,
    /// Records out of damaged lines
    Recover,
    /// Events from JSON and back
    Event,
    /// Lines of Claude Code's stream to a state
    #[value(name = "claude_stream")]
    ClaudeStream,
    /// Files of Claude Code to a state
    #[value(name = "claude_transcript")]
    ClaudeTranscript,
    /// Lines of OpenCode's bus and store to a state
    Opencode,
}

pub(crate) fn run(args: &FuzzArgs) -> Result<()> {
    if !shell::succeeds(&mut shell::command("cargo +nightly --version")) {
        ensure!(!args.require, "there is no nightly toolchain, and fuzzing needs one");
        eprintln!("==> NOT FUZZED: there is no nightly toolchain");
        eprintln!("hint: `rustup toolchain install nightly` adds one");
        return Ok(());
    }
    if !shell::succeeds(&mut shell::command("cargo +nightly fuzz --version")) {
        shell::run(&mut shell::command("cargo install cargo-fuzz --locked"))?;
    }
    let targets = args.target.as_ref().map_or(Target::value_variants(), std::slice::from_ref);
    targets.iter().try_for_each(|target| run_target(*target, args.seconds))
}

fn run_target(target: Target, seconds: u32) -> Result<()> {
    let name = match target {
        Target::Lines => "lines",
        Target::Recover => "recover",
        Target::Event => "event",
        Target::ClaudeStream => "claude_stream",
        Target::ClaudeTranscript => "claude_transcript",
        Target::Opencode => "opencode",
    };
    let learnt = shell::root().join("fuzz/target/corpus").join(name);
    std::fs::create_dir_all(&learnt)
        .with_context(|| format!("`{}` cannot be made", learnt.display()))?;
    let crashes = shell::root().join(CRASHES).join(name);
    eprintln!("==> fuzzing `{name}` for {seconds} s");
    // The first folder is written to; the second is only read.
    let result = shell::run(
        shell::command("cargo +nightly fuzz run")
            .arg(name)
            .arg(learnt)
            .arg(shell::root().join("fuzz/corpus").join(name))
            .arg("--")
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-artifact_prefix={}/", crashes.display()))
            .arg("-print_final_stats=1"),
    );
    result.with_context(|| {
        format!("`{name}` did not pass; if an input broke it, that is now in `{CRASHES}/{name}`")
    })
}
