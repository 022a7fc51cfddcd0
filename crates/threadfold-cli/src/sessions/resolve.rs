//! Which session is meant by what a person typed.

use std::path::{Path, PathBuf};

use anyhow::anyhow;

use crate::error::{CommandError, say};

use super::{FoundSession, Sessions};
use crate::source::Storage;

/// How many candidates are named.
const SHOWN: usize = 8;

/// What is meant.
pub(crate) enum Wanted {
    /// A session that was found.
    Session(FoundSession),
    /// A file that a person named, or `-`; it may hold anything.
    File(PathBuf),
}

/// Finds what `given` means: `-`, a path, a session's name or the beginning of one.
pub(crate) fn resolve(given: &str) -> Result<Wanted, CommandError> {
    let path = Path::new(given);
    let is_file = |ending: &&str| given.ends_with(*ending);
    let is_surely_path = given.contains(['/', '\\'])
        || [".jsonl", ".json", ".db"].iter().any(is_file)
        || given == "-";
    if !is_surely_path {
        match by_name(Sessions::of_all_agents(), given) {
            Err(NoSession { candidates, .. }) if candidates.is_empty() && path.exists() => {}
            Err(none) => return Err(none.into()),
            Ok(found) => return Ok(Wanted::Session(found)),
        }
    }
    if path.is_dir() && !Storage::is_one(path) {
        return only_one(path);
    }
    Ok(Wanted::File(path.to_owned()))
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
    let mut candidates = named(sessions.found, given);
    if candidates.is_empty() {
        candidates = named(sessions.children, given);
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
fn named(found: Vec<FoundSession>, given: &str) -> Vec<FoundSession> {
    let (same, others): (Vec<_>, Vec<_>) = found.into_iter().partition(|it| it.id == given);
    let begins = |it: &FoundSession| !given.is_empty() && it.id.starts_with(given);
    if same.is_empty() { others.into_iter().filter(begins).collect() } else { same }
}

fn only_one(folder: &Path) -> Result<Wanted, CommandError> {
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
            for (path, why) in &unreadable {
                say(format_args!("left out `{}`: {why}", path.display()));
            }
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
        Self::new(
            anyhow!("`{given}` could be {} sessions: {}", candidates.len(), names(&candidates)),
            "give more of the name",
        )
    }
}

/// Returns folders as they stand in a sentence.
pub(crate) fn places(folders: &[PathBuf]) -> String {
    let names: Vec<_> = folders.iter().map(|it| format!("`{}`", it.display())).collect();
    names.join(" or ")
}

fn names(candidates: &[FoundSession]) -> String {
    let mut names: Vec<_> =
        candidates.iter().take(SHOWN).map(|it| format!("`{}`", it.id)).collect();
    if candidates.len() > SHOWN {
        names.push(format!("and {} more", candidates.len() - SHOWN));
    }
    names.join(", ")
}
