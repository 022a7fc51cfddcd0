//! OpenCode's sessions: in its database, and in the folder of files that older versions kept.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::Deserialize;

use super::{FoundSession, Kept, Sessions};
use crate::source::Database;

/// Adds the sessions that OpenCode keeps in `folder`, without those that others made.
pub(super) fn find(folder: &Path, all: &mut Sessions) {
    all.places.push(folder.to_owned());
    let database = folder.join("opencode.db");
    if database.exists() {
        let rows = Database::open(&database).and_then(|it| it.root_sessions());
        match rows {
            Err(error) => {
                let place = format!("`{}`", database.display());
                let why = error.to_string().replacen(&place, "it", 1);
                all.unreadable.push((database, why));
            }
            Ok(rows) => all.found.extend(rows.into_iter().map(|row| FoundSession {
                id: row.id,
                project: row.directory,
                main: database.clone(),
                kept: Kept::Database { changed: row.updated.and_then(time) },
            })),
        }
    }
    find_older(&folder.join("storage"), all);
}

fn time(milliseconds: i64) -> Option<SystemTime> {
    let since = Duration::from_millis(u64::try_from(milliseconds).ok()?);
    SystemTime::UNIX_EPOCH.checked_add(since)
}

/// What the file of a session tells of it.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Older {
    #[serde(rename = "parentID")]
    parent: Option<String>,
    directory: String,
}

fn find_older(storage: &Path, all: &mut Sessions) {
    let mut files: BTreeMap<String, (PathBuf, Older)> = BTreeMap::new();
    for project in all.list(&storage.join("session")) {
        for path in all.list(&project).into_iter().filter(|it| it.extension().is_some()) {
            let Some(id) = path.file_stem().map(|it| it.to_string_lossy().into_owned()) else {
                continue;
            };
            match fs::read(&path) {
                // What is in a damaged file is for `view` to tell.
                Ok(bytes) => {
                    let told = serde_json::from_slice(&bytes).unwrap_or_default();
                    files.insert(id, (path, told));
                }
                Err(error) => all.unreadable.push((path, error.to_string())),
            }
        }
    }
    // A database that took over the older files has their sessions, too.
    let known: BTreeSet<String> = all.found.iter().map(|it| it.id.clone()).collect();
    for (id, (path, told)) in &files {
        let is_child = told.parent.as_ref().is_some_and(|parent| files.contains_key(parent));
        if !is_child && !known.contains(id) {
            all.found.push(FoundSession {
                id: id.clone(),
                project: told.directory.clone(),
                main: path.clone(),
                kept: Kept::Storage { family: family(id, &files) },
            });
        }
    }
}

/// Returns the files of a session and its children to any depth, parents first.
fn family(root: &str, files: &BTreeMap<String, (PathBuf, Older)>) -> Vec<PathBuf> {
    let mut ids = vec![root];
    let mut next = 0;
    while let Some(parent) = ids.get(next).copied() {
        let children = files.iter().filter(|(_, (_, it))| it.parent.as_deref() == Some(parent));
        for (id, _) in children {
            if !ids.contains(&id.as_str()) {
                ids.push(id);
            }
        }
        next += 1;
    }
    ids.into_iter().filter_map(|id| files.get(id)).map(|(path, _)| path.clone()).collect()
}
