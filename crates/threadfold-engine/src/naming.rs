//! Assigns the id under which a session is stored, because its own id may be taken.

use std::path::Path;
use std::sync::Arc;

use threadfold_core::{SessionEvent, SessionId, SourceKind};
use threadfold_fold::{Agent, RecordKind, SessionSummary, Slices};
use threadfold_store::{Limit, SessionEntry, Store};

use crate::error::EngineError;
use crate::files::has_file;
use crate::found_session::{FoundSession, IdOrigin};
use crate::load::{LoadReport, load, load_within};
use crate::pipe::{Pipe, PipeInput};
use crate::spill_file::Budget;

/// Decides under which id a session is stored.
pub struct SessionNames<'a> {
    store: &'a Arc<dyn Store>,
}

impl<'a> SessionNames<'a> {
    /// Returns the names in a store.
    pub fn new(store: &'a Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Returns the id under which a session is stored: that of the same session in the store, or an
    /// unused one.
    ///
    /// An id that the agent assigned is trusted. An id derived from the content is not, because two
    /// sessions may begin alike: then their files are compared.
    pub async fn settle(&self, found: &FoundSession) -> Result<SessionId, EngineError> {
        Ok(self.settle_within(found, None).await?.0)
    }

    /// Settles the id as [`settle`](Self::settle) does; if the stored session had to be loaded to
    /// compare its files, returns it as well, so that it is not loaded again.
    pub async fn settle_within(
        &self,
        found: &FoundSession,
        budget: Option<Budget>,
    ) -> Result<(SessionId, Option<LoadReport>), EngineError> {
        for id in older_names(found) {
            if let Some(entry) = self.store.entry(&id).await?
                && let Some(same) = self.same(&entry, found, &budget).await?
            {
                return Ok((entry.session, same.0));
            }
        }
        for number in 1_u32.. {
            let id = numbered(&found.id, number);
            let Some(entry) = self.store.entry(&id).await? else { return Ok((id, None)) };
            if let Some(same) = self.same(&entry, found, &budget).await? {
                return Ok((id, same.0));
            }
        }
        Ok((found.id.clone(), None))
    }

    /// Sets the id under which a pipe is stored. A stream without an id of its own is never merged
    /// with another that begins alike; but one that a session contains is that session.
    ///
    /// It is cancellation-safe, like [`Pipe::recognize`].
    pub async fn settle_pipe(
        &self,
        input: &mut PipeInput,
        pipe: &mut Pipe,
        budget: Option<Budget>,
    ) -> Result<(), EngineError> {
        if input.naming == IdOrigin::Agent {
            return Ok(());
        }
        let own = input.id.clone();
        for number in 1_u32.. {
            let id = numbered(&own, number);
            let Some(entry) = self.store.entry(&id).await? else {
                input.id = id;
                return Ok(());
            };
            if entry.head.seq > 0 && !self.is_run(&entry).await? {
                let (slices, within) = (Slices::default(), budget.clone());
                let loaded = load_within(self.store, &id, u64::MAX, slices, within).await?;
                if pipe.is_repeated_in((&**self.store, &loaded.fold), input).await? {
                    (input.id, input.is_repeated) = (id, true);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Returns a stored session if it is the discovered one, loaded if that was necessary to know.
    async fn same(
        &self,
        entry: &SessionEntry,
        found: &FoundSession,
        budget: &Option<Budget>,
    ) -> Result<Option<SameSession>, EngineError> {
        if let (Some(known), Some(agent)) = (agent_of(entry), found.agent)
            && known != agent.name()
        {
            return Ok(None);
        }
        // A file that names a run is not that run, whatever id it claims.
        if self.is_run(entry).await? {
            return Ok(None);
        }
        if found.naming == IdOrigin::Agent || entry.head.seq == 0 {
            return Ok(Some(SameSession(None)));
        }
        let (session, slices) = (&entry.session, Slices::default());
        let loaded = load_within(self.store, session, u64::MAX, slices, budget.clone()).await?;
        for file in found.content.files()? {
            if has_file(&**self.store, &loaded.fold, &file).await? {
                return Ok(Some(SameSession(Some(loaded))));
            }
        }
        Ok(None)
    }
}

/// The stored session that was discovered again.
struct SameSession(Option<LoadReport>);

/// Returns the ids that older versions gave to a file without one: they used its name.
fn older_names(found: &FoundSession) -> Vec<SessionId> {
    let stem = found.place.file_stem().unwrap_or_default().to_string_lossy();
    if found.naming != IdOrigin::Content || stem.is_empty() {
        return Vec::new();
    }
    let hash = blake3::hash(absolute(&found.place).as_bytes()).to_hex();
    vec![SessionId::from(&*stem), SessionId::from(format!("{stem}-{}", &hash[..8]))]
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
    store: &Arc<dyn Store>,
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
