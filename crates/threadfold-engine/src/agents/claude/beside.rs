//! The subagents' files in a project's folder, by the session that each names.
//!
//! In the layout of 2.0 these files lie beside the main files of all sessions, and only their first
//! lines show which session they belong to. To read them once for the whole folder, and not once
//! for each session, keeps the cost of listing in proportion to the number of files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::SUBAGENT;
use super::files::first_session;
use crate::discover::name_of;

/// The subagents' files in a folder.
#[derive(Debug, Default)]
pub(super) struct SubagentsBeside {
    by_session: BTreeMap<String, BTreeSet<PathBuf>>,
    /// Files that name no session: they may belong to any.
    of_any: BTreeSet<PathBuf>,
    /// Files that cannot be read: they may belong to any as well, and whoever reads them fails.
    unreadable: Vec<PathBuf>,
    /// The metadata files.
    metas: BTreeSet<PathBuf>,
}

impl SubagentsBeside {
    /// Reads the first lines of each subagent's file among these, up to one that names its session.
    pub(super) fn among<'a>(files: impl IntoIterator<Item = &'a PathBuf>) -> Self {
        let mut found = Self::default();
        for path in files {
            if name_of(path).ends_with(".meta.json") {
                found.metas.insert(path.clone());
            } else if is_subagent(path) {
                match first_session(path) {
                    Ok(Some(session)) => {
                        found.by_session.entry(session).or_default().insert(path.clone());
                    }
                    Ok(None) => {
                        found.of_any.insert(path.clone());
                    }
                    Err(_) => found.unreadable.push(path.clone()),
                }
            }
        }
        found
    }

    /// Returns whether a file names this session, or none.
    pub(super) fn has_of(&self, session: &str, path: &Path) -> bool {
        let is_own = self.by_session.get(session).is_some_and(|paths| paths.contains(path));
        is_own || self.of_any.contains(path)
    }

    /// Adds the files that may belong to a session, each with its metadata.
    pub(super) fn add_of(&self, session: &str, paths: &mut Vec<PathBuf>) {
        self.add_own(session, paths);
        self.add_of_any(paths);
    }

    /// Adds the files that name a session, each with its metadata.
    pub(super) fn add_own(&self, session: &str, paths: &mut Vec<PathBuf>) {
        let own = self.by_session.get(session).into_iter().flatten();
        own.for_each(|path| self.add_with_meta(path, paths));
    }

    /// Adds the files that may belong to any session, each with its metadata.
    pub(super) fn add_of_any(&self, paths: &mut Vec<PathBuf>) {
        let any = self.of_any.iter().chain(&self.unreadable);
        any.for_each(|path| self.add_with_meta(path, paths));
    }

    fn add_with_meta(&self, path: &Path, paths: &mut Vec<PathBuf>) {
        paths.push(path.to_owned());
        let meta = path.with_extension("meta.json");
        if self.metas.contains(&meta) && meta.is_file() {
            paths.push(meta);
        }
    }
}

fn is_subagent(path: &Path) -> bool {
    let name = name_of(path);
    name.starts_with(SUBAGENT) && name.ends_with(".jsonl")
}
