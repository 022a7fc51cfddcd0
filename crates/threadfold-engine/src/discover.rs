//! Finds sessions: in agents' folders, or in a folder that the user named.
//!
//! Discovery lists folders and queries databases. A file is opened only if its name does not match
//! an agent's naming scheme, or if the user named its folder.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use threadfold_fold::{Agent, with_causes};

use crate::agents::{self, Machine};
use crate::files::FileSet;
use crate::found_session::{FoundSession, IdOrigin};
use crate::open_path::{InputError, InputOptions, is_named_as_records, open_path};
use crate::unread::UnreadContent;

/// How deep folders are read.
const MAX_DEPTH: usize = 32;

/// The sessions that were found.
#[derive(Default)]
pub struct Discovery {
    /// The folders that were searched.
    pub places: Vec<PathBuf>,
    /// The sessions that were found.
    pub sessions: Vec<FoundSession>,
    /// Child sessions: shown with their parents, but found by id.
    pub children: Vec<FoundSession>,
    /// Paths that could not be read, and why.
    pub unreadable: Vec<(PathBuf, String)>,
    /// Files in unrecognized formats.
    pub unrecognized: Vec<PathBuf>,
    /// What agents' places hold that this version does not read.
    pub unread: Vec<UnreadContent>,
    /// The folders in which sessions appear, whether they exist or not.
    pub watched: Vec<PathBuf>,
    /// Files that were recognized but could not be opened.
    pub refused: Vec<(PathBuf, InputError)>,
    /// The index of each session with an agent's id.
    by_id: BTreeMap<String, usize>,
    /// The ids of the children.
    child_ids: BTreeSet<String>,
    /// The indices of sessions with an id that is derived from their content.
    by_content: BTreeMap<String, Vec<usize>>,
}

impl Discovery {
    /// Finds the sessions of all agents in their own folders, with the remains of sessions whose
    /// main file is missing.
    pub fn of_machine(machine: &Machine<'_>) -> Self {
        let mut found = Self::default();
        for row in agents::all() {
            for place in row.places(machine) {
                found.places.push(place.clone());
                row.enumerate(&place, &mut found);
                found.watched.extend(row.watched(&place));
                found.add_unread(row.unread(&place));
            }
        }
        found
    }

    /// Finds all sessions in a folder that the user named, at any depth. Links are not followed.
    ///
    /// Files in unrecognized formats are included, line by line, if their names suggest records or
    /// if `options` ask for every file.
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
        // A folder with a single file is treated like that file.
        let takes_unknown = options.any || tree.file_count == 1;
        while let Some(path) = tree.next_file() {
            found.add_file(&path, takes_unknown, options);
            tree.remove_claimed(&found);
        }
        found.adopt_children();
        found
    }

    /// Adds the sessions of a file that no agent claimed by its layout.
    fn add_file(&mut self, path: &Path, takes_unknown: bool, options: &InputOptions<'_>) {
        let is_lines = path.extension().is_some_and(|it| it == "jsonl" || it == "ndjson");
        match open_path(path, options) {
            Ok(sessions) => {
                // A file of another program may look like one record, so its name or an id
                // inside must identify it as a session.
                let is_session = |it: &FoundSession| {
                    it.naming == IdOrigin::Agent && it.agent.is_none_or(Agent::is_known)
                };
                match takes_unknown || is_lines || sessions.iter().all(is_session) {
                    true => sessions.into_iter().for_each(|it| self.add(it)),
                    false => self.unrecognized.push(path.to_owned()),
                }
            }
            Err(InputError::Unrecognized { .. }) if !takes_unknown => {
                self.unrecognized.push(path.to_owned());
            }
            // It may become a session, but is not one yet.
            Err(InputError::NothingYet { .. }) if !takes_unknown && !is_named_as_records(path) => {
                self.unrecognized.push(path.to_owned());
            }
            Err(error) => self.refused.push((path.to_owned(), error)),
        }
    }

    /// Adds a session. A copy of a known session is merged with it.
    pub(crate) fn add(&mut self, found: FoundSession) {
        if found.naming == IdOrigin::Content {
            return self.add_named_by_content(found);
        }
        let id = found.id.to_string();
        if let Some(index) = self.by_id.get(&id).copied()
            && let Some(united) = united(&self.sessions[index], &found)
        {
            self.sessions[index] = united;
            return;
        }
        self.by_id.entry(id).or_insert(self.sessions.len());
        self.sessions.push(found);
    }

    /// Adds a session whose id is derived from its first record. Files that begin alike have the
    /// same id; as in the store, they are one session only if one file continues the other.
    fn add_named_by_content(&mut self, found: FoundSession) {
        let alike = self.by_content.entry(found.id.to_string()).or_default();
        for index in alike.iter().copied() {
            let known = &mut self.sessions[index];
            if known.agent == found.agent && is_continued(known, &found) {
                if found.content.stamp().bytes > known.content.stamp().bytes {
                    *known = found;
                }
                return;
            }
        }
        alike.push(self.sessions.len());
        self.sessions.push(found);
    }

    /// Adds what is not read, except what is reported as unreadable.
    pub(crate) fn add_unread(&mut self, unread: Vec<UnreadContent>) {
        let is_reported =
            |it: &UnreadContent| self.unreadable.iter().any(|(path, _)| *path == it.place);
        let new: Vec<_> = unread.into_iter().filter(|it| !is_reported(it)).collect();
        self.unread.extend(new);
    }

    pub(crate) fn add_child(&mut self, found: FoundSession) {
        self.child_ids.insert(found.id.to_string());
        self.children.push(found);
    }

    pub(crate) fn has(&self, id: &str) -> bool {
        self.by_id.contains_key(id) || self.child_ids.contains(id)
    }

    pub(crate) fn report_unreadable(&mut self, path: &Path, error: &dyn Error) {
        self.unreadable.push((path.to_owned(), with_causes(error)));
    }

    /// Returns the entries of a folder, by name. A missing folder is not an error.
    pub(crate) fn list(&mut self, folder: &Path) -> Vec<PathBuf> {
        match list(folder) {
            Ok(paths) => paths,
            Err(error) => {
                self.report_unreadable(folder, &error);
                Vec::new()
            }
        }
    }

    /// Attaches exported child sessions to their parents.
    pub fn adopt_children(&mut self) {
        adopt_children(&mut self.sessions);
        self.by_id.clear();
        self.by_content.clear();
    }
}

