//! The table of agents: where each one stores its sessions, and how to read them.
//!
//! `threadfold-convert` interprets an agent's records, in a folder of the same name. Everything
//! else that is specific to an agent is in its folder here; the rest of the project goes through
//! this table.

pub mod claude;
mod codex;
pub mod opencode;
mod other;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use threadfold_fold::{Agent, Detection};

use crate::discover::{Discovery, FolderTree, folders_below};
use crate::found_session::FoundSession;
use crate::open_path::{InputError, InputOptions};
use crate::server::{Server, ServerAccess};
use crate::unread::UnreadContent;

/// One row for each agent of `threadfold-convert`.
static AGENTS: [&dyn AgentAccess; 4] =
    [&opencode::Opencode, &codex::Codex, &claude::Claude, &other::Other];

/// Where one agent stores its sessions on a machine, and how to read them.
pub(crate) trait AgentAccess: Sync {
    /// Returns the agent.
    fn agent(&self) -> Agent;

    /// Returns the environment variables that set where the agent stores its sessions.
    fn variables(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the folders in which the agent stores its sessions on this machine.
    fn places(&self, _: &Machine<'_>) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Returns the folders that hold session files and nothing else, so that a restore may write
    /// below them.
    fn restore_folders(&self, machine: &Machine<'_>) -> Vec<PathBuf> {
        self.places(machine)
    }

    /// Adds the sessions in one of the agent's own folders, without reading their content, and
    /// those anywhere below it whose main file is missing.
    fn enumerate(&self, _place: &Path, _found: &mut Discovery) {}

    /// Returns the folders of one of the agent's places in which new sessions appear.
    fn watched(&self, place: &Path) -> Vec<PathBuf> {
        folders_below(place, 1)
    }

    /// Returns what one of the agent's places holds that this version does not read: a table, a
    /// layout of files, a version. Secrets are not even counted.
    fn unread(&self, _place: &Path) -> Vec<UnreadContent> {
        Vec::new()
    }

    /// Claims the agent's sessions, with all their files, from a folder that the user named.
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

    /// Returns whether the agent may compress its files of this format, so that compressed ones are
    /// accepted.
    fn packs(&self, _input: Detection) -> bool {
        false
    }

    /// Returns the agent's server at an address, if it has servers.
    fn server(
        &self,
        _address: &str,
        _access: &ServerAccess<'_>,
    ) -> Option<Result<Box<dyn Server>, InputError>> {
        None
    }

    /// Returns the project of a session, if the path of its main file names it.
    fn project_from_path(&self, _main: &Path, _home: &Path) -> Option<String> {
        None
    }

    /// Returns whether the agent stores session files at a path below this name, so that a restore
    /// may write there.
    fn keeps_files_below(&self, _folder_name: &str) -> bool {
        false
    }
}

/// The home folder and environment that locate agents' folders; the program passes them in.
pub struct Machine<'a> {
    /// The user's home folder.
    pub home: PathBuf,
    /// Returns the value of an environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
}

impl Machine<'_> {
    /// Returns the folder that a variable names; an empty variable counts as unset.
    pub(crate) fn folder(&self, variable: &str) -> Option<PathBuf> {
        (self.variable)(variable).filter(|it| !it.is_empty()).map(PathBuf::from)
    }
}

/// Returns all rows, in the order in which formats are recognized.
pub(crate) fn all() -> impl Iterator<Item = &'static dyn AgentAccess> {
    AGENTS.into_iter()
}

/// Returns the row of an agent; Threadfold's own events use the row for plain files.
pub(crate) fn of(agent: Option<Agent>) -> &'static dyn AgentAccess {
    let row = agent.and_then(|agent| all().find(|row| row.agent() == agent));
    row.unwrap_or(&other::Other)
}

/// Returns the environment variables that set where agents store their sessions.
pub fn place_variables() -> BTreeSet<&'static str> {
    all().flat_map(|row| row.variables().iter().copied()).collect()
}

/// Returns the folders below which a restore may write: those of agents' sessions, as this machine
/// locates them. A path in a store is no evidence, because the store may come from elsewhere.
pub fn restore_folders(machine: &Machine<'_>) -> Vec<PathBuf> {
    all().flat_map(|row| row.restore_folders(machine)).collect()
}

/// Returns the project of a session, if the path of its main file names it.
pub fn project_from_path(agent: Agent, main: &Path, home: &Path) -> Option<String> {
    of(Some(agent)).project_from_path(main, home)
}

/// Returns whether a path is below a folder that an agent created for one session.
pub fn is_below_session_folder(path: &Path) -> bool {
    let names = path.ancestors().skip(1).filter_map(Path::file_name);
    let mut names = names.map(|it| it.to_string_lossy());
    names.any(|name| all().any(|row| row.keeps_files_below(&name)))
}
