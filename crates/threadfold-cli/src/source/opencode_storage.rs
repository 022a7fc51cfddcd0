//! The folder of files that OpenCode kept before it had a database.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::opencode_shelf::{EachRecord, SessionRow, Shelf, ShelfFile, missing, only};
use super::{Format, unreadable};
use crate::error::CommandError;

/// The folder, with the files that tell of sessions read.
pub(crate) struct Storage {
    folder: PathBuf,
    sessions: BTreeMap<String, Told>,
    /// What could not be looked into, and why.
    pub(crate) unreadable: Vec<(PathBuf, String)>,
}

/// What the file of a session tells of it, and where it is.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Told {
    #[serde(rename = "parentID")]
    parent: Option<String>,
    directory: String,
    #[serde(skip)]
    path: PathBuf,
}

impl Storage {
    /// Says whether a folder is laid out as OpenCode's.
    pub(crate) fn is_one(folder: &Path) -> bool {
        ["session", "message"].iter().all(|it| folder.join(it).is_dir())
    }

    /// Looks for the sessions in a folder; none is there if the folder is not.
    pub(crate) fn open(folder: &Path) -> Self {
        let mut storage =
            Self { folder: folder.to_owned(), sessions: BTreeMap::new(), unreadable: Vec::new() };
        for project in storage.list(&folder.join("session")) {
            for path in storage.list(&project).into_iter().filter(|it| it.extension().is_some()) {
                storage.add(path);
            }
        }
        storage
    }

    fn add(&mut self, path: PathBuf) {
        let Some(id) = stem(&path) else { return };
        match fs::read(&path) {
            // What is in a damaged file is for `view` to tell.
            Ok(bytes) => {
                let told: Told = serde_json::from_slice(&bytes).unwrap_or_default();
                self.sessions.insert(id, Told { path, ..told });
            }
            Err(error) => self.unreadable.push((path, error.to_string())),
        }
    }

    /// Returns what is in a folder, by name. That there is no such folder is no mistake.
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
                    self.unreadable.push((folder.to_owned(), error.to_string()));
                }
                Vec::new()
            }
        }
    }

    /// Returns the sessions that another one made, or those that none did.
    fn rows(&self, are_children: bool) -> Vec<(SessionRow, PathBuf)> {
        let is_child = |told: &Told| {
            told.parent.as_ref().is_some_and(|parent| self.sessions.contains_key(parent))
        };
        let chosen = self.sessions.iter().filter(|(_, told)| is_child(told) == are_children);
        chosen
            .map(|(id, told)| {
                let directory = told.directory.clone();
                (SessionRow { id: id.clone(), directory, updated: None }, told.path.clone())
            })
            .collect()
    }

    /// Returns the sessions that no other one made, each with its file.
    pub(crate) fn root_sessions(&self) -> Vec<(SessionRow, PathBuf)> {
        self.rows(false)
    }

    /// Returns the sessions that another one made, each with its file.
    pub(crate) fn child_sessions(&self) -> Vec<(SessionRow, PathBuf)> {
        self.rows(true)
    }

    /// Returns a session and its children to any depth, parents first.
    fn family(&self, root: &str) -> Vec<&str> {
        let mut ids: Vec<&str> =
            self.sessions.get_key_value(root).map(|(id, _)| id.as_str()).into_iter().collect();
        let mut next = 0;
        while let Some(parent) = ids.get(next).copied() {
            let children =
                self.sessions.iter().filter(|(_, it)| it.parent.as_deref() == Some(parent));
            for (id, _) in children {
                if !ids.contains(&id.as_str()) {
                    ids.push(id);
                }
            }
            next += 1;
        }
        ids
    }

    /// Returns the files of a session and its children, in the order to read them.
    fn paths(&self, id: &str) -> Result<Vec<PathBuf>, CommandError> {
        let family = self.family(id);
        if family.is_empty() {
            return Err(missing(&self.folder, id));
        }
        let told = family.iter().filter_map(|id| self.sessions.get(*id));
        let sessions: Vec<_> = told.map(|it| it.path.clone()).collect();
        // What tells of sessions comes before what tells of messages, and that before their parts.
        // Sessions come once more at the end: what one was taken back to is known only then.
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
    /// Returns what else is named after a session or its children: `<kind>/<session>.json`.
    fn attached(&self, id: &str) -> Vec<PathBuf> {
        let kinds = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let kinds = kinds.filter(|it| it.file_type().is_ok_and(|it| it.is_dir()));
        let is_told = |name: &str| ["session", "message", "part"].contains(&name);
        let mut folders: Vec<_> = kinds.map(|it| it.path()).collect();
        folders.retain(|it| !is_told(&it.file_name().unwrap_or_default().to_string_lossy()));
        folders.sort();
        let files = |folder: &PathBuf| -> Vec<PathBuf> {
            self.family(id).iter().map(|id| folder.join(format!("{id}.json"))).collect()
        };
        let is_file = |it: &PathBuf| it.symlink_metadata().is_ok_and(|it| it.is_file());
        folders.iter().flat_map(files).filter(is_file).collect()
    }
}

impl Shelf for Storage {
    fn format(&self) -> Format {
        Format::OpencodeStorage
    }

    fn only_session(&self) -> Result<String, CommandError> {
        only(&self.folder, self.root_sessions().into_iter().map(|(row, _)| row).collect())
    }

    fn read(&self, id: &str, each: &mut EachRecord<'_>) -> Result<(), CommandError> {
        for path in self.paths(id)? {
            let name = format!("`{}`", path.display());
            each(&fs::read(path).map_err(|error| unreadable(&name, error))?)?;
        }
        Ok(())
    }

    fn files(&self, id: &str) -> Result<Option<Vec<ShelfFile>>, CommandError> {
        let named = |(path, is_attached): (PathBuf, bool)| {
            let name = path.strip_prefix(&self.folder).unwrap_or(&path).to_string_lossy();
            ShelfFile { name: name.replace('\\', "/"), path, is_attached }
        };
        let told = self.paths(id)?.into_iter().map(|path| (path, false));
        let attached = self.attached(id).into_iter().map(|path| (path, true));
        Ok(Some(told.chain(attached).map(named).collect()))
    }
}

fn stem(path: &Path) -> Option<String> {
    path.file_stem().map(|it| it.to_string_lossy().into_owned())
}

/// Returns the files of a folder, by name; a folder that is not there holds nothing.
fn listed(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|it| it == "json"));
    paths.sort();
    paths
}
