//! Which session of the store is meant by what a person typed.

use anyhow::anyhow;
use threadfold_core::SessionId;
use threadfold_store::SessionEntry;

use super::OpenStore;
use crate::error::{CommandError, ambiguous};

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
    /// Returns the session of this id.
    pub(crate) fn entry(&self, id: &str) -> Result<Option<SessionEntry>, CommandError> {
        let (store, id) = (self.shared(), SessionId::from(id));
        Ok(self.wait(async move { store.entry(&id).await })?)
    }

    /// Returns the session of this id; if there is none, those whose ids begin with it.
    pub(crate) fn candidates(&self, given: &str) -> Result<Vec<SessionEntry>, CommandError> {
        if let Some(entry) = self.entry(given)? {
            return Ok(vec![entry]);
        }
        let begins =
            |it: &SessionEntry| !given.is_empty() && it.session.as_str().starts_with(given);
        Ok(self.sessions()?.into_iter().filter(begins).collect())
    }

    /// Finds a session by its id or the beginning of one.
    pub(crate) fn find(&self, given: &str) -> Result<SessionEntry, CommandError> {
        unique(self.candidates(given)?, given)
    }

    /// Finds sessions, each once; all that there are if none is given.
    pub(crate) fn find_all(&self, given: &[String]) -> Result<Vec<SessionEntry>, CommandError> {
        if given.is_empty() {
            return self.sessions();
        }
        let mut found: Vec<SessionEntry> = Vec::new();
        for id in given {
            let entry = self.find(id)?;
            if found.iter().all(|it| it.session != entry.session) {
                found.push(entry);
            }
        }
        Ok(found)
    }
}
