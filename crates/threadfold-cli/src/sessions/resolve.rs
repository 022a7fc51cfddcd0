//! Which session is meant by what a person typed.

use std::path::{Path, PathBuf};

use anyhow::anyhow;

use threadfold_store::SessionEntry;

use crate::error::{CommandError, ambiguous, listed};
use crate::store::{OpenStore, unique};

use super::find::say_unreadable;
use super::{FoundSession, Sessions};
use crate::source::Storage;

/// What a person gave.
pub(crate) enum Given {
    /// A session in an agent's folder.
    Session(FoundSession),
    /// A file, or `-`; it may hold anything.
    File(PathBuf),
    /// A folder that may hold several sessions.
    Folder(PathBuf),
}

impl Given {
    /// Returns what lies at a path.
    pub(crate) fn path(given: &str) -> Self {
        let path = PathBuf::from(given);
        match path.is_dir() && !Storage::is_one(&path) {
            true => Self::Folder(path),
            false => Self::File(path),
        }
    }
}

/// Finds what `given` means: `-`, a path, a session's name or the beginning of one.
pub(crate) fn find_given(given: &str) -> Result<Given, CommandError> {
    if !is_surely_path(given) {
        match by_name(Sessions::of_all_agents(), given) {
            Err(none) if none.candidates.is_empty() && Path::new(given).exists() => {}
            Err(none) => return Err(none.into()),
            Ok(found) => return Ok(Given::Session(found)),
        }
    }
    Ok(Given::path(given))
}

/// What is to be shown.
pub(crate) enum Wanted<'a> {
    /// A session in an agent's folder.
    Session(FoundSession),
    /// A file that a person named, or `-`; it may hold anything.
    File(PathBuf),
    /// A session in the store.
    Kept(&'a OpenStore, SessionEntry),
    /// A session that is in both.
    Both(FoundSession, &'a OpenStore, SessionEntry),
}

/// Finds what `given` means: as [`find_given`], and among the sessions of the store.
pub(crate) fn resolve<'a>(
    given: &str,
    store: Option<&'a OpenStore>,
) -> Result<Wanted<'a>, CommandError> {
    if !is_surely_path(given) {
        let mut kept = match store {
            Some(store) => store.candidates(given)?,
            None => Vec::new(),
        };
        let is_exactly_kept = kept.iter().any(|it| it.session.as_str() == given);
        match (by_name(Sessions::of_all_agents(), given), store) {
            (Ok(found), None) => return Ok(Wanted::Session(found)),
            (Ok(found), Some(store)) => {
                let same = kept.iter().position(|it| it.session.as_str() == found.id);
                let same = same.map(|place| kept.swap_remove(place));
                if found.id == given || kept.is_empty() {
                    return Ok(match same {
                        Some(entry) => Wanted::Both(found, store, entry),
                        None => Wanted::Session(found),
                    });
                }
                if !is_exactly_kept {
                    let ids = kept.iter().map(|it| it.session.to_string());
                    return Err(ambiguous(given, [found.id].into_iter().chain(ids)));
                }
                return unique(kept, given).map(|entry| Wanted::Kept(store, entry));
            }
            (Err(none), Some(store))
                if !kept.is_empty() && (none.candidates.is_empty() || is_exactly_kept) =>
            {
                return unique(kept, given).map(|entry| Wanted::Kept(store, entry));
            }
            (Err(none), _) if none.candidates.is_empty() && Path::new(given).exists() => {}
            (Err(none), None) => return Err(none.into()),
            (Err(none), Some(_)) => {
                let place = format!("the store, {}", none.place);
                return Err(NoSession { place, ..none }.into());
            }
        }
    }
    // A name may look like a path, and be none.
    if let Some(store) = store.filter(|_| !Path::new(given).exists())
        && let Some(entry) = store.entry(given)?
    {
        return Ok(Wanted::Kept(store, entry));
    }
    match Given::path(given) {
        Given::Session(found) => Ok(Wanted::Session(found)),
        Given::File(file) => Ok(Wanted::File(file)),
        Given::Folder(folder) => only_one(&folder),
    }
}

fn is_surely_path(given: &str) -> bool {
    let is_file = |ending: &&str| given.ends_with(*ending);
    given.contains(['/', '\\'])
        || [".jsonl", ".json", ".db", ".sse"].iter().any(is_file)
        || given == "-"
}

/// Why a name does not lead to one session.
struct NoSession {
    given: String,
    place: String,
    candidates: Vec<FoundSession>,
    unreadable: Vec<(PathBuf, String)>,
}

fn by_name(sessions: Sessions, given: &str) -> Result<FoundSession, NoSession> {
    let place = places(&sessions.places);
    let unreadable = sessions.unreadable;
    let mut candidates = found_by_name(sessions.found, given);
    if candidates.is_empty() {
        candidates = found_by_name(sessions.children, given);
    }
    match candidates.pop() {
        Some(only) if candidates.is_empty() => Ok(only),
        last => {
            candidates.extend(last);
            Err(NoSession { given: given.to_owned(), place, candidates, unreadable })
        }
    }
}

/// Returns the sessions of this name; if there are none, those whose names begin with it.
fn found_by_name(found: Vec<FoundSession>, given: &str) -> Vec<FoundSession> {
    let (same, others): (Vec<_>, Vec<_>) = found.into_iter().partition(|it| it.id == given);
    let begins = |it: &FoundSession| !given.is_empty() && it.id.starts_with(given);
    if same.is_empty() { others.into_iter().filter(begins).collect() } else { same }
}

fn only_one<'a>(folder: &Path) -> Result<Wanted<'a>, CommandError> {
    let mut found = Sessions::below(folder).found;
    if found.is_empty() {
        found = Sessions::below(&folder.join("projects")).found;
    }
    let place = folder.display();
    match found.pop() {
        Some(only) if found.is_empty() => Ok(Wanted::Session(only)),
        None => Err(CommandError::new(
            anyhow!("there is no session in `{place}`"),
            "`threadfold list` shows the sessions on this machine",
        )),
        Some(last) => {
            found.push(last);
            Err(CommandError::new(
                anyhow!("there are {} sessions in `{place}`: {}", found.len(), names(&found)),
                "give the path of one of their files",
            ))
        }
    }
}

impl From<NoSession> for CommandError {
    fn from(none: NoSession) -> Self {
        let NoSession { given, place, candidates, unreadable } = none;
        if candidates.is_empty() {
            say_unreadable(&unreadable);
            return Self::new(
                anyhow!("session `{given}` is not in {place}"),
                "`threadfold list` shows the sessions; a path to a file of one works too",
            );
        }
        let is_same = candidates.iter().all(|it| it.id == given);
        if is_same {
            let paths = candidates.iter().map(|it| format!("`{}`", it.main.display()));
            return Self::new(
                anyhow!(
                    "session `{given}` is there {} times: {}",
                    candidates.len(),
                    paths.collect::<Vec<_>>().join(", ")
                ),
                "give the path of one",
            );
        }
        ambiguous(&given, candidates.into_iter().map(|it| it.id))
    }
}

/// Returns folders as they stand in a sentence.
pub(crate) fn places(folders: &[PathBuf]) -> String {
    let names: Vec<_> = folders.iter().map(|it| format!("`{}`", it.display())).collect();
    names.join(" or ")
}

fn names(candidates: &[FoundSession]) -> String {
    listed(candidates.iter().map(|it| it.id.clone()))
}
