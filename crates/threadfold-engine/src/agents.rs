//! The table of agents: where each keeps its sessions, and how they are read from there.
//!
//! What an agent's bytes mean is in `threadfold-convert`, in a folder of the same name. Everything
//! else that is known about an agent is in its folder here, and the rest of the project asks this
//! table.

pub mod claude;
pub mod opencode;
mod other;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use threadfold_fold::{Agent, Detection};

use crate::discover::{Discovery, FolderTree};
use crate::found::FoundSession;
use crate::input::{InputError, InputOptions};
use crate::server::Server;

/// One row for each agent of `threadfold-convert`.
static AGENTS: [&dyn AgentHome; 3] = [&opencode::Opencode, &claude::Claude, &other::Other];

/// What the engine knows about one agent.
pub(crate) trait AgentHome: Sync {
    /// Returns the agent.
    fn agent(&self) -> Agent;

    /// Returns the environment variables that say where the agent keeps its sessions.
    fn variables(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the folders in which the agent keeps its sessions on this machine.
    fn places(&self, _: &Machine<'_>) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Adds the sessions of one of the agent's own places, without reading their content.
    fn enumerate(&self, _place: &Path, _found: &mut Discovery) {}

    /// Adds the sessions of an agent's place that lost their main file, of all that is below it.
    fn enumerate_orphans(&self, _place: &Path, _found: &mut Discovery) {}

    /// Takes the sessions out of a folder that somebody named, with all files that make them up.
    fn claim(&self, _tree: &mut FolderTree, _found: &mut Discovery) {}

    /// Returns the sessions that a file or a folder of this format holds.
    fn open(
        &self,
        path: &Path,
        input: Detection,
        options: &InputOptions<'_>,
    ) -> Result<Vec<FoundSession>, InputError>;

    /// Recognizes a folder that holds sessions as one unit.
    fn recognize_folder(&self, _folder: &Path) -> Option<Detection> {
        None
    }

    /// Returns the agent's server at an address, if it has servers.
    fn server(&self, _address: &str) -> Option<Result<Box<dyn Server>, InputError>> {
        None
    }

    /// Returns the project of a session, if the path of its main file names it.
    fn project_from_path(&self, _main: &Path, _home: &Path) -> Option<String> {
        None
    }

    /// Says whether a path below this name is a place where the agent keeps files of a session, so
    /// that a restore may write there.
    fn keeps_files_below(&self, _folder_name: &str) -> bool {
        false
    }
}

/// What the places of agents follow from, handed in by the program.
pub struct Machine<'a> {
    /// The user's home folder.
    pub home: PathBuf,
    /// Returns the value of an environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
}

impl Machine<'_> {
    /// Returns the folder that a variable names; one that is empty names none.
    pub(crate) fn folder(&self, variable: &str) -> Option<PathBuf> {
        (self.variable)(variable).filter(|it| !it.is_empty()).map(PathBuf::from)
    }
}

/// Returns all rows, in the order in which formats are recognized.
pub(crate) fn all() -> impl Iterator<Item = &'static dyn AgentHome> {
    AGENTS.into_iter()
}

/// Returns the row of an agent; Threadfold's own events are files like any other's.
pub(crate) fn of(agent: Option<Agent>) -> &'static dyn AgentHome {
    let row = agent.and_then(|agent| all().find(|row| row.agent() == agent));
    row.unwrap_or(&other::Other)
}

/// Returns the environment variables that say where agents keep their sessions.
pub fn place_variables() -> BTreeSet<&'static str> {
    all().flat_map(|row| row.variables().iter().copied()).collect()
}

/// Returns the project of a session, if the path of its main file names it.
pub fn project_from_path(agent: Agent, main: &Path, home: &Path) -> Option<String> {
    of(Some(agent)).project_from_path(main, home)
}

/// Says whether a path leads below a folder that an agent made for one session.
pub fn is_below_session_folder(path: &Path) -> bool {
    let names = path.ancestors().skip(1).filter_map(Path::file_name);
    let mut names = names.map(|it| it.to_string_lossy());
    names.any(|name| all().any(|row| row.keeps_files_below(&name)))
}
