//! Which sessions there are, told by folders and names of files alone.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::SystemTime;

use threadfold_convert::Agent;
use threadfold_convert::claude::layout::{is_session_name, sessions};

use super::{claude_session, opencode};
use crate::error::say;
use crate::source::{Shelf, Storage};

/// How deep folders are looked into.
const DEEPEST: usize = 32;

/// The sessions below some folders.
#[derive(Default)]
pub(crate) struct Sessions {
    /// Where they were looked for.
    pub(crate) places: Vec<PathBuf>,
    /// What was found, by project and name.
    pub(crate) found: Vec<FoundSession>,
    /// Sessions that others made: they are listed with those, and found by name.
    pub(crate) children: Vec<FoundSession>,
    /// What could not be looked into, and why.
    pub(crate) unreadable: Vec<(PathBuf, String)>,
}

/// A session that was found.
pub(crate) struct FoundSession {
    /// Its name: the main file's, or the one that it tells.
    pub(crate) id: String,
    /// The agent calls it so; if not, its file does.
    pub(crate) is_told: bool,
    /// The folder of its project, as the agent named it.
    pub(crate) project: String,
    /// Its main file; of several, the longest.
    pub(crate) main: PathBuf,
    /// Main files of the same session in other places: an agent that goes on with a session in
    /// another folder copies it there.
    pub(crate) copies: Vec<PathBuf>,
    /// How it is kept.
    pub(crate) kept: Kept,
}

/// How a session is kept.
pub(crate) enum Kept {
    /// In a file of Claude Code; something beside it may be a subagent's.
    File { may_have_subagents: bool },
    /// In OpenCode's database or its older folder, which is open and stays so.
    Shelf { shelf: Rc<dyn Shelf>, changed: Option<SystemTime> },
}

impl Sessions {
    /// Finds the sessions of all agents, in the folders that these use themselves.
    pub(crate) fn of_all_agents() -> Self {
        let mut all = Self::of_claude();
        let configured = env::var_os("XDG_DATA_HOME").filter(|folder| !folder.is_empty());
        let home = || env::home_dir().unwrap_or_default().join(".local").join("share");
        opencode::find(&configured.map_or_else(home, PathBuf::from).join("opencode"), &mut all);
        all
    }

    /// Finds the sessions of Claude Code, in the folder that it uses itself.
    fn of_claude() -> Self {
        let configured = env::var_os("CLAUDE_CONFIG_DIR").filter(|folder| !folder.is_empty());
        let home = || env::home_dir().unwrap_or_default().join(".claude");
        Self::below(&configured.map_or_else(home, PathBuf::from).join("projects"))
    }

    /// Finds the sessions in `folder`: a project's, or one that holds those of projects.
    pub(crate) fn below(folder: &Path) -> Self {
        let mut all = Self { places: vec![folder.to_owned()], ..Self::default() };
        for project in all.add_project(folder).into_iter().filter(|it| it.is_dir()) {
            all.add_project(&project);
        }
        all.unite_copies();
        all
    }

    /// Finds the sessions in `folder` and in all folders below it. Links are not followed.
    pub(crate) fn deep_below(folder: &Path) -> Self {
        let mut all = Self { places: vec![folder.to_owned()], ..Self::default() };
        all.add_deep(folder, DEEPEST);
        all.unite_copies();
        all
    }

    fn add_deep(&mut self, folder: &Path, depth: usize) {
        let Some(deeper) = depth.checked_sub(1) else {
            let why = format!("it lies more than {DEEPEST} folders deep");
            return self.unreadable.push((folder.to_owned(), why));
        };
        if Storage::is_one(folder) {
            return opencode::find_in_storage(folder, self);
        }
        let has_storage = Storage::is_one(&folder.join("storage"));
        if has_storage || folder.join("opencode.db").is_file() {
            opencode::find(folder, self);
        }
        for inner in self.add_project(folder) {
            let is_folder = inner.symlink_metadata().is_ok_and(|it| it.is_dir());
            let is_known = has_storage && inner.ends_with("storage");
            if is_folder && !is_known && !is_session_name(&name(&inner)) {
                self.add_deep(&inner, deeper);
            }
        }
    }

    /// Makes one session of all files that are of one.
    pub(crate) fn unite_copies(&mut self) {
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        let mut united: Vec<FoundSession> = Vec::with_capacity(self.found.len());
        for found in self.found.drain(..) {
            let is_file = found.is_told && matches!(found.kept, Kept::File { .. });
            match known.get(&found.id).map(|place| &mut united[*place]).filter(|_| is_file) {
                Some(first) => first.add_copy(found),
                None => {
                    if is_file {
                        known.insert(found.id.clone(), united.len());
                    }
                    united.push(found);
                }
            }
        }
        self.found = united;
    }

    /// Tells what could not be looked into.
    pub(crate) fn say_unreadable(&self) {
        say_unreadable(&self.unreadable);
    }

    /// Adds the sessions of a project, and returns what else is in its folder.
    fn add_project(&mut self, folder: &Path) -> Vec<PathBuf> {
        let (files, others): (Vec<_>, Vec<_>) =
            self.list(folder).into_iter().partition(|it| name(it).ends_with(".jsonl"));
        let names: Vec<String> = files.iter().map(|it| name(it)).collect();
        let project = text(folder.file_name().unwrap_or_default());
        let has_agents = names.iter().any(|name| name.starts_with("agent-"));
        // Only names that were found are compared; none is made into a path.
        for session in sessions(&names) {
            let place = names.iter().position(|name| *name == session.main);
            let told = place.and_then(|place| claude_session(&files[place]));
            self.found.extend(place.map(|place| FoundSession {
                is_told: told.is_some(),
                id: told.unwrap_or(session.session),
                project: project.clone(),
                kept: Kept::File {
                    may_have_subagents: has_agents
                        || others.binary_search(&files[place].with_extension("")).is_ok(),
                },
                main: files[place].clone(),
                copies: Vec::new(),
            }));
        }
        others
    }

    /// Returns what is in a folder, by name. That there is no such folder is no mistake.
    fn list(&mut self, folder: &Path) -> Vec<PathBuf> {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    self.unreadable.push((folder.to_owned(), error.to_string()));
                }
                return Vec::new();
            }
        };
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        paths
    }
}

/// Tells what could not be looked into.
pub(super) fn say_unreadable(unreadable: &[(PathBuf, String)]) {
    for (path, why) in unreadable {
        say(format_args!("left out `{}`: {why}", path.display()));
    }
}

impl FoundSession {
    /// Adds the same session in another place; the longer one leads.
    fn add_copy(&mut self, mut other: Self) {
        let length = |path: &Path| path.metadata().map_or(0, |it| it.len());
        if length(&other.main) > length(&self.main) {
            std::mem::swap(self, &mut other);
        }
        self.copies.push(other.main);
        self.copies.append(&mut other.copies);
        self.copies.sort();
    }

    /// Returns whose it is.
    pub(crate) fn agent(&self) -> Agent {
        match self.kept {
            Kept::File { .. } => Agent::Claude,
            Kept::Shelf { .. } => Agent::Opencode,
        }
    }

    /// Returns when it was last written to.
    pub(crate) fn changed(&self) -> Option<SystemTime> {
        match self.kept {
            Kept::Shelf { changed, .. } => changed,
            _ => self.main.metadata().and_then(|it| it.modified()).ok(),
        }
    }
}

fn name(path: &Path) -> String {
    text(path.file_name().unwrap_or_default())
}

fn text(name: &OsStr) -> String {
    name.to_string_lossy().into_owned()
}
