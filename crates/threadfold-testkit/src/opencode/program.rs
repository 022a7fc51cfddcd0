//! The program itself: a pinned version, found or installed.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::newer_server::{self, NewerServer};
use super::server::{self, Server};
use crate::{
    AgentHome, Availability, TestkitError,
    install::{self, Package},
};

/// A real OpenCode that can be run.
#[derive(Clone, Debug)]
pub struct OpenCode {
    version: String,
    binary: PathBuf,
}

impl OpenCode {
    /// The npm package that contains the binary.
    pub const PACKAGE: &str = "opencode-ai";
    /// The version of the package, and of OpenCode.
    pub const VERSION: &str = "1.18.33";
    /// The npm package of version 2, which exists for one platform only.
    pub const NEWER_PACKAGE: &str = "@opencode/cli-linux-x64-baseline";
    /// The release of version 2 that tests use.
    pub const NEWER_VERSION: &str = "2.0.15";

    /// Finds the version that tests use under `agents`, or installs it there from npm.
    ///
    /// If several processes call this at once, one installs and the others wait.
    pub fn find(agents: &Path) -> Result<Availability<Self>, TestkitError> {
        Self::find_version(agents, Self::VERSION)
    }

    /// Finds any version under `agents`, or installs it there from npm.
    pub fn find_version(agents: &Path, version: &str) -> Result<Availability<Self>, TestkitError> {
        let package = match version.starts_with("2.") {
            true => Package {
                name: Self::NEWER_PACKAGE,
                version,
                folder: "opencode-cli",
                binary: |modules| installed(&modules.join("@opencode")),
            },
            false => {
                Package { name: Self::PACKAGE, version, folder: Self::PACKAGE, binary: installed }
            }
        };
        Ok(match install::find(&package, agents)? {
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

    /// Returns the path of the binary.
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// Starts a server of version 2 that uses the model at `model_url`, and waits until it responds.
    ///
    /// Dropping it stops the server.
    pub fn serve_newer<'a>(
        &self,
        home: &'a AgentHome,
        model_url: &str,
    ) -> Result<NewerServer<'a>, TestkitError> {
        newer_server::start(&self.binary, home, model_url)
    }

    /// Starts a server that uses the model at `model_url`, and waits until it responds.
    ///
    /// Dropping it stops the server.
    pub fn serve<'a>(
        &self,
        home: &'a AgentHome,
        model_url: &str,
    ) -> Result<Server<'a>, TestkitError> {
        server::start(&self.binary, home, model_url)
    }
}

/// Returns the binary for this platform; if there are two, the one for newer processors.
fn installed(modules: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(modules).ok()?;
    let folders = entries.filter_map(Result::ok).map(|it| it.path());
    folders.map(|it| it.join("bin").join("opencode")).filter(|it| it.is_file()).min()
}
