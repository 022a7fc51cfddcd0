//! The folder of files in which OpenCode stored sessions before it had a database.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::database::DbSession;
use crate::agent_database::DatabaseError;
use crate::error::EngineError;
use crate::unread::{UnreadContent, UnreadFiles, files_below};

/// The folder, with its session files already read.
pub(super) struct Storage {
    folder: PathBuf,
    sessions: BTreeMap<String, SessionFacts>,
    /// The children of each session, by id.
    children: BTreeMap<String, Vec<String>>,
    /// Files that could not be read, and why.
    pub(super) unreadable: Vec<(PathBuf, io::Error)>,
}

/// A file with a piece of a session.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StorageFile {
    /// Its name within the folder.
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// It is stored with the session, but the converter ignores it.
    pub(super) is_attached: bool,
}

/// The fields of a session's file, and its path.
#[derive(Deserialize, Default)]
#[serde(default)]
struct SessionFacts {
    #[serde(rename = "parentID")]
    parent: Option<String>,
    directory: String,
    #[serde(skip)]
    path: PathBuf,
}

impl Storage {
    /// Returns whether a folder has OpenCode's layout.
    pub(super) fn is_one(folder: &Path) -> bool {
        ["session", "message"].iter().all(|it| folder.join(it).is_dir())
    }

    /// Finds the sessions in a folder; a missing folder has none.
    pub(super) fn open(folder: &Path) -> Self {
        let mut storage = Self {
            folder: folder.to_owned(),
            sessions: BTreeMap::new(),
            children: BTreeMap::new(),
            unreadable: Vec::new(),
        };
        for project in storage.list(&folder.join("session")) {
            for path in storage.list(&project).into_iter().filter(|it| it.extension().is_some()) {
                storage.add(path);
            }
        }
        for (id, facts) in &storage.sessions {
            if let Some(parent) = &facts.parent {
                storage.children.entry(parent.clone()).or_default().push(id.clone());
            }
        }
        storage
    }

    fn add(&mut self, path: PathBuf) {
        let Some(id) = stem(&path) else { return };
        match fs::read(&path) {
            // `view` reports the content of a corrupt file.
            Ok(bytes) => {
                let facts: SessionFacts = serde_json::from_slice(&bytes).unwrap_or_default();
                self.sessions.insert(id, SessionFacts { path, ..facts });
            }
            Err(error) => self.unreadable.push((path, error)),
        }
    }

    /// Returns the entries of a folder, by name. A missing folder is not an error.
    fn list(&mut self, folder: &Path) -> Vec<PathBuf> {
        let listed = fs::read_dir(folder).map(|it| it.flatten().map(|entry| entry.path()));
        match listed {
            Ok(paths) => {
                let mut paths: Vec<_> = paths.collect();
                paths.sort();
                paths
            }
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    self.unreadable.push((folder.to_owned(), error));
                }
                Vec::new()
            }
        }
    }

    /// Returns the child sessions, or the sessions without a parent.
    fn rows(&self, are_children: bool) -> Vec<(DbSession, PathBuf)> {
        let is_child = |facts: &SessionFacts| {
            facts.parent.as_ref().is_some_and(|parent| self.sessions.contains_key(parent))
        };
        let chosen = self.sessions.iter().filter(|(_, facts)| is_child(facts) == are_children);
        chosen
            .map(|(id, facts)| {
                let directory = facts.directory.clone();
                (DbSession { id: id.clone(), directory, updated: None }, facts.path.clone())
            })
            .collect()
    }

    /// Returns the sessions without a parent, each with its file.
    pub(super) fn root_sessions(&self) -> Vec<(DbSession, PathBuf)> {
        self.rows(false)
    }

    /// Returns the child sessions, each with its file.
    pub(super) fn child_sessions(&self) -> Vec<(DbSession, PathBuf)> {
        self.rows(true)
    }

    /// Returns a session and its descendants, parents first.
    fn family(&self, root: &str) -> Vec<&str> {
        let mut ids: Vec<&str> =
            self.sessions.get_key_value(root).map(|(id, _)| id.as_str()).into_iter().collect();
        // Only corrupt files make a session its own descendant.
        let mut known: BTreeSet<&str> = ids.iter().copied().collect();
        let mut next = 0;
        while let Some(parent) = ids.get(next).copied() {
            let children = self.children.get(parent).into_iter().flatten();
            ids.extend(children.map(String::as_str).filter(|it| known.insert(it)));
            next += 1;
        }
        ids
    }

    /// Returns the files of a session and its children, in the order to read them.
    fn paths(&self, id: &str) -> Result<Vec<PathBuf>, EngineError> {
        let family = self.family(id);
        if family.is_empty() {
            let (path, session) = (self.folder.clone(), id.to_owned());
            return Err(DatabaseError::NoSession { path, session }.into());
        }
        let facts = family.iter().filter_map(|id| self.sessions.get(*id));
        let sessions: Vec<_> = facts.map(|it| it.path.clone()).collect();
        // Sessions come before messages, and messages before their parts. Sessions come again at
        // the end, because a revert applies only after the messages.
        let below = |kind: &str, owners: &[PathBuf]| -> Vec<PathBuf> {
            let folders = owners.iter().filter_map(|it| stem(it));
            let folders = folders.map(|it| self.folder.join(kind).join(it));
            folders.flat_map(|folder| listed(&folder)).collect()
        };
        let messages = below("message", &sessions);
        let parts = below("part", &messages);
        Ok([sessions.clone(), messages, parts, sessions].concat())
    }
}

