//! Which sessions there are: in the places that agents use, or in a folder that somebody named.
//!
//! Finding reads folders and the lists in databases. A file is opened only if its name is none
//! that an agent gives, or if somebody named its folder.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use threadfold_fold::{Agent, with_causes};

use crate::agents::{self, Machine};
use crate::files::FileSet;
use crate::found::{FoundSession, Naming};
use crate::input::{InputError, InputOptions, is_named_as_records, open_path};

/// How deep folders are read.
const MAX_DEPTH: usize = 32;

/// The sessions that were found.
#[derive(Default)]
pub struct Discovery {
    /// Where they were looked for.
    pub places: Vec<PathBuf>,
    /// What was found.
    pub sessions: Vec<FoundSession>,
    /// Sessions that others started: they are shown with those, and found by id.
    pub children: Vec<FoundSession>,
    /// What could not be read, and why.
    pub unreadable: Vec<(PathBuf, String)>,
    /// Files of a folder that nobody recognizes.
    pub unrecognized: Vec<PathBuf>,
    /// Files of a folder that were recognized, and could not be opened.
    pub refused: Vec<(PathBuf, InputError)>,
    /// Where each session is that has an id of its agent.
    by_id: BTreeMap<String, usize>,
}

impl Discovery {
    /// Finds the sessions of all agents in the places that these use.
    pub fn of_machine(machine: &Machine<'_>) -> Self {
        let mut found = Self::default();
        for row in agents::all() {
            for place in row.places(machine) {
                found.places.push(place.clone());
                row.enumerate(&place, &mut found);
            }
        }
        found
    }

    /// Adds what belongs to sessions that lost their main file.
    pub fn add_orphans(&mut self, machine: &Machine<'_>) {
        for row in agents::all() {
            for place in row.places(machine) {
                row.enumerate_orphans(&place, self);
            }
        }
    }

    /// Finds all sessions in a folder that somebody named, however deep. Links are not followed.
    ///
    /// Files that nobody recognizes are kept as they are where their names say that they hold
    /// records, or where `options` ask for everything.
    pub fn of_folder(folder: &Path, options: &InputOptions<'_>) -> Self {
        let mut found = Self { places: vec![folder.to_owned()], ..Self::default() };
        let mut tree = FolderTree::read(folder);
        found.unreadable.append(&mut tree.unreadable);
        for path in tree.special.iter().filter(|it| is_named_as_records(it)) {
            found.refused.push((path.clone(), InputError::NotRegular { path: path.clone() }));
        }
        for row in agents::all() {
            row.claim(&mut tree, &mut found);
        }
        // A folder with one file stands for that file.
        let takes_unknown = options.any || tree.file_count == 1;
        while let Some(path) = tree.next_file() {
            found.add_file(&path, takes_unknown, options);
            tree.remove_claimed(&found);
        }
        found.adopt_children();
        found
    }

    /// Adds the sessions of a file that no agent's layout explains.
    fn add_file(&mut self, path: &Path, takes_unknown: bool, options: &InputOptions<'_>) {
        let is_lines = path.extension().is_some_and(|it| it == "jsonl" || it == "ndjson");
        match open_path(path, options) {
            Ok(sessions) => {
                // A file of another program may look like one record. Its name, or an id inside,
                // must say that it is a session.
                let is_session = |it: &FoundSession| {
                    it.naming == Naming::Agent && it.agent.is_none_or(Agent::is_known)
                };
                match takes_unknown || is_lines || sessions.iter().all(is_session) {
                    true => sessions.into_iter().for_each(|it| self.add(it)),
                    false => self.unrecognized.push(path.to_owned()),
                }
            }
            Err(InputError::Unrecognized { .. }) if !takes_unknown => {
                self.unrecognized.push(path.to_owned());
            }
            // It may become a session, and is none yet.
            Err(InputError::NothingYet { .. }) if !takes_unknown && !is_named_as_records(path) => {
                self.unrecognized.push(path.to_owned());
            }
            Err(error) => self.refused.push((path.to_owned(), error)),
        }
    }

    /// Adds a session. A copy of one that is there is read with it.
    pub(crate) fn add(&mut self, found: FoundSession) {
        let id = found.id.to_string();
        if found.naming == Naming::Agent
            && let Some(index) = self.by_id.get(&id).copied()
            && let Some(united) = united(&self.sessions[index], &found)
        {
            self.sessions[index] = united;
            return;
        }
        if found.naming == Naming::Agent {
            self.by_id.entry(id).or_insert(self.sessions.len());
        }
        self.sessions.push(found);
    }

    pub(crate) fn add_child(&mut self, found: FoundSession) {
        self.children.push(found);
    }

    pub(crate) fn has(&self, id: &str) -> bool {
        self.by_id.contains_key(id) || self.children.iter().any(|it| it.id.as_str() == id)
    }

    pub(crate) fn report_unreadable(&mut self, path: &Path, error: &dyn Error) {
        self.unreadable.push((path.to_owned(), with_causes(error)));
    }

    /// Returns what is in a folder, by name. That there is no such folder is no error.
    pub(crate) fn list(&mut self, folder: &Path) -> Vec<PathBuf> {
        match list(folder) {
            Ok(paths) => paths,
            Err(error) => {
                self.report_unreadable(folder, &error);
                Vec::new()
            }
        }
    }

    /// Gives sessions that were exported by themselves to those that started them.
    pub fn adopt_children(&mut self) {
        adopt_children(&mut self.sessions);
        self.by_id.clear();
    }
}

