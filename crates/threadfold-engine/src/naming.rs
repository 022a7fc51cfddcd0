//! Under which id a session is stored: another one may have the id that it would have.

use std::path::Path;

use threadfold_core::SessionId;
use threadfold_fold::{Agent, SessionSummary, Slices};
use threadfold_store::{SessionEntry, Store};

use crate::error::EngineError;
use crate::files::has_file;
use crate::found::{FoundSession, Naming};
use crate::load::load;

/// Decides under which id a session is stored.
pub struct SessionNames<'a> {
    store: &'a dyn Store,
}

impl<'a> SessionNames<'a> {
    /// Returns the names of a store.
    pub fn new(store: &'a dyn Store) -> Self {
        Self { store }
    }

    /// Returns the id under which a session is stored: that of the stored session that it is, or
    /// one that no other has.
    ///
    /// What an agent calls a session is believed. An id that was made of the content is not, for
    /// two sessions may begin alike: there the files decide.
    pub async fn settle(&self, found: &FoundSession) -> Result<SessionId, EngineError> {
        if let Some(older) = self.older_name(found).await? {
            return Ok(older);
        }
        for number in 1_u32.. {
            let id = numbered(&found.id, number);
            match self.store.entry(&id).await? {
                None => return Ok(id),
                Some(entry) if self.is_same(&entry, found).await? => return Ok(id),
                Some(_) => {}
            }
        }
        Ok(found.id.clone())
    }

    /// Returns the stored session of a file that older versions named after the file.
    async fn older_name(&self, found: &FoundSession) -> Result<Option<SessionId>, EngineError> {
        let stem = found.place.file_stem().unwrap_or_default().to_string_lossy();
        if found.naming != Naming::Content || stem.is_empty() {
            return Ok(None);
        }
        let hash = blake3::hash(absolute(&found.place).as_bytes()).to_hex();
        for id in [stem.to_string(), format!("{stem}-{}", &hash[..8])] {
            if let Some(entry) = self.store.entry(&SessionId::from(id.as_str())).await?
                && self.is_same(&entry, found).await?
            {
                return Ok(Some(entry.session));
            }
        }
        Ok(None)
    }

    /// Says whether a stored session is the one that was found.
    async fn is_same(
        &self,
        entry: &SessionEntry,
        found: &FoundSession,
    ) -> Result<bool, EngineError> {
        if let (Some(known), Some(agent)) = (agent_of(entry), found.agent)
            && known != agent.name()
        {
            return Ok(false);
        }
        if found.naming == Naming::Agent || entry.head.seq == 0 {
            return Ok(true);
        }
        let loaded = load(self.store, &entry.session, u64::MAX, Slices::default()).await?;
        for file in found.content.files()? {
            if has_file(self.store, &loaded.fold, &file).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Returns the id that a session gets if others have the ids before it.
pub(crate) fn numbered(id: &SessionId, number: u32) -> SessionId {
    match number {
        1 => id.clone(),
        number => SessionId::from(format!("{id}-{number}")),
    }
}

/// Returns the name of the agent of a stored session, if its summary has it.
pub(crate) fn agent_of(entry: &SessionEntry) -> Option<String> {
    let summary = entry.summary.as_ref()?;
    serde_json::from_str::<SessionSummary>(&summary.json).ok()?.agent
}

fn absolute(path: &Path) -> String {
    let place = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    place.to_string_lossy().into_owned()
}

/// Returns the stored session that has the id which the agent gave this one, if this one has
/// another: the store holds one session under two names.
pub async fn duplicate_names(
    store: &dyn Store,
    entry: &SessionEntry,
) -> Result<Option<SessionId>, EngineError> {
    // An id that an agent wrote is right, so the session need not be folded.
    if Agent::all().any(|agent| agent.is_session_name(entry.session.as_str())) {
        return Ok(None);
    }
    let loaded = load(store, &entry.session, u64::MAX, Slices::default()).await?;
    let Some(told) = loaded.fold.agent_session().filter(|told| *told != entry.session) else {
        return Ok(None);
    };
    Ok(store.entry(&told).await?.map(|other| other.session))
}
