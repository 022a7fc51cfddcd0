//! Resolves what the user typed to a session.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use threadfold_engine::{Discovery, FoundSession, is_container};
use threadfold_store::SessionEntry;

use crate::error::{CommandError, ambiguous};
use crate::store::OpenStore;
use crate::surroundings::{discover, listed_places};

/// What the user meant.
pub(crate) enum ResolvedInput {
    /// A session in an agent's folder.
    Session(Box<FoundSession>),
    /// A file, one agent's folder of sessions, or `-`.
    Input(PathBuf),
    /// A folder that may contain several sessions.
    Folder(PathBuf),
}

impl ResolvedInput {
    fn path(given: &str) -> Self {
        let path = PathBuf::from(given);
        match path.is_dir() && !is_container(&path) {
            true => Self::Folder(path),
            false => Self::Input(path),
        }
    }
}

/// Resolves `given`: `-`, a path, or a session's id or a prefix of it.
pub(crate) fn find_given(given: &str) -> Result<ResolvedInput, CommandError> {
    if !is_surely_path(given) {
        match by_id(discover(), given) {
            Err(none) if none.candidates.is_empty() && Path::new(given).exists() => {}
            Err(none) => return Err(none.into()),
            Ok(found) => return Ok(ResolvedInput::Session(Box::new(found))),
        }
    }
    Ok(ResolvedInput::path(given))
}

/// What to show.
pub(crate) enum Target<'a> {
    /// A session in an agent's folder.
    Found(Box<FoundSession>),
    /// A file, a folder, or `-`.
    Input(PathBuf),
    /// A session in the store.
    Stored(&'a OpenStore, Box<SessionEntry>),
    /// A session that is on disk and in the store.
    Both(Box<FoundSession>, &'a OpenStore, Box<SessionEntry>),
}

/// Resolves `given` as [`find_given`] does, and among the stored sessions.
pub(crate) fn resolve<'a>(
    given: &str,
    store: Option<&'a OpenStore>,
) -> Result<Target<'a>, CommandError> {
    if !is_surely_path(given) {
        let mut stored = match store {
            Some(store) => store.candidates(given)?,
            None => Vec::new(),
        };
        let is_exactly_stored = stored.iter().any(|it| it.session.as_str() == given);
        match (by_id(discover(), given), store) {
            (Ok(found), None) => return Ok(Target::Found(Box::new(found))),
            (Ok(found), Some(store)) => {
                let same = stored.iter().position(|it| it.session == found.id);
                let same = same.map(|place| stored.swap_remove(place));
                if found.id.as_str() == given || stored.is_empty() {
                    let found = Box::new(found);
                    return Ok(match same {
                        Some(entry) => Target::Both(found, store, Box::new(entry)),
                        None => Target::Found(found),
                    });
                }
                if !is_exactly_stored {
                    let ids = stored.iter().map(|it| it.session.to_string());
                    return Err(ambiguous(given, [found.id.to_string()].into_iter().chain(ids)));
                }
                return store.only(stored, given);
            }
            (Err(none), Some(store))
                if !stored.is_empty() && (none.candidates.is_empty() || is_exactly_stored) =>
            {
                return store.only(stored, given);
            }
            (Err(none), _) if none.candidates.is_empty() && Path::new(given).exists() => {}
            (Err(none), None) => return Err(none.into()),
            (Err(none), Some(_)) => {
                let place = format!("the store, {}", none.place);
                return Err(NoSession { place, ..none }.into());
            }
        }
    }
    // An id may look like a path that does not exist.
    if let Some(store) = store.filter(|_| !Path::new(given).exists())
        && let Some(entry) = store.entry(given)?
    {
        return Ok(Target::Stored(store, Box::new(entry)));
    }
    match ResolvedInput::path(given) {
        ResolvedInput::Session(found) => Ok(Target::Found(found)),
        ResolvedInput::Input(path) | ResolvedInput::Folder(path) => Ok(Target::Input(path)),
    }
}

impl OpenStore {
    fn only<'a>(
        &'a self,
        entries: Vec<SessionEntry>,
        given: &str,
    ) -> Result<Target<'a>, CommandError> {
        let entry = crate::store::unique(entries, given)?;
        Ok(Target::Stored(self, Box::new(entry)))
    }
}

fn is_surely_path(given: &str) -> bool {
    let is_file = |ending: &&str| given.ends_with(*ending);
    given.contains(['/', '\\'])
        || [".jsonl", ".json", ".db", ".sse"].iter().any(is_file)
        || given == "-"
}

/// Why an id does not identify one session.
struct NoSession {
    given: String,
    place: String,
    candidates: Vec<FoundSession>,
}

fn by_id(found: Discovery, given: &str) -> Result<FoundSession, NoSession> {
    let place = listed_places(&found.places);
    let mut candidates = matching(found.sessions, given);
    if candidates.is_empty() {
        candidates = matching(found.children, given);
    }
    match candidates.pop() {
        Some(only) if candidates.is_empty() => Ok(only),
        last => {
            candidates.extend(last);
            Err(NoSession { given: given.to_owned(), place, candidates })
        }
    }
}

/// Returns the sessions with this id; if there are none, those whose ids have this prefix.
fn matching(found: Vec<FoundSession>, given: &str) -> Vec<FoundSession> {
    let (same, others): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|it| it.id.as_str() == given);
    let begins = |it: &FoundSession| !given.is_empty() && it.id.as_str().starts_with(given);
    if same.is_empty() { others.into_iter().filter(begins).collect() } else { same }
}

impl From<NoSession> for CommandError {
    fn from(none: NoSession) -> Self {
        let NoSession { given, place, candidates } = none;
        if candidates.is_empty() {
            return Self::new(
                anyhow!("session `{given}` is not in {place}"),
                "`threadfold list` shows the sessions; the path of a session's file works as well",
            );
        }
        let is_same = candidates.iter().all(|it| it.id.as_str() == given);
        if is_same {
            let paths = candidates.iter().map(|it| format!("`{}`", it.place.display()));
            return Self::new(
                anyhow!(
                    "session `{given}` exists {} times: {}",
                    candidates.len(),
                    paths.collect::<Vec<_>>().join(", ")
                ),
                "give the path of one",
            );
        }
        ambiguous(&given, candidates.into_iter().map(|it| it.id.to_string()))
    }
}
