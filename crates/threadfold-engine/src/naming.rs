//! Assigns the id under which a session is stored, because its own id may be taken.

use std::path::Path;

use threadfold_core::{SessionEvent, SessionId, SourceKind};
use threadfold_fold::{Agent, RecordKind, SessionSummary, Slices};
use threadfold_store::{Limit, SessionEntry, Store};

use crate::error::EngineError;
use crate::files::has_file;
use crate::found_session::{FoundSession, IdOrigin};
use crate::load::load;

/// Decides under which id a session is stored.
pub struct SessionNames<'a> {
    store: &'a dyn Store,
}

impl<'a> SessionNames<'a> {
    /// Returns the names in a store.
    pub fn new(store: &'a dyn Store) -> Self {
        Self { store }
    }

    /// Returns the id under which a session is stored: that of the same session in the store, or an
    /// unused one.
    ///
    /// An id that the agent assigned is trusted. An id derived from the content is not, because two
    /// sessions may begin alike: then their files are compared.
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

    /// Returns the stored session of a file for which older versions used the file's name as id.
    async fn older_name(&self, found: &FoundSession) -> Result<Option<SessionId>, EngineError> {
        let stem = found.place.file_stem().unwrap_or_default().to_string_lossy();
        if found.naming != IdOrigin::Content || stem.is_empty() {
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

    /// Returns whether a stored session is the discovered one.
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
        // A file that names a run is not that run, whatever id it claims.
        if self.is_run(entry).await? {
            return Ok(false);
        }
        if found.naming == IdOrigin::Agent || entry.head.seq == 0 {
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

impl SessionNames<'_> {
    /// Returns whether a stored session began as a run of our own loop. Its first record decides.
    async fn is_run(&self, entry: &SessionEntry) -> Result<bool, EngineError> {
        let limit = Limit { until: 1, ..Limit::default() };
        let first = self.store.read(&entry.session, 0, limit).await?;
        Ok(first.first().is_some_and(|record| match record.kind {
            RecordKind::Loop | RecordKind::Trust => true,
            // The loop of older versions wrote ordinary events.
            RecordKind::Event => std::str::from_utf8(&record.bytes)
                .ok()
                .and_then(|text| SessionEvent::from_json(text).ok())
                .and_then(|event| event.context.source)
                .is_some_and(|source| source.kind == SourceKind::Loop),
            _ => false,
        }))
    }
}

/// Returns the id with a number appended, for when the ids before it are taken.
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

/// Returns the stored session under the id that the agent assigned, if this one has another id: the
/// store has one session under two names.
pub async fn duplicate_names(
    store: &dyn Store,
    entry: &SessionEntry,
) -> Result<Option<SessionId>, EngineError> {
    // An id that an agent assigned is right, so the session need not be folded.
    if Agent::all().any(|agent| agent.is_session_name(entry.session.as_str())) {
        return Ok(None);
    }
    let loaded = load(store, &entry.session, u64::MAX, Slices::default()).await?;
    let Some(own_id) = loaded.fold.agent_session().filter(|own_id| *own_id != entry.session) else {
        return Ok(None);
    };
    Ok(store.entry(&own_id).await?.map(|other| other.session))
}
