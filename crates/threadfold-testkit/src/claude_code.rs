//! Runs real Claude Code in a test: a pinned version, a clean environment, loopback only.
//!
//! The agent sees none of the machine's variables and none of its home folder, so a run is the
//! same everywhere and can spend nobody's money.

mod options;
mod run;

use std::{
    fs,
    path::{Path, PathBuf},
};

pub use self::{
    options::{Input, RunOptions},
    run::{Finished, Running},
};
use crate::{
    Availability, TestkitError,
    install::{self, Package},
};

/// A real Claude Code that can be run.
#[derive(Clone, Debug)]
pub struct ClaudeCode {
    binary: PathBuf,
}

impl ClaudeCode {
    /// The npm package that brings the binary.
    pub const PACKAGE: &str = "@anthropic-ai/claude-agent-sdk";
    /// The version of the package.
    pub const PACKAGE_VERSION: &str = "0.3.325";
    /// The version of Claude Code inside.
    pub const VERSION: &str = "2.1.325";

    /// Finds Claude Code under `agents`, or installs it there from npm.
    ///
    /// Of several processes that ask at once, one installs and the others wait for it.
    pub fn find(agents: &Path) -> Result<Availability<Self>, TestkitError> {
        let package = Package {
            name: Self::PACKAGE,
            version: Self::PACKAGE_VERSION,
            folder: "claude-agent-sdk",
            binary: installed,
        };
        Ok(match install::find(&package, agents)? {
            Availability::Found(binary) => Availability::Found(Self { binary }),
            Availability::Unavailable(reason) => Availability::Unavailable(reason),
        })
    }

    /// Returns the path of the binary.
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// Starts a run, whose lines are then read as they come.
    pub fn start<'a>(&self, options: &RunOptions<'a>) -> Result<Running<'a>, TestkitError> {
        run::start(&self.binary, options)
    }

    /// Runs to the end.
    pub fn run(&self, options: &RunOptions<'_>) -> Result<Finished, TestkitError> {
        self.start(options)?.finish()
    }
}

fn installed(modules: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(modules.join("@anthropic-ai")).ok()?;
    entries.filter_map(Result::ok).map(|it| it.path().join("claude")).find(|it| it.is_file())
}