impl Storage {
    /// Returns other files named after a session or its children: `<kind>/<session>.json`.
    fn attached(&self, id: &str) -> Vec<PathBuf> {
        let kinds = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let kinds = kinds.filter(|it| it.file_type().is_ok_and(|it| it.is_dir()));
        let is_session_folder = |name: &str| ["session", "message", "part"].contains(&name);
        let mut folders: Vec<_> = kinds.map(|it| it.path()).collect();
        folders
            .retain(|it| !is_session_folder(&it.file_name().unwrap_or_default().to_string_lossy()));
        folders.sort();
        let files = |folder: &PathBuf| -> Vec<PathBuf> {
            self.family(id).iter().map(|id| folder.join(format!("{id}.json"))).collect()
        };
        let is_file = |it: &PathBuf| it.symlink_metadata().is_ok_and(|it| it.is_file());
        folders.iter().flat_map(files).filter(is_file).collect()
    }
}

impl Storage {
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the files of a session and its children, in the order to read them. A file may
    /// come twice.
    pub(super) fn files(&self, id: &str) -> Result<Vec<StorageFile>, EngineError> {
        let named = |(path, is_attached): (PathBuf, bool)| {
            let name = path.strip_prefix(&self.folder).unwrap_or(&path).to_string_lossy();
            StorageFile { name: name.replace('\\', "/"), path, is_attached }
        };
        let read = self.paths(id)?.into_iter().map(|path| (path, false));
        let attached = self.attached(id).into_iter().map(|path| (path, true));
        Ok(read.chain(attached).map(named).collect())
    }
}

/// The folders that are read, or are known to hold nothing of a conversation.
const KNOWN: [&str; 8] =
    ["session", "message", "part", "project", "todo", "session_diff", "session_share", "migration"];

/// Returns what the folder holds that is not read: other folders, except files named after a session,
/// which are stored with it.
pub(super) fn unread(storage: &Path) -> Vec<UnreadContent> {
    let meaning = "a version of OpenCode that is newer than this program may keep sessions there";
    let mut files = UnreadFiles::new(threadfold_convert::opencode::AGENT, meaning);
    let folders = crate::discover::list(storage).unwrap_or_default();
    for folder in folders.into_iter().filter(|it| it.is_dir()) {
        let name = crate::discover::name_of(&folder);
        if KNOWN.contains(&name.as_str()) || name.starts_with('.') {
            continue;
        }
        let is_attached = |it: &Path| {
            it.parent() == Some(&*folder) && stem(it).is_some_and(|it| it.starts_with("ses_"))
        };
        let below = files_below(&folder, &|_| false);
        let unknown = below.iter().filter(|it| !is_attached(it));
        unknown.for_each(|it| files.count(storage, format!("folder `{name}`"), it));
    }
    files.finish()
}

fn stem(path: &Path) -> Option<String> {
    path.file_stem().map(|it| it.to_string_lossy().into_owned())
}

/// Returns the files of a folder, by name; a missing folder is empty.
fn listed(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|it| it == "json"));
    paths.sort();
    paths
}
