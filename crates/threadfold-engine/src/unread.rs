//! What agents' places hold that this version does not read.
//!
//! An agent that is updated may keep its sessions in a table or a layout that this version does not
//! know. That is reported, so that an empty list does not mean that there is nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use threadfold_fold::Agent;

use crate::agents::{self, Machine};

/// How deep folders are read.
const MAX_DEPTH: usize = 8;
/// Words in the name of something that may hold sessions.
const WORDS: [&str; 5] = ["session", "thread", "rollout", "conversation", "transcript"];

/// Something in an agent's place that this version does not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadContent {
    /// The agent.
    pub agent: Agent,
    /// The file or folder that holds it.
    pub place: PathBuf,
    /// What it is, such as a table.
    pub what: String,
    /// How many rows or files.
    pub count: u64,
    /// What is counted.
    pub unit: Unit,
    /// Since when there are some.
    pub since: Option<SystemTime>,
    /// It is imported, and shown as it is; only what it means is unknown.
    pub is_imported: bool,
    /// What it means for the user.
    pub meaning: &'static str,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Rows of a table.
    Row,
    /// Files.
    File,
}

/// Returns what a file that the user named holds that this version does not read, such as a table.
pub fn unread_content(file: &Path) -> Vec<UnreadContent> {
    match file.is_file() {
        true => agents::all().flat_map(|row| row.unread(file)).collect(),
        // Which agent's place a folder is, is not known.
        false => Vec::new(),
    }
}

/// Returns what the places of all agents on a machine hold that this version does not read.
pub fn unread_on(machine: &Machine<'_>) -> Vec<UnreadContent> {
    let of_row = |row: &'static dyn agents::AgentAccess| {
        let places = row.places(machine);
        places.into_iter().flat_map(|place| row.unread(&place)).collect::<Vec<_>>()
    };
    agents::all().flat_map(of_row).collect()
}

/// Returns whether the name of a file or folder in an agent's home says that it may hold sessions.
pub(crate) fn may_hold_sessions(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    WORDS.iter().any(|it| name.contains(it))
}

/// Files of an agent's place that its module does not read, counted by what they have in common.
/// Only names are read, and the times of the files that are counted.
pub(crate) struct UnreadFiles {
    agent: Agent,
    meaning: &'static str,
    groups: BTreeMap<(PathBuf, String), (u64, Option<SystemTime>)>,
}

impl UnreadFiles {
    pub(crate) fn new(agent: Agent, meaning: &'static str) -> Self {
        Self { agent, meaning, groups: BTreeMap::new() }
    }

    /// Counts a file among those with its extension in a folder.
    pub(crate) fn add(&mut self, folder: &Path, file: &Path) {
        let what = match file.extension() {
            Some(extension) => format!("`*.{}`", extension.to_string_lossy()),
            None => format!("`{}`", file.file_name().unwrap_or_default().to_string_lossy()),
        };
        self.count(folder, what, file);
    }

    /// Counts a file among those under a name in a folder.
    pub(crate) fn count(&mut self, folder: &Path, what: String, file: &Path) {
        let time = file.metadata().and_then(|it| it.modified()).ok();
        let (count, since) = self.groups.entry((folder.to_owned(), what)).or_default();
        *count += 1;
        *since = [*since, time].into_iter().flatten().min();
    }

    /// Returns what was counted.
    pub(crate) fn finish(self) -> Vec<UnreadContent> {
        let Self { agent, meaning, groups } = self;
        let unread = |((place, what), (count, since))| {
            let (unit, is_imported) = (Unit::File, false);
            UnreadContent { agent, place, what, count, unit, since, is_imported, meaning }
        };
        groups.into_iter().map(unread).collect()
    }
}

/// Returns the files in a folder at any depth, except below folders that are skipped. Links are not
/// followed, and what cannot be listed is reported where it is listed for its sessions.
pub(crate) fn files_below(folder: &Path, is_skipped: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![(folder.to_owned(), 0)]);
    while let Some((folder, depth)) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_file() => files.push(path),
                Ok(kind) if kind.is_dir() && depth < MAX_DEPTH && !is_skipped(&path) => {
                    folders.push((path, depth + 1));
                }
                _ => {}
            }
        }
    }
    files
}

/// Returns whether a file is no record of anything: hidden, temporary, a backup or a text.
pub(crate) fn is_incidental(name: &str) -> bool {
    const ENDINGS: [&str; 8] = [".tmp", ".lock", ".bak", "~", ".md", ".txt", "-wal", "-shm"];
    name.starts_with('.') || ENDINGS.iter().any(|it| name.ends_with(it))
}
