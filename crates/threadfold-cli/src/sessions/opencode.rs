//! OpenCode's sessions: in its database, and in the folder of files that older versions kept.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use super::{FoundSession, Kept, Sessions};
use crate::error::CommandError;
use crate::source::{Database, SessionRow, Storage};

/// Adds the sessions that OpenCode keeps in `folder`; those that others made stand apart.
pub(crate) fn find(folder: &Path, all: &mut Sessions) {
    all.places.push(folder.to_owned());
    let database = folder.join("opencode.db");
    if database.exists()
        && let Err(error) = find_in_database(&database, all)
    {
        let place = format!("`{}`", database.display());
        let why = error.to_string().replacen(&place, "it", 1);
        all.unreadable.push((database, why));
    }
    find_in_storage(&folder.join("storage"), all);
}

fn find_in_database(path: &Path, all: &mut Sessions) -> Result<(), CommandError> {
    let database = Rc::new(Database::open(path)?);
    let found = |row: SessionRow| FoundSession {
        id: row.id,
        is_told: true,
        copies: Vec::new(),
        project: row.directory,
        main: path.to_owned(),
        kept: Kept::Shelf { shelf: database.clone(), changed: row.updated.and_then(time) },
    };
    let (roots, children) = (database.root_sessions()?, database.child_sessions()?);
    all.found.extend(roots.into_iter().map(found));
    all.children.extend(children.into_iter().map(found));
    Ok(())
}

fn time(milliseconds: i64) -> Option<SystemTime> {
    let since = Duration::from_millis(u64::try_from(milliseconds).ok()?);
    SystemTime::UNIX_EPOCH.checked_add(since)
}

/// Adds the sessions of the older folder of files.
pub(super) fn find_in_storage(folder: &Path, all: &mut Sessions) {
    let mut storage = Storage::open(folder);
    all.unreadable.append(&mut storage.unreadable);
    let storage = Rc::new(storage);
    // A database that took over the older files has their sessions, too.
    let known: BTreeSet<String> =
        all.found.iter().chain(&all.children).map(|it| it.id.clone()).collect();
    let found = |(row, main): (SessionRow, PathBuf)| FoundSession {
        kept: Kept::Shelf {
            shelf: storage.clone(),
            changed: main.metadata().and_then(|it| it.modified()).ok(),
        },
        id: row.id,
        is_told: true,
        copies: Vec::new(),
        project: row.directory,
        main,
    };
    let is_new = |it: &FoundSession| !known.contains(&it.id);
    all.found.extend(storage.root_sessions().into_iter().map(found).filter(is_new));
    all.children.extend(storage.child_sessions().into_iter().map(found).filter(is_new));
}
