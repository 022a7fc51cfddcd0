//! Finds the sessions of all agents on a machine, imports them in the background, and follows those
//! that grow.
//!
//! ```text
//! discover ─► backlog, newest first ─► import
//!        └──► watch ─► changed ─► follow
//! ```
//!
//! A session is open only while it is read: a thousand that are at rest cost nothing but their entry
//! here.

mod follow;
mod scan;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use threadfold_core::SessionId;
use threadfold_store::{SessionEntry, StoreError};
use tokio::sync::Notify;

use crate::discover::Discovery;
use crate::error::EngineError;
use crate::found_session::{FoundSession, LostContent, Stamp};
use crate::import_index::{ContentStamp, ImportIndex, KnownImport};
use crate::imported_files::{ImportedFiles, import_content};
use crate::naming::SessionNames;
use crate::removed_sessions::RemovedSessions;
use crate::writers::Writers;

/// After how many imports the index is written.
const FLUSH_EVERY: usize = 12;
/// How long to wait for a store that cannot be reached.
const STORE_PAUSE: Duration = Duration::from_secs(1);

/// What a collector works with.
pub struct CollectorOptions {
    /// Finds the sessions of the machine. It may block.
    pub discover: Arc<dyn Fn() -> Discovery + Send + Sync>,
    /// The file with what the store was read from.
    pub index: Option<PathBuf>,
    /// The sessions that are not imported again.
    pub removed: Arc<RemovedSessions>,
}

/// Is told what a collector does.
pub trait CollectorObserver: Send + Sync + 'static {
    /// The machine was searched. `changed` are the sessions that are new, or look different.
    fn found(&self, found: FoundSessions);
    /// A session was read into the store.
    fn imported(&self, session: &SessionId);
    /// The import of the backlog has got so far.
    fn progress(&self, count: ImportCount);
    /// A session could not be read. It is tried again when it changes.
    fn failed(&self, found: &FoundSession, error: &EngineError);
    /// Something of a session is lost, although the rest was read.
    fn lost(&self, found: &FoundSession, lost: &LostContent);
}

/// What a search of the machine found.
#[derive(Clone)]
pub struct FoundSessions {
    /// Everything.
    pub discovery: Arc<Discovery>,
    /// The ids, as found, of those that are new or look different since the last search.
    pub changed: BTreeSet<String>,
}

/// How far the import of the backlog has got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportCount {
    /// How many sessions were found.
    pub total: usize,
    /// How many of them are in the store.
    pub done: usize,
    /// How many could not be read.
    pub failed: usize,
}

/// Collects the sessions of a machine. Cheap to clone.
#[derive(Clone)]
pub struct Collector {
    shared: Arc<CollectorShared>,
}

struct CollectorShared {
    writers: Writers,
    options: CollectorOptions,
    observer: Box<dyn CollectorObserver>,
    state: Mutex<CollectorState>,
    files: Mutex<ImportedFiles>,
    /// There is something in the backlog.
    backlog: Notify,
    /// The machine is to be searched again.
    stale: Notify,
    /// There is something that another process writes.
    held: Notify,
}

/// Identifies a session outside the store: its place, and the id that it was found under.
type Key = (PathBuf, String);

#[derive(Default)]
struct CollectorState {
    sessions: BTreeMap<Key, CollectedSession>,
    /// The sessions of each file on disk.
    owners: HashMap<PathBuf, Vec<Key>>,
    /// What is to be imported, the newest first.
    backlog: VecDeque<Key>,
    /// What another process was writing when it was to be imported, and how long it may.
    held: Vec<(Key, Duration)>,
    count: ImportCount,
    has_searched: bool,
}

/// A session on the machine.
#[derive(Clone)]
struct CollectedSession {
    found: FoundSession,
    /// What it looked like when the machine was last searched.
    seen: SessionStamp,
    /// What it looked like when it was last read.
    read: Option<SessionStamp>,
    /// It is counted as done.
    is_done: bool,
}

/// What a session looks like without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SessionStamp {
    stamp: Stamp,
    rows: Option<String>,
}

impl SessionStamp {
    fn of(found: &FoundSession) -> Self {
        let is_rows = found.content.is_in_database();
        let rows = if is_rows { found.content.row_stamp() } else { None };
        Self { stamp: found.content.stamp(), rows }
    }
}

impl Collector {
    /// Returns a collector that writes through these writers.
    pub fn new(
        writers: Writers,
        options: CollectorOptions,
        observer: impl CollectorObserver,
    ) -> Self {
        let (state, files, backlog, stale, held) = Default::default();
        let observer = Box::new(observer);
        let shared =
            CollectorShared { writers, options, observer, state, files, backlog, stale, held };
        Self { shared: Arc::new(shared) }
    }

    /// Searches, imports and follows until the future is dropped; what it read is durable by then.
    pub async fn run(&self) -> Result<(), EngineError> {
        let index = self.shared.options.index.clone().map(ImportIndex::open);
        let entries = self.stored_sessions().await?;
        *ImportedFiles::locked(&self.shared.files) = ImportedFiles::new(index, entries);
        tokio::select! {
            () = self.import_backlog() => {}
            () = self.follow() => {}
        }
        Ok(())
    }

