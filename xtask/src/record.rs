//! `cargo xtask record`: records a version of a real agent, and verifies each recording.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use crate::shell;

/// What to record.
#[derive(Args)]
pub(crate) struct RecordArgs {
    /// The agent
    agent: RecordedAgent,
    /// Its version, which is installed from npm into the target folder
    #[arg(long)]
    version: String,
    /// Where the recordings go, a folder per scenario; default: a folder in the target folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Verify recordings that are there, without running the agent
    #[arg(long)]
    only_verify: bool,
    /// The scenarios; default: all that the version can play
    scenarios: Vec<String>,
}

/// Agents that have scenarios.
#[derive(Clone, Copy, ValueEnum)]
enum RecordedAgent {
    /// Claude Code
    Claude,
    /// OpenCode
    Opencode,
    /// Codex
    Codex,
}

impl RecordedAgent {
    fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Opencode => "opencode",
            Self::Codex => "codex",
        }
    }
}

/// Records and verifies: 0 nothing is different, 1 something is, 2 the agent cannot run here.
pub(crate) fn run(args: &RecordArgs) -> Result<ExitCode> {
    let target = shell::target()?;
    let agent = args.agent.name();
    let out = match &args.out {
        Some(out) => std::path::absolute(out)
            .with_context(|| format!("`{}` is not a path", out.display()))?,
        None => target.join("recordings").join(format!("{agent}-{}", args.version)),
    };
    let run = "cargo run --quiet --locked --package threadfold-testkit --bin record --";
    let mut command = shell::command(run);
    command.args([agent, &args.version]);
    command.arg("--agents").arg(target.join("agents")).arg("--out").arg(&out);
    if args.only_verify {
        command.arg("--only-verify");
    }
    let code = shell::exit_code(command.args(&args.scenarios))?;
    eprintln!("recordings are in `{}`", out.display());
    Ok(ExitCode::from(code))
}
