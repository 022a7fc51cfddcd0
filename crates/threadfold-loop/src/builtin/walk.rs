//! Walks the files below a folder in order, skipping those that git ignores.
//!
//! It goes from handle to handle and follows no links, so it cannot leave the folder. It reads
//! ignore files itself, because one that is a pipe must not block it.

use std::io::{self, Read};
use std::mem;
use std::path::{Path, PathBuf};
use std::vec;

use cap_std::fs::{Dir, DirEntry};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::folder::open_file_in;
use super::list::sorted;

/// The maximum depth.
const DEPTH: usize = 100;
/// The maximum number of entries of one folder.
const NAMES: usize = 100_000;
/// The maximum size of an ignore file.
const RULES: u64 = 1024 * 1024;

/// A file that was found.
pub(super) struct FoundFile {
    /// The folder that contains it.
    pub(super) dir: Dir,
    /// Its name in that folder.
    pub(super) name: PathBuf,
    /// Its path from the root of the walk.
    pub(super) path: PathBuf,
}

/// A walk in progress.
pub(super) struct Walk {
    levels: Vec<Level>,
}

struct Level {
    dir: Dir,
    path: PathBuf,
    rules: Gitignore,
    entries: vec::IntoIter<DirEntry>,
}

impl Walk {
    /// Starts at `start` below `root`. That folder is walked even if it is ignored; the rules of
    /// the folders above it apply to its content.
    pub(super) fn new(root: &Dir, start: &Path) -> io::Result<Self> {
        let mut level = Level::new(root.try_clone()?, PathBuf::new());
        let mut levels = Vec::new();
        for name in root.canonicalize(start)?.iter().filter(|it| *it != ".") {
            let below = Level::new(level.dir.open_dir(name)?, level.path.join(name));
            levels.push(mem::replace(&mut level, below));
        }
        level.entries = sorted(&level.dir, NAMES)?.into_iter();
        levels.push(level);
        Ok(Self { levels })
    }

    fn is_ignored(&self, path: &Path, is_dir: bool) -> bool {
        for level in self.levels.iter().rev() {
            match level.rules.matched(path, is_dir) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        false
    }
}

impl Level {
    /// Returns a level whose entries are not read yet.
    fn new(dir: Dir, path: PathBuf) -> Self {
        let rules = rules(&dir, &path);
        Self { dir, path, rules, entries: Vec::new().into_iter() }
    }
}

impl Iterator for Walk {
    type Item = FoundFile;

    /// Returns the next file. Entries that cannot be read are skipped.
    fn next(&mut self) -> Option<FoundFile> {
        loop {
            let level = self.levels.last_mut()?;
            let Some(entry) = level.entries.next() else {
                self.levels.pop();
                continue;
            };
            let name = PathBuf::from(entry.file_name());
            let path = level.path.join(&name);
            let Ok(kind) = entry.file_type() else { continue };
            if name.as_os_str() == ".git" || self.is_ignored(&path, kind.is_dir()) {
                continue;
            }
            let level = self.levels.last()?;
            if kind.is_dir() && self.levels.len() < DEPTH {
                let below = level.dir.open_dir(&name).and_then(|dir| {
                    let entries = sorted(&dir, NAMES)?.into_iter();
                    Ok(Level { entries, ..Level::new(dir, path) })
                });
                self.levels.extend(below.ok());
            } else if kind.is_file() {
                let Ok(dir) = level.dir.try_clone() else { continue };
                return Some(FoundFile { dir, name, path });
            }
        }
    }
}

/// Reads the rules of one folder. Like git, it skips invalid lines.
fn rules(dir: &Dir, path: &Path) -> Gitignore {
    let mut text = Vec::new();
    let read = open_file_in(dir, Path::new(".gitignore")).ok().and_then(|(file, _)| {
        let read = file.take(RULES).read_to_end(&mut text);
        read.ok()
    });
    if read.is_none() {
        return Gitignore::empty();
    }
    let mut builder = GitignoreBuilder::new(path);
    for line in String::from_utf8_lossy(&text).lines() {
        builder.add_line(None, line).ok();
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}