    /// Returns the sessions of the store, as soon as it can be reached.
    async fn stored_sessions(&self) -> Result<Vec<SessionEntry>, EngineError> {
        loop {
            match self.shared.writers.host().store().list_all("").await {
                Err(StoreError::Unreachable { .. }) => tokio::time::sleep(STORE_PAUSE).await,
                listed => return Ok(listed?),
            }
        }
    }

    /// Imports a session now, if it was found and is not in the store.
    pub async fn fetch(&self, id: &SessionId) -> Result<(), EngineError> {
        let is_it = |key: &&Key| key.1 == id.as_str();
        let key = self.state().sessions.keys().find(is_it).cloned();
        match key {
            Some(key) => self.import(&key).await.map(drop),
            None => Ok(()),
        }
    }

    /// Searches the machine again, soon.
    pub fn search(&self) {
        self.shared.stale.notify_one();
    }

    /// Imports what was found, one after another, for ever.
    async fn import_backlog(&self) {
        let mut imported = 0;
        loop {
            let Some(key) = self.state().backlog.pop_front() else {
                self.write_index().await;
                self.shared.backlog.notified().await;
                continue;
            };
            match self.import(&key).await {
                Ok(is_read) => imported += usize::from(is_read),
                Err(error) => self.note_failure(&key, &error),
            }
            if imported >= FLUSH_EVERY {
                imported = 0;
                let flushed = ImportedFiles::locked(&self.shared.files).flush();
                self.report_index(flushed);
            }
        }
    }

    /// Writes what the store was read from. It only makes the next start faster.
    async fn write_index(&self) {
        let Ok(entries) = self.shared.writers.host().store().list_all("").await else { return };
        let written = ImportedFiles::locked(&self.shared.files).write(Some(entries));
        self.report_index(written);
    }

    fn report_index(&self, written: Result<(), EngineError>) {
        if let (Err(error), Some(session)) = (written, self.state().sessions.values().next()) {
            self.shared.observer.failed(&session.found, &error);
        }
    }

    /// Reads a session into the store, and returns whether it had to be read.
    async fn import(&self, key: &Key) -> Result<bool, EngineError> {
        let Some(found) = self.state().sessions.get(key).map(|it| it.found.clone()) else {
            return Ok(false);
        };
        let looks = SessionStamp::of(&found);
        let is_read =
            self.state().sessions.get(key).is_some_and(|it| it.read.as_ref() == Some(&looks));
        if is_read || self.shared.options.removed.contains(&found.id) {
            self.note_done(key, looks);
            return Ok(false);
        }
        let mut stamp = ContentStamp::of(&found);
        let known = ImportedFiles::locked(&self.shared.files).known(&found, &mut stamp);
        let id = match known {
            KnownImport::Unchanged(_) => {
                self.note_done(key, looks);
                return Ok(false);
            }
            KnownImport::Changed(id) => id,
            KnownImport::Unknown => self.settle(&found).await?,
        };
        if self.shared.options.removed.contains(&id) {
            self.note_done(key, looks);
            return Ok(false);
        }
        // Unreadable content is reported before the session is created in the store.
        found.content.check()?;
        let mut session = self.shared.writers.write(&id).await?;
        let files = &self.shared.files;
        let read = import_content(&mut session, &found, &stamp, files, &mut |_| {}).await;
        drop(session);
        // Whoever else writes it opens it again.
        self.shared.writers.close(&id).await?;
        let read = read?;
        if let Some(entry) = self.shared.writers.host().store().entry(&id).await? {
            ImportedFiles::locked(files).note(stamp, &read.imported, &entry);
        }
        for lost in found.content.losses() {
            self.shared.observer.lost(&found, &lost);
        }
        self.note_done(key, looks);
        self.shared.observer.imported(&id);
        Ok(true)
    }

    async fn settle(&self, found: &FoundSession) -> Result<SessionId, EngineError> {
        SessionNames::new(self.shared.writers.host().store()).settle(found).await
    }

    /// Notes that a session was read as it looked then.
    fn note_done(&self, key: &Key, looks: SessionStamp) {
        let mut state = self.state();
        let Some(session) = state.sessions.get_mut(key) else { return };
        session.read = Some(looks);
        if !std::mem::replace(&mut session.is_done, true) {
            state.count.done += 1;
        }
        let count = state.count;
        drop(state);
        self.shared.observer.progress(count);
    }

    fn note_failure(&self, key: &Key, error: &EngineError) {
        let mut state = self.state();
        let Some(session) = state.sessions.get_mut(key) else { return };
        let found = session.found.clone();
        if is_busy(error) {
            // Another process writes it, and imports it as well; if it ends, this one goes on.
            let is_new = !std::mem::replace(&mut session.is_done, true);
            state.count.done += usize::from(is_new);
            state.held.push((key.clone(), remaining(error)));
            self.shared.held.notify_one();
        } else {
            state.count.failed += 1;
        }
        let count = state.count;
        drop(state);
        if !is_busy(error) {
            self.shared.observer.failed(&found, error);
        }
        self.shared.observer.progress(count);
    }

    fn state(&self) -> MutexGuard<'_, CollectorState> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns how long another process may write the session without renewing its lease.
fn remaining(error: &EngineError) -> Duration {
    match error {
        EngineError::Store(StoreError::Held { remaining, .. }) => *remaining,
        _ => Duration::ZERO,
    }
}

/// Returns whether another process writes the session.
fn is_busy(error: &EngineError) -> bool {
    matches!(error, EngineError::Store(StoreError::Held { .. } | StoreError::Fenced { .. }))
}
