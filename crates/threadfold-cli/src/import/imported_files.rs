//! What the store was read from: the index beside it, compared with the store itself.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use threadfold_core::SessionId;
use threadfold_engine::{
    ContentStamp, EngineError, FoundSession, ImportIndex, ImportedSession, KnownImport, Session,
    import_index_path,
};
use threadfold_store::SessionEntry;

use crate::error::{CommandError, print_note};
use crate::store::{OpenStore, StoreArgs, StoreLocation};

/// The files that the sessions of a store were read from, and the sessions.
pub(crate) struct ImportedFiles {
    index: Option<ImportIndex>,
    sessions: BTreeMap<String, SessionEntry>,
    /// Files are read even if they look unchanged.
    rereads: bool,
}

impl ImportedFiles {
    /// Reads the index, and the sessions of the store, without opening it for writing.
    ///
    /// What prevents that is reported when the store is opened for writing.
    pub(crate) fn read(store: &StoreArgs, rereads: bool) -> Result<Self, CommandError> {
        let location = store.location()?;
        let (index, sessions) = thread::scope(|scope| {
            let index = scope.spawn(|| index_of(&location));
            let sessions = store.open_to_read().and_then(|store| store.sessions());
            (index.join(), sessions)
        });
        let index = index.unwrap_or_else(|panic| resume_unwind(panic));
        Ok(Self { index, sessions: by_id(sessions.unwrap_or_default()), rereads })
    }

    /// Knows nothing, and notes nothing.
    pub(crate) fn none() -> Self {
        Self { index: None, sessions: BTreeMap::new(), rereads: true }
    }

    /// Returns what is known about a session, which looks like this.
    pub(crate) fn known(&mut self, found: &FoundSession, stamp: &mut ContentStamp) -> KnownImport {
        let sessions = &self.sessions;
        let Some(index) = &mut self.index else { return KnownImport::Unknown };
        match index.known(found, stamp, |id| sessions.get(id.as_str())) {
            KnownImport::Unchanged(id) if self.rereads => KnownImport::Changed(id),
            known => known,
        }
    }

    /// Hands what is known about a session's files to the session.
    pub(crate) fn prepare(&self, stamp: &ContentStamp, session: &mut Session) {
        if let Some(index) = self.index.as_ref().filter(|_| !self.rereads) {
            index.prepare(stamp, session);
        }
    }

    /// Notes that all of a session was read, as it looked before.
    pub(crate) fn note(
        &mut self,
        stamp: ContentStamp,
        imported: &ImportedSession,
        entry: &SessionEntry,
    ) {
        if let Some(index) = &mut self.index {
            index.note(stamp, imported, entry);
        }
    }

    /// Writes what was noted so far.
    pub(crate) fn flush(&mut self) {
        if let Some(index) = &mut self.index {
            report(index.flush());
        }
    }

    /// Writes the rest; `store` is the one that was written to, if any.
    pub(crate) fn write(&mut self, store: Option<&OpenStore>) -> Result<(), CommandError> {
        if let Some(store) = store {
            self.sessions = by_id(store.sessions()?);
        }
        let stored = |id: &SessionId| self.sessions.get(id.as_str());
        if let Some(index) = &mut self.index {
            report(index.write(stored));
        }
        Ok(())
    }
}

/// Reports that the index could not be written, which only makes the next import slower.
fn report(written: Result<(), EngineError>) {
    if let Err(error) = written {
        let cause = CommandError::from(error).cause();
        print_note(format_args!("the next import reads everything again: {cause}"));
    }
}

/// Returns the index of a store, if that is in a file.
fn index_of(location: &StoreLocation) -> Option<ImportIndex> {
    Some(ImportIndex::open(import_index_path(location.file()?)))
}

fn by_id(sessions: Vec<SessionEntry>) -> BTreeMap<String, SessionEntry> {
    sessions.into_iter().map(|it| (it.session.to_string(), it)).collect()
}

/// Locks the index for a short time.
pub(crate) fn locked(index: &Mutex<ImportedFiles>) -> MutexGuard<'_, ImportedFiles> {
    index.lock().unwrap_or_else(PoisonError::into_inner)
}
