//! Finds the session of the store that a person means.

use anyhow::anyhow;
use threadfold_core::SessionId;
use threadfold_store::{ListQuery, SessionEntry};

use super::OpenStore;
use crate::error::{CommandError, ambiguous};

/// How many sessions with the same prefix an error names at most.
const CANDIDATES: usize = 50;

/// Returns the only candidate.
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
        (count, Some(_)) if count > CANDIDATES => Err(CommandError::new(
            anyhow!("`{given}` matches more than {CANDIDATES} sessions"),
            "use a longer prefix",
        )),
        (_, Some(last)) => {
            found.push(last);
            Err(ambiguous(given, found.iter().map(|it| it.session.to_string())))
        }
    }
}

impl OpenStore {
    /// Returns the session with exactly this id.
    pub(crate) fn entry(&self, id: &str) -> Result<Option<SessionEntry>, CommandError> {
        Ok(self.wait(self.store.entry(&SessionId::from(id)))?)
    }

    /// Returns the session with this id; if there is none, the first ones whose id starts with it.
    pub(crate) fn candidates(&self, given: &str) -> Result<Vec<SessionEntry>, CommandError> {
        if let Some(entry) = self.entry(given)? {
            return Ok(vec![entry]);
        }
        if given.is_empty() {
            return Ok(Vec::new());
        }
        let query = ListQuery { limit: CANDIDATES + 1, ..ListQuery::with_prefix(given) };
        Ok(self.wait(self.store.list(&query))?.entries)
    }

    /// Finds a session by its id or a prefix of it.
    pub(crate) fn find(&self, given: &str) -> Result<SessionEntry, CommandError> {
        unique(self.candidates(given)?, given)
    }

    /// Finds sessions, each once; all sessions if none is given.
    pub(crate) fn find_all(&self, given: &[String]) -> Result<Vec<SessionEntry>, CommandError> {
        if given.is_empty() {
            return self.sessions();
        }
        let mut found: Vec<SessionEntry> = Vec::new();
        for name in given {
            let entry = self.find(name)?;
            if found.iter().all(|it| it.session != entry.session) {
                found.push(entry);
            }
        }
        Ok(found)
    }
}
