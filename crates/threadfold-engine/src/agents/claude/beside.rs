//! The subagents' files in a project's folder, by the session that each names.
//!
//! In the layout of 2.0 these files lie beside the main files of all sessions, and only their first
//! line shows which session they belong to. To read them once for the whole folder, and not once
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
    /// Files that name no session, or cannot be read: they may belong to any.
    of_any: Vec<PathBuf>,
}

impl SubagentsBeside {
    /// Reads the first line of each subagent's file among these.
    pub(super) fn among<'a>(files: impl IntoIterator<Item = &'a PathBuf>) -> Self {
        let mut found = Self::default();
        for path in files.into_iter().filter(|it| is_subagent(it)) {
            match first_session(path) {
                Ok(Some(session)) => {
                    found.by_session.entry(session).or_default().insert(path.clone());
                }
                _ => found.of_any.push(path.clone()),
            }
        }
        found
    }

    /// Returns whether a file names this session.
    pub(super) fn has_of(&self, session: &str, path: &Path) -> bool {
        self.by_session.get(session).is_some_and(|paths| paths.contains(path))
    }

    /// Adds the files that may belong to a session, each with its metadata.
    pub(super) fn add_of(&self, session: &str, paths: &mut Vec<PathBuf>) {
        let own = self.by_session.get(session).into_iter().flatten();
        for path in own.chain(&self.of_any) {
            paths.push(path.clone());
            let meta = path.with_extension("meta.json");
            if meta.is_file() {
                paths.push(meta);
            }
        }
    }
}

fn is_subagent(path: &Path) -> bool {
    let name = name_of(path);
    name.starts_with(SUBAGENT) && name.ends_with(".jsonl")
}