/// Gives sessions that were exported by themselves to those that started them, if these are there
/// as well, and puts parents before their children.
pub fn adopt_children(sessions: &mut [FoundSession]) {
    let known: BTreeMap<String, Option<String>> = sessions
        .iter()
        .map(|it| (it.id.to_string(), it.parent.as_ref().map(ToString::to_string)))
        .collect();
    for found in sessions.iter_mut().filter(|it| it.parent.is_some()) {
        let mut root = found.id.to_string();
        // A circle of parents is no longer than there are sessions.
        for _ in 0..known.len() {
            match known.get(&root).cloned().flatten().filter(|it| known.contains_key(it)) {
                Some(parent) => root = parent,
                None => break,
            }
        }
        if root != found.id.as_str()
            && let Ok(mut files) = found.content.files()
        {
            files.iter_mut().for_each(|file| file.spec.name = format!("{}.json", found.id));
            found.content = Arc::new(FileSet::new(files));
            found.id = root.as_str().into();
        }
    }
    let is_child = |it: &FoundSession| {
        it.parent.as_ref().is_some_and(|parent| known.contains_key(parent.as_str()))
    };
    sessions.sort_by_key(is_child);
}

/// Returns one session of two that are copies of each other.
fn united(one: &FoundSession, other: &FoundSession) -> Option<FoundSession> {
    if one.agent != other.agent {
        return None;
    }
    let content = one.content.with_copy(&other.place)?;
    let length = |path: &Path| path.metadata().map_or(0, |it| it.len());
    let leads = if length(&other.place) > length(&one.place) { other } else { one };
    Some(FoundSession { content, ..leads.clone() })
}

/// The files and folders below a folder, from which agents' modules take what is theirs.
pub(crate) struct FolderTree {
    files: BTreeSet<ByDepth>,
    folders: Vec<PathBuf>,
    unreadable: Vec<(PathBuf, String)>,
    /// How many sessions' files were taken out already.
    claimed: usize,
    /// Pipes, sockets and devices: reading one might never end.
    special: Vec<PathBuf>,
    /// How many files there were at the beginning.
    file_count: usize,
}

impl FolderTree {
    /// Lists the regular files and the folders below a folder. Links are not followed.
    pub(crate) fn read(folder: &Path) -> Self {
        let (files, unreadable) = (BTreeSet::new(), Vec::new());
        let (folders, special) = (Vec::new(), Vec::new());
        let mut tree = Self { files, folders, unreadable, claimed: 0, special, file_count: 0 };
        let mut pending = vec![(folder.to_owned(), 0)];
        while let Some((folder, depth)) = pending.pop() {
            if depth >= MAX_DEPTH {
                let why = format!("it is more than {MAX_DEPTH} folders deep");
                tree.unreadable.push((folder, why));
                continue;
            }
            match fs::read_dir(&folder) {
                Ok(entries) => {
                    for entry in entries.flatten() {
                        match entry.file_type() {
                            Ok(kind) if kind.is_dir() => pending.push((entry.path(), depth + 1)),
                            Ok(kind) if kind.is_file() => {
                                tree.files.insert(ByDepth(entry.path()));
                            }
                            Ok(kind) if !kind.is_symlink() => tree.special.push(entry.path()),
                            _ => {}
                        }
                    }
                }
                Err(error) => tree.unreadable.push((folder.clone(), error.to_string())),
            }
            tree.folders.push(folder);
        }
        tree.folders.sort();
        tree.file_count = tree.files.len();
        tree
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|it| it.0.as_path())
    }

    /// Returns the files for which this holds, those less deep first.
    pub(crate) fn matching(&self, is_wanted: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
        self.files().filter(|it| is_wanted(it)).map(Path::to_owned).collect()
    }

    /// Returns the folders for which this holds.
    pub(crate) fn folders_matching(&self, is_wanted: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
        self.folders.iter().filter(|it| is_wanted(it)).cloned().collect()
    }

    pub(crate) fn remove_below(&mut self, folder: &Path) {
        self.files.retain(|it| !it.0.starts_with(folder));
        self.folders.retain(|it| !it.starts_with(folder));
    }

    /// Takes out a database with the files beside it.
    pub(crate) fn remove_database(&mut self, path: &Path) {
        for ending in ["", "-wal", "-shm"] {
            let mut name = path.as_os_str().to_owned();
            name.push(ending);
            self.files.remove(&ByDepth(PathBuf::from(name)));
        }
    }

    /// Takes out all files of sessions that were found since this was last called.
    pub(crate) fn remove_claimed(&mut self, found: &Discovery) {
        // A copy changes a session that was claimed before, so its place is taken out as well.
        for session in found.sessions.iter().skip(self.claimed.saturating_sub(1)) {
            for file in session.content.files().unwrap_or_default() {
                self.files.remove(&ByDepth(file.path));
            }
            self.remove_database(&session.place);
        }
        self.claimed = found.sessions.len();
    }

    fn next_file(&mut self) -> Option<PathBuf> {
        self.files.pop_first().map(|it| it.0)
    }
}

/// A path, with those less deep before others: what belongs to a file lies below it.
#[derive(PartialEq, Eq)]
struct ByDepth(PathBuf);

impl ByDepth {
    fn key(&self) -> (usize, &Path) {
        (self.0.components().count(), &self.0)
    }
}

impl Ord for ByDepth {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for ByDepth {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Returns what is in a folder, by name; nothing if there is no such folder.
pub(crate) fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

pub(crate) fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
