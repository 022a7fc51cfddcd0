//! The sessions that this process writes: opened on demand, shared by all who write to them, and
//! closed when nobody does.
//!
//! A session has one writer, but may have several sources in one process: the stream that an agent
//! pushes, and the files that it writes beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use threadfold_core::SessionId;
use threadfold_store::StoreError;
use tokio::sync::{Notify, OwnedMutexGuard};
use tokio::time::Instant;

use crate::error::EngineError;
use crate::host::Host;
use crate::session::{Options, Session};

/// The sessions that this process writes. Cheap to clone.
#[derive(Clone)]
pub struct Writers {
    shared: Arc<WritersShared>,
}

struct WritersShared {
    host: Host,
    options: Box<dyn Fn() -> Options + Send + Sync>,
    slots: Mutex<BTreeMap<SessionId, Arc<Slot>>>,
    /// The sessions that grew since somebody asked.
    grown: Mutex<BTreeSet<SessionId>>,
    wake: Notify,
}

type Slot = tokio::sync::Mutex<Option<OpenWriter>>;

struct OpenWriter {
    session: Session,
    used: Instant,
}

impl Writers {
    /// Returns the writers of a host's sessions; `options` are those of each session that is opened.
    pub fn new(host: Host, options: impl Fn() -> Options + Send + Sync + 'static) -> Self {
        let (slots, grown) = Default::default();
        let (options, wake) = (Box::new(options), Notify::new());
        Self { shared: Arc::new(WritersShared { host, options, slots, grown, wake }) }
    }

    /// Returns the host.
    pub fn host(&self) -> &Host {
        &self.shared.host
    }

    /// Waits for the turn to write a session, and opens it if it is not open.
    ///
    /// Fails with [`StoreError::Held`] while another process writes it.
    pub async fn write(&self, id: &SessionId) -> Result<SessionWriter, EngineError> {
        let slot = self.slots().entry(id.clone()).or_default().clone();
        let mut open = slot.lock_owned().await;
        // A writer that was replaced is of no use any more.
        if open.as_ref().is_some_and(|it| it.session.handle().is_ended()) {
            *open = None;
        }
        if open.is_none() {
            let session = self.shared.host.open(id, (self.shared.options)()).await?;
            *open = Some(OpenWriter { session, used: Instant::now() });
        }
        let writers = self.clone();
        let seq = open.as_ref().map_or(0, |it| it.session.cursor().seq);
        Ok(SessionWriter { open, writers, seq })
    }

    /// Returns the session if it is open, once nobody writes it.
    pub async fn opened(&self, id: &SessionId) -> Option<SessionWriter> {
        let slot = self.slots().get(id)?.clone();
        let open = slot.lock_owned().await;
        let seq = open.as_ref()?.session.cursor().seq;
        Some(SessionWriter { open, writers: self.clone(), seq })
    }

    /// Returns whether this process has a session open for writing.
    pub fn is_open(&self, id: &SessionId) -> bool {
        self.slots().get(id).is_some_and(is_filled)
    }

    /// Returns how many sessions are open.
    pub fn open_count(&self) -> usize {
        self.slots().values().filter(|it| is_filled(it)).count()
    }

    /// Waits until a session has grown, and returns all that have since the last call.
    pub async fn grown(&self) -> BTreeSet<SessionId> {
        loop {
            let notified = self.shared.wake.notified();
            let grown = std::mem::take(&mut *lock(&self.shared.grown));
            if !grown.is_empty() {
                return grown;
            }
            notified.await;
        }
    }

    /// Closes the sessions that nobody wrote for a while, so that other processes can write them,
    /// and returns them. A failure is returned with its session.
    pub async fn close_idle(&self, after: Duration) -> Vec<(SessionId, Result<(), EngineError>)> {
        let slots: Vec<_> = self.slots().iter().map(|(id, it)| (id.clone(), it.clone())).collect();
        let mut closed = Vec::new();
        for (id, slot) in slots {
            // One that is being written is not idle.
            let Ok(mut open) = slot.clone().try_lock_owned() else { continue };
            if open.as_ref().is_some_and(|it| it.used.elapsed() < after) {
                continue;
            }
            let ended = close(&mut open).await;
            self.forget(&id, &slot);
            closed.push((id, ended));
        }
        closed
    }

    /// Closes one session, if it is open.
    pub async fn close(&self, id: &SessionId) -> Result<(), EngineError> {
        let Some(slot) = self.slots().get(id).cloned() else { return Ok(()) };
        let mut open = slot.clone().lock_owned().await;
        let ended = close(&mut open).await;
        self.forget(id, &slot);
        ended
    }

    /// Closes all sessions, and returns the first failure.
    pub async fn close_all(&self) -> Result<(), EngineError> {
        let ids: Vec<SessionId> = self.slots().keys().cloned().collect();
        let mut ended = Ok(());
        for id in ids {
            ended = ended.and(self.close(&id).await);
        }
        ended
    }

    /// Removes a session from the store.
    pub async fn remove(&self, id: &SessionId) -> Result<(), EngineError> {
        // Nobody can open it before it is removed.
        let slot = self.slots().entry(id.clone()).or_default().clone();
        let mut open = slot.clone().lock_owned().await;
        close(&mut open).await?;
        let removed = self.shared.host.store().remove(id).await;
        self.forget(id, &slot);
        Ok(removed?)
    }

    /// Forgets a slot that is locked and empty. Whoever waits for it opens the session again.
    fn forget(&self, id: &SessionId, slot: &Arc<Slot>) {
        let mut slots = self.slots();
        // Two are this one and that of the map.
        if slots.get(id).is_some_and(|it| Arc::ptr_eq(it, slot)) && Arc::strong_count(slot) <= 3 {
            slots.remove(id);
        }
    }

    fn slots(&self) -> MutexGuard<'_, BTreeMap<SessionId, Arc<Slot>>> {
        lock(&self.shared.slots)
    }
}

/// Returns whether a slot has a session; one that is in use has.
fn is_filled(slot: &Arc<Slot>) -> bool {
    slot.try_lock().map_or(true, |open| open.is_some())
}

async fn close(open: &mut Option<OpenWriter>) -> Result<(), EngineError> {
    match open.take().map(|it| it.session.close()) {
        Some(closing) => match closing.await {
            // Another process writes it, and its summary is that one's.
            Err(EngineError::Store(StoreError::Fenced { .. } | StoreError::NotFound { .. })) => {
                Ok(())
            }
            closed => closed.map(drop),
        },
        None => Ok(()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The turn to write a session.
pub struct SessionWriter {
    open: OwnedMutexGuard<Option<OpenWriter>>,
    writers: Writers,
    /// The last record when the turn began.
    seq: u64,
}

impl Deref for SessionWriter {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.open.as_ref().expect("the slot of a turn has a session").session
    }
}

impl DerefMut for SessionWriter {
    fn deref_mut(&mut self) -> &mut Session {
        &mut self.open.as_mut().expect("the slot of a turn has a session").session
    }
}

impl Drop for SessionWriter {
    fn drop(&mut self) {
        let Some(open) = self.open.as_mut() else { return };
        open.used = Instant::now();
        if open.session.cursor().seq != self.seq {
            lock(&self.writers.shared.grown).insert(open.session.id().clone());
            self.writers.shared.wake.notify_one();
        }
    }
}