/// Returns a folder and those below it, up to a depth.
pub(crate) fn folders_below(folder: &Path, depth: usize) -> Vec<PathBuf> {
    let mut folders = vec![folder.to_owned()];
    if depth > 0 {
        let below = list(folder).unwrap_or_default().into_iter().filter(|it| it.is_dir());
        folders.extend(below.flat_map(|it| folders_below(&it, depth - 1)));
    }
    folders
}

/// Attaches exported child sessions to their parents, if those were found as well, and sorts
/// parents before children.
pub fn adopt_children(sessions: &mut [FoundSession]) {
    let known: BTreeMap<String, Option<String>> = sessions
        .iter()
        .map(|it| (it.id.to_string(), it.parent.as_ref().map(ToString::to_string)))
        .collect();
    for found in sessions.iter_mut().filter(|it| it.parent.is_some()) {
        let mut root = found.id.to_string();
        // The bound breaks cycles of parents.
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

/// Merges two copies of a session into one.
fn united(one: &FoundSession, other: &FoundSession) -> Option<FoundSession> {
    if one.agent != other.agent {
        return None;
    }
    let content = one.content.with_copy(&other.place)?;
    let length = |path: &Path| path.metadata().map_or(0, |it| it.len());
    let leads = if length(&other.place) > length(&one.place) { other } else { one };
    Some(FoundSession { content, ..leads.clone() })
}

/// Returns whether the shorter of two sessions' files is the beginning of the longer one. A file
/// that cannot be read continues nothing.
fn is_continued(one: &FoundSession, other: &FoundSession) -> bool {
    let only_file = |it: &FoundSession| match it.content.files().ok()?.as_slice() {
        [only] => fs::File::open(&only.path).ok(),
        _ => None,
    };
    let (Some(one), Some(other)) = (only_file(one), only_file(other)) else { return false };
    let (mut one, mut other) = (io::BufReader::new(one), io::BufReader::new(other));
    loop {
        let length = match (one.fill_buf(), other.fill_buf()) {
            (Ok([]), Ok(_)) | (Ok(_), Ok([])) => return true,
            (Ok(ours), Ok(theirs)) => {
                let length = ours.len().min(theirs.len());
                if ours[..length] != theirs[..length] {
                    return false;
                }
                length
            }
            _ => return false,
        };
        one.consume(length);
        other.consume(length);
    }
}

/// The files and folders below a folder, from which agents' modules claim their own.
pub(crate) struct FolderTree {
    files: BTreeSet<ByDepth>,
    folders: Vec<PathBuf>,
    unreadable: Vec<(PathBuf, String)>,
    /// How many sessions' files were removed already.
    claimed: usize,
    /// Pipes, sockets and devices, which reading might block on forever.
    special: Vec<PathBuf>,
    /// How many files there were initially.
    file_count: usize,
}

impl FolderTree {
    /// Lists the regular files and the folders below a folder. Links are not followed.
    pub(crate) fn read(folder: &Path) -> Self {
        Self::read_without(folder, |_, _| false)
    }

    /// Lists them as [`read`](Self::read) does, without those that are claimed already. A claimed
    /// folder is not listed.
    pub(crate) fn read_without(
        folder: &Path,
        is_claimed: impl Fn(&Path, EntryKind) -> bool,
    ) -> Self {
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
                        let path = entry.path();
                        let kind = match entry.file_type() {
                            Ok(kind) if kind.is_dir() => EntryKind::Folder,
                            Ok(kind) if kind.is_file() => EntryKind::File,
                            Ok(kind) if !kind.is_symlink() => {
                                tree.special.push(path);
                                continue;
                            }
                            _ => continue,
                        };
                        match kind {
                            _ if is_claimed(&path, kind) => {}
                            EntryKind::Folder => pending.push((path, depth + 1)),
                            EntryKind::File => {
                                tree.files.insert(ByDepth::new(path));
                            }
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
        self.files.iter().map(|it| it.path.as_path())
    }

    /// Returns the files that match, the least deep first.
    pub(crate) fn matching(&self, is_wanted: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
        self.files().filter(|it| is_wanted(it)).map(Path::to_owned).collect()
    }

    /// Returns the files directly in a folder whose names begin like this, by name.
    pub(crate) fn files_in(&self, folder: &Path, prefix: &str) -> Vec<PathBuf> {
        // They stand together: files are ordered by depth, and then by path.
        let from = self.files.range(ByDepth::new(folder.join(prefix))..).map(|it| &it.path);
        let is_one = |it: &&PathBuf| it.parent() == Some(folder) && name_of(it).starts_with(prefix);
        from.take_while(is_one).cloned().collect()
    }

    /// Returns the folders that match.
    pub(crate) fn folders_matching(&self, is_wanted: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
        self.folders.iter().filter(|it| is_wanted(it)).cloned().collect()
    }

    pub(crate) fn remove_below(&mut self, folder: &Path) {
        self.files.retain(|it| !it.path.starts_with(folder));
        self.folders.retain(|it| !it.starts_with(folder));
    }

    /// Removes a database and the files beside it.
    pub(crate) fn remove_database(&mut self, path: &Path) {
        for ending in ["", "-wal", "-shm"] {
            let mut name = path.as_os_str().to_owned();
            name.push(ending);
            self.files.remove(&ByDepth::new(PathBuf::from(name)));
        }
    }

    /// Leaves the files of the sessions found so far as they are.
    pub(crate) fn skip_claimed(&mut self, found: &Discovery) {
        self.claimed = found.sessions.len();
    }

    /// Removes the files of all sessions found since the last call.
    pub(crate) fn remove_claimed(&mut self, found: &Discovery) {
        // A copy changes a session that was claimed before, so its path is removed as well.
        for session in found.sessions.iter().skip(self.claimed.saturating_sub(1)) {
            for file in session.content.files().unwrap_or_default() {
                self.files.remove(&ByDepth::new(file.path));
            }
            self.remove_database(&session.place);
        }
        self.claimed = found.sessions.len();
    }

    /// Removes a file that a session has in another form.
    pub(crate) fn remove_file(&mut self, path: &Path) {
        self.files.remove(&ByDepth::new(path.to_owned()));
    }

    fn next_file(&mut self) -> Option<PathBuf> {
        self.files.pop_first().map(|it| it.path)
    }
}

/// What an entry of a folder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    File,
    Folder,
}

/// A path, ordered by depth: what belongs to a file is deeper than the file.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct ByDepth {
    /// How many components the path has. To count them in every comparison would take most of the
    /// time to list a folder.
    depth: usize,
    path: PathBuf,
}

impl ByDepth {
    fn new(path: PathBuf) -> Self {
        Self { depth: path.components().count(), path }
    }
}

/// Returns the entries of a folder, by name; none if the folder does not exist.
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
