//! The program itself: a pinned version, found or installed.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use super::{AppServer, CodexOptions, app_server};
use crate::{
    AgentProcess, Availability, TestkitError,
    install::{self, Package},
    process::{self, ProcessSetup},
};

/// A real Codex that can be run.
#[derive(Clone, Debug)]
pub struct Codex {
    version: String,
    binary: PathBuf,
}

impl Codex {
    /// The npm package, which contains the binary or depends on a package that does.
    pub const PACKAGE: &str = "@openai/codex";
    /// The version that tests use.
    pub const VERSION: &str = "0.166.0";

    /// Finds the version that tests use under `agents`, or installs it there from npm.
    ///
    /// If several processes call this at once, one installs and the others wait.
    pub fn find(agents: &Path) -> Result<Availability<Self>, TestkitError> {
        Self::find_version(agents, Self::VERSION)
    }

    /// Finds any version under `agents`, or installs it there from npm.
    pub fn find_version(agents: &Path, version: &str) -> Result<Availability<Self>, TestkitError> {
        let package = Package { name: Self::PACKAGE, version, folder: "codex", binary: installed };
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

    /// Starts `codex exec --json` with further arguments, the prompt among them.
    pub fn exec<'a>(
        &self,
        options: &CodexOptions<'a>,
        arguments: &[&str],
    ) -> Result<AgentProcess<'a>, TestkitError> {
        let mut all = vec!["exec"];
        all.extend(arguments);
        self.start(options, &all, Stdio::null())
    }

    /// Starts `codex app-server` and introduces a client to it.
    pub fn app_server<'a>(
        &self,
        options: &CodexOptions<'a>,
    ) -> Result<AppServer<'a>, TestkitError> {
        let process = self.start(options, &["app-server"], Stdio::piped())?;
        app_server::introduce(process)
    }

    fn start<'a>(
        &self,
        options: &CodexOptions<'a>,
        arguments: &[&str],
        stdin: Stdio,
    ) -> Result<AgentProcess<'a>, TestkitError> {
        let mut command = options.command(&self.binary)?;
        command.args(arguments);
        let home = options.home;
        let transcripts = home.codex();
        process::start(command, ProcessSetup { home, transcripts, limit: options.limit, stdin })
    }
}

/// Returns the binary for this platform.
///
/// Old versions have the binaries of all platforms in one package, newer ones a package for each.
fn installed(modules: &Path) -> Option<PathBuf> {
    let system = match env::consts::OS {
        "macos" => "apple-darwin",
        other => other,
    };
    let is_ours = |it: &PathBuf| {
        let name = it.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(env::consts::ARCH) && name.contains(system)
    };
    let folders = |path: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(path).ok().into_iter().flatten();
        entries.filter_map(Result::ok).map(|it| it.path()).collect()
    };
    folders(&modules.join("@openai"))
        .iter()
        .flat_map(|package| folders(&package.join("vendor")))
        .filter(is_ours)
        .flat_map(|it| ["bin", "codex"].map(|folder| it.join(folder).join("codex")))
        .find(|it| it.is_file())
}
