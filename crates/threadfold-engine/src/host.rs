//! The entry point for all readers and writers of sessions, live or stored.

mod follow_log;
mod frame_listener;
mod listed;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use threadfold_core::SessionId;
use threadfold_fold::Cursor;
use threadfold_store::Store;

use crate::error::EngineError;
use crate::frame::Delivery;
use crate::listeners::SessionHandle;
use crate::session::{Options, Session};
use crate::spill_file::Budget;

use self::follow_log::Tail;
pub use frame_listener::{Arrival, FrameListener};
pub use listed::{ListedSession, SessionListPage, SessionQuery};

/// Hosts the sessions of a store: opens them for writing, and streams them to listeners.
///
/// All listeners of a session share one fold of it, whether this process writes the session or
/// another one does.
#[derive(Clone)]
pub struct Host {
    shared: Arc<HostShared>,
}

struct HostShared {
    store: Arc<dyn Store>,
    /// The memory budget for sessions that are only read.
    budget: Option<Budget>,
    /// The sessions that are being written or listened to.
    live: Mutex<BTreeMap<SessionId, SessionHandle>>,
}

/// Where a listener starts, and what it is sent.
#[derive(Clone, Debug, Default)]
pub struct ListenOptions {
    /// The last frame that the client saw; `None` for a client that starts with a snapshot.
    pub after: Option<Cursor>,
    /// The delivery that it requests.
    pub delivery: Delivery,
    /// The version of the client's own reducer, if it wants events.
    pub reducer: Option<u32>,
}

impl Host {
    /// Returns the host of a store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self::within(store, None)
    }

    /// Returns the host of a store that spills sessions it only reads to disk beyond a budget.
    pub fn within(store: Arc<dyn Store>, budget: Option<Budget>) -> Self {
        let live = Mutex::default();
        Self { shared: Arc::new(HostShared { store, budget, live }) }
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.shared.store
    }

    /// Opens a session for writing, under a lease. Its listeners in this process receive new
    /// records without reading them from the store again.
    pub async fn open(&self, id: &SessionId, options: Options) -> Result<Session, EngineError> {
        let session = Session::open(self.shared.store.clone(), id, options).await?;
        let mut live = self.live();
        live.retain(|_, it| !it.is_ended());
        live.insert(id.clone(), session.handle());
        drop(live);
        Ok(session)
    }

    /// Listens to a session from a cursor: first the stored records after it, then new ones.
    pub async fn listen(
        &self,
        id: &SessionId,
        options: ListenOptions,
    ) -> Result<FrameListener, EngineError> {
        let handle = self.handle(id).await?;
        let mut listener = FrameListener::new(handle, options);
        listener.catch_up_from_store(&self.shared.store, self.shared.budget.clone()).await?;
        Ok(listener)
    }

    /// Returns the handle of a session: its present state, for readers.
    ///
    /// If no writer in this process has it open, its log is tailed until it has no writer at all.
    pub async fn session(&self, id: &SessionId) -> Result<SessionHandle, EngineError> {
        self.handle(id).await
    }

    /// Forgets the states of sessions that have no writer any more. They are read again from the
    /// store when somebody asks.
    pub fn forget_ended(&self) {
        self.live().retain(|_, it| !it.is_ended());
    }

    /// Returns the handle of a session, and tails its log if no writer in this process does.
    async fn handle(&self, id: &SessionId) -> Result<SessionHandle, EngineError> {
        if let Some(handle) = self.live().get(id).filter(|it| !it.is_ended()) {
            return Ok(handle.clone());
        }
        let (store, budget) = (self.shared.store.clone(), self.shared.budget.clone());
        let tail = Tail::open(store, id, budget).await?;
        let mut live = self.live();
        live.retain(|_, it| !it.is_ended());
        // If a writer or another tail was opened here meanwhile, it is shared.
        Ok(live.entry(id.clone()).or_insert_with(|| tail.follow()).clone())
    }

    fn live(&self) -> std::sync::MutexGuard<'_, BTreeMap<SessionId, SessionHandle>> {
        self.shared.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
