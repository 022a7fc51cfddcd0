//! What the store was read from: the index beside it, compared with the store itself.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use threadfold_core::SessionId;
use threadfold_store::SessionEntry;

use crate::error::EngineError;
use crate::files::Intake;
use crate::found_session::FoundSession;
use crate::import_index::{ContentStamp, ImportIndex, ImportedSession, KnownImport};
use crate::session::Session;

/// The files that the sessions of a store were read from, and the sessions.
#[derive(Default)]
pub struct ImportedFiles {
    index: Option<ImportIndex>,
    sessions: BTreeMap<String, SessionEntry>,
    /// Files are read even if they look unchanged.
    rereads: bool,
}

impl ImportedFiles {
    /// Returns what an index knows about the sessions of its store.
    pub fn new(index: Option<ImportIndex>, sessions: Vec<SessionEntry>) -> Self {
        Self { index, sessions: by_id(sessions), rereads: false }
    }

    /// Reads files again that look unchanged.
    #[must_use]
    pub fn rereading(self) -> Self {
        Self { rereads: true, ..self }
    }

    /// Returns what is known about a session, which looks like this.
    pub fn known(&mut self, found: &FoundSession, stamp: &mut ContentStamp) -> KnownImport {
        let sessions = &self.sessions;
        let Some(index) = &mut self.index else { return KnownImport::Unknown };
        match index.known(found, stamp, |id| sessions.get(id.as_str())) {
            KnownImport::Unchanged(id) if self.rereads => KnownImport::Changed(id),
            known => known,
        }
    }

    /// Hands what is known about a session's files to the session.
    fn prepare(&self, stamp: &ContentStamp, session: &mut Session) {
        if let Some(index) = self.index.as_ref().filter(|_| !self.rereads) {
            index.prepare(stamp, session);
        }
    }

    /// Notes that all of a session was read, as it looked before.
    pub fn note(&mut self, stamp: ContentStamp, imported: &ImportedSession, entry: &SessionEntry) {
        if let Some(index) = &mut self.index {
            index.note(stamp, imported, entry);
        }
    }

    /// Writes what was noted so far.
    pub fn flush(&mut self) -> Result<(), EngineError> {
        self.index.as_mut().map_or(Ok(()), ImportIndex::flush)
    }

    /// Writes the rest. `sessions` are those of the store, if it was written to.
    pub fn write(&mut self, sessions: Option<Vec<SessionEntry>>) -> Result<(), EngineError> {
        if let Some(sessions) = sessions {
            self.sessions = by_id(sessions);
        }
        let stored = |id: &SessionId| self.sessions.get(id.as_str());
        self.index.as_mut().map_or(Ok(()), |index| index.write(stored))
    }

    /// Locks the index for a short time.
    pub fn locked(index: &Mutex<Self>) -> MutexGuard<'_, Self> {
        index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What importing a session read.
pub struct ImportedContent {
    /// What was added.
    pub intake: Intake,
    /// The session was empty before.
    pub is_new: bool,
    /// Nothing was added to a session that was not empty.
    pub is_unchanged: bool,
    /// For [`ImportedFiles::note`], once the session is closed.
    pub imported: ImportedSession,
}

/// Reads a session's files or rows into it, as far as the index does not know them.
///
/// `stamp` was taken before: whatever looks the same later was read completely.
pub async fn import_content(
    session: &mut Session,
    found: &FoundSession,
    stamp: &ContentStamp,
    index: &Mutex<ImportedFiles>,
    progress: &mut (dyn FnMut(u64) + Send),
) -> Result<ImportedContent, EngineError> {
    ImportedFiles::locked(index).prepare(stamp, session);
    let before = session.cursor().seq;
    let intake = found.read_into(session, progress).await?;
    let after = session.cursor().seq;
    Ok(ImportedContent {
        intake,
        is_new: before == 0,
        is_unchanged: before == after && before > 0,
        imported: ImportedSession::of(session),
    })
}

fn by_id(sessions: Vec<SessionEntry>) -> BTreeMap<String, SessionEntry> {
    sessions.into_iter().map(|it| (it.session.to_string(), it)).collect()
}
