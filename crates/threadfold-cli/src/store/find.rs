//! Which session of the store is meant by what a person typed.

use anyhow::anyhow;
use threadfold_store::SessionEntry;

use super::OpenStore;
use crate::error::{CommandError, ambiguous};

/// Returns the session of this name; if there is none, those whose names begin with it.
pub(crate) fn named(entries: Vec<SessionEntry>, given: &str) -> Vec<SessionEntry> {
    let is_same = |it: &SessionEntry| it.session.as_str() == given;
    let begins = |it: &SessionEntry| !given.is_empty() && it.session.as_str().starts_with(given);
    let (same, others): (Vec<_>, Vec<_>) = entries.into_iter().partition(is_same);
    if same.is_empty() { others.into_iter().filter(begins).collect() } else { same }
}

/// Returns the one session that is meant.
pub(crate) fn unique(
    mut found: Vec<SessionEntry>,
    given: &str,
) -> Result<SessionEntry, CommandError> {
    match (found.len(), found.pop()) {
        (1, Some(only)) => Ok(only),
        (_, None) => Err(CommandError::new(
            anyhow!("session `{given}` is not in the store"),
            "`threadfold list` shows the sessions; `threadfold import` adds one",
        )),
        (_, Some(last)) => {
            found.push(last);
            Err(ambiguous(given, found.iter().map(|it| it.session.to_string())))
        }
    }
}

impl OpenStore {
    /// Finds a session by its name or the beginning of one.
    pub(crate) fn find(&self, given: &str) -> Result<SessionEntry, CommandError> {
        unique(named(self.sessions()?, given), given)
    }

    /// Finds sessions, each once; all that there are if none is given.
    pub(crate) fn find_all(&self, given: &[String]) -> Result<Vec<SessionEntry>, CommandError> {
        let all = self.sessions()?;
        if given.is_empty() {
            return Ok(all);
        }
        let mut found: Vec<SessionEntry> = Vec::new();
        for name in given {
            let entry = unique(named(all.clone(), name), name)?;
            if found.iter().all(|it| it.session != entry.session) {
                found.push(entry);
            }
        }
        Ok(found)
    }
}
