//! Runs real Claude Code in a test: a pinned version, a clean environment, loopback only.
//!
//! The agent sees none of the machine's environment variables or home folder, so a run is the same
//! everywhere and cannot incur cost.

mod options;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

pub use self::options::{Input, RunOptions};
use crate::{
    AgentHome, AgentProcess, Availability, ProcessOutput, TestkitError,
    install::{self, Package},
    process::{self, ProcessSetup},
};

/// A real Claude Code that can be run.
#[derive(Clone, Debug)]
pub struct ClaudeCode {
    version: String,
    binary: PathBuf,
}

impl ClaudeCode {
    /// The npm package that contains the binary.
    pub const PACKAGE: &str = "@anthropic-ai/claude-agent-sdk";
    /// The version of the package.
    pub const PACKAGE_VERSION: &str = "0.3.325";
    /// The version of Claude Code inside.
    pub const VERSION: &str = "2.1.325";

    /// Finds the version that tests use under `agents`, or installs it there from npm.
    ///
    /// If several processes call this at once, one installs and the others wait.
    pub fn find(agents: &Path) -> Result<Availability<Self>, TestkitError> {
        let package = Package {
            name: Self::PACKAGE,
            version: Self::PACKAGE_VERSION,
            folder: "claude-agent-sdk",
            binary: installed,
        };
        Self::find_package(&package, agents, Self::VERSION)
    }

    /// Finds any version under `agents`, or installs it there from npm.
    pub fn find_version(agents: &Path, version: &str) -> Result<Availability<Self>, TestkitError> {
        if version == Self::VERSION {
            return Self::find(agents);
        }
        let package = Package {
            name: "@anthropic-ai/claude-code",
            version,
            folder: "claude-code",
            binary: installed,
        };
        Self::find_package(&package, agents, version)
    }

    fn find_package(
        package: &Package<'_>,
        agents: &Path,
        version: &str,
    ) -> Result<Availability<Self>, TestkitError> {
        Ok(match install::find(package, agents)? {
            Availability::Found(binary) => {
                Availability::Found(Self { version: version.to_owned(), binary })
            }
            Availability::Unavailable(reason) => Availability::Unavailable(reason),
        })
    }

    /// Returns the version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns the path of the binary, or of the script in versions that Node.js runs.
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// Returns the text of `--help`, which lists most options of this version.
    pub fn help(&self) -> Result<String, TestkitError> {
        let home = AgentHome::new()?;
        let output = self
            .program()
            .arg("--help")
            .env_clear()
            .env("PATH", options::PATH)
            .env("HOME", home.path())
            .current_dir(home.project())
            .stdin(Stdio::null())
            .output()
            .map_err(TestkitError::io(format!("start `{}`", self.binary.display())))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Returns the command without arguments.
    ///
    /// A script runs with the machine's Node.js, which need not be on the path of the agent.
    fn program(&self) -> Command {
        if self.binary.extension().is_none_or(|it| it != "js") {
            return Command::new(&self.binary);
        }
        let path = env::var_os("PATH").unwrap_or_default();
        let found = env::split_paths(&path).map(|it| it.join("node")).find(|it| it.is_file());
        let mut command = Command::new(found.unwrap_or_else(|| PathBuf::from("node")));
        command.arg(&self.binary);
        command
    }

    /// Starts a run, whose lines are read as they arrive.
    pub fn start<'a>(&self, options: &RunOptions<'a>) -> Result<AgentProcess<'a>, TestkitError> {
        let setup = ProcessSetup {
            home: options.home,
            transcripts: options.home.transcript_root(),
            limit: options.limit,
            stdin: match options.input {
                Input::Prompt(_) => Stdio::null(),
                Input::Lines(_) => Stdio::piped(),
            },
        };
        let mut running = process::start(options.complete(self.program()), setup)?;
        if let Input::Lines(lines) = &options.input {
            for line in lines {
                running.send_line(line)?;
            }
        }
        Ok(running)
    }

    /// Runs to the end.
    pub fn run(&self, options: &RunOptions<'_>) -> Result<ProcessOutput, TestkitError> {
        self.start(options)?.finish()
    }
}

fn installed(modules: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(modules.join("@anthropic-ai")).ok()?;
    let packages: Vec<_> = entries.filter_map(Result::ok).map(|it| it.path()).collect();
    // A version with a binary has a placeholder beside it, so binaries come first.
    ["claude", "cli.js"]
        .iter()
        .flat_map(|name| packages.iter().map(move |it| it.join(name)))
        .find(|it| it.is_file())
}
