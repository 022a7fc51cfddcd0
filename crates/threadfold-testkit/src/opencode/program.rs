//! The program itself: a pinned version, found or installed.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::server::{self, Server};
use crate::{
    AgentHome, Availability, TestkitError,
    install::{self, Package},
};

/// A real OpenCode that can be run.
#[derive(Clone, Debug)]
pub struct OpenCode {
    binary: PathBuf,
}

impl OpenCode {
    /// The npm package that brings the binary.
    pub const PACKAGE: &str = "opencode-ai";
    /// The version of the package, and of OpenCode.
    pub const VERSION: &str = "1.18.33";

    /// Finds OpenCode under `agents`, or installs it there from npm.
    ///
    /// Of several processes that ask at once, one installs and the others wait for it.
    pub fn find(agents: &Path) -> Result<Availability<Self>, TestkitError> {
        let package = Package {
            name: Self::PACKAGE,
            version: Self::VERSION,
            folder: Self::PACKAGE,
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

    /// Starts a server that talks to the model at `model_url`, and waits until it answers.
    ///
    /// It is ended when it is dropped.
    pub fn serve<'a>(
        &self,
        home: &'a AgentHome,
        model_url: &str,
    ) -> Result<Server<'a>, TestkitError> {
        server::start(&self.binary, home, model_url)
    }
}

/// Returns the binary for this platform; of two, the one that needs the newer processor.
fn installed(modules: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(modules).ok()?;
    let folders = entries.filter_map(Result::ok).map(|it| it.path());
    folders.map(|it| it.join("bin").join("opencode")).filter(|it| it.is_file()).min()
}
