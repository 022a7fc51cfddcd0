//! `cargo xtask fuzz`: fuzzes for a short time.
//!
//! It needs a nightly toolchain: without one it is skipped with a notice, unless `--require` is
//! given. The generated corpus stays in `fuzz/target`; `fuzz/corpus` contains the seeds, few and
//! small.

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};

use crate::shell;

/// Where inputs that violate an invariant are stored, as regression tests of converters and fold.
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

/// The targets; each is a binary of `fuzz` with the same name.
#[derive(Clone, Copy, ValueEnum)]
enum Target {
    /// Bytes to lines, however they are cut
    Lines,
    /// Records recovered from corrupt lines
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
    /// Lines of Codex's streams and rollouts to a state
    Codex,
    /// Frames of a WebSocket's client
    #[value(name = "websocket_frame")]
    WebsocketFrame,
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
        Target::Codex => "codex",
        Target::WebsocketFrame => "websocket_frame",
    };
    let learnt = shell::root().join("fuzz/target/corpus").join(name);
    std::fs::create_dir_all(&learnt)
        .with_context(|| format!("`{}` cannot be made", learnt.display()))?;
    let crashes = match target {
        // The tests of its crate read the seeds.
        Target::WebsocketFrame => "fuzz/corpus",
        _ => CRASHES,
    };
    eprintln!("==> fuzzing `{name}` for {seconds} s");
    // The first folder is written to; the second is only read.
    let result = shell::run(
        shell::command("cargo +nightly fuzz run")
            .arg(name)
            .arg(learnt)
            .arg(shell::root().join("fuzz/corpus").join(name))
            .arg("--")
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-artifact_prefix={}/", shell::root().join(crashes).join(name).display()))
            .arg("-print_final_stats=1"),
    );
    result.with_context(|| {
        format!("`{name}` did not pass; if an input broke it, that is now in `{crashes}/{name}`")
    })
}
