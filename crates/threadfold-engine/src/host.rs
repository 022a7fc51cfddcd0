//! The one entry point for everyone who wants sessions, live or stored.

mod listed;
mod tail;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use threadfold_core::SessionId;
use threadfold_fold::{Cursor, Fold, GENERATION, Slices};
use threadfold_store::Store;

use crate::bus::{Listener, SessionHandle, Update};
use crate::error::EngineError;
use crate::frame::{Delivery, Frame, PROTOCOL, REDUCER, SharedStep, View};
use crate::load::{load, read_on};
use crate::session::{Options, Session};
use crate::spill::Budget;

pub use listed::{ListedSession, SessionListPage, SessionQuery};

/// Hosts the sessions of a store: opens them for writing, and sends them to listeners.
///
/// All listeners of a session share one fold of it, whether this process writes the session or
/// another one does.
#[derive(Clone)]
pub struct Host {
    shared: Arc<HostShared>,
}

struct HostShared {
    store: Arc<dyn Store>,
    /// How much of a session is held in memory by those who only read it.
    budget: Option<Budget>,
    /// The sessions that somebody writes or listens to.
    live: Mutex<BTreeMap<SessionId, SessionHandle>>,
}

/// Where a listener begins, and what it is sent.
#[derive(Clone, Debug, Default)]
pub struct ListenOptions {
    /// The last frame that the client saw; nothing for a client that begins with a snapshot.
    pub after: Option<Cursor>,
    /// What it asks for.
    pub delivery: Delivery,
    /// The version of the client's own reducer, if it wants events.
    pub reducer: Option<u32>,
}

impl Host {
    /// Returns the host of a store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self::within(store, None)
    }

    /// Returns the host of a store that spills what it only reads beyond a budget.
    pub fn within(store: Arc<dyn Store>, budget: Option<Budget>) -> Self {
        let live = Mutex::default();
        Self { shared: Arc::new(HostShared { store, budget, live }) }
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.shared.store
    }

    /// Opens a session for writing, under a lease. Those who listen to it here are sent what is
    /// written without reading it from the store again.
    pub async fn open(&self, id: &SessionId, options: Options) -> Result<Session, EngineError> {
        let session = Session::open(self.shared.store.clone(), id, options).await?;
        self.live().insert(id.clone(), session.handle());
        Ok(session)
    }

    /// Listens to a session from a cursor on: what the store has after it, then what is written.
    pub async fn listen(
        &self,
        id: &SessionId,
        options: ListenOptions,
    ) -> Result<FrameListener, EngineError> {
        let handle = self.handle(id).await?;
        let mut listener = FrameListener::new(handle, options);
        listener.catch_up_from_store(&*self.shared.store).await?;
        Ok(listener)
    }

    /// Returns the handle of a session, and follows its log if no writer here does.
    async fn handle(&self, id: &SessionId) -> Result<SessionHandle, EngineError> {
        if let Some(handle) = self.live().get(id).filter(|it| !it.is_ended()) {
            return Ok(handle.clone());
        }
        let handle = tail::follow(&self.shared.store, id, self.shared.budget.clone()).await?;
        Ok(self
            .live()
            .entry(id.clone())
            .and_modify(|it| *it = handle.clone())
            .or_insert(handle)
            .clone())
    }

    fn live(&self) -> std::sync::MutexGuard<'_, BTreeMap<SessionId, SessionHandle>> {
        self.shared.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many records a client may be behind to be sent them one by one; a snapshot is cheaper then.
const MAX_BEHIND: u64 = 10_000;

/// Sends the frames of a session to one client.
pub struct FrameListener {
    handle: SessionHandle,
    listener: Listener,
    delivery: Delivery,
    /// Why the client is not sent what it asked for.
    notice: Option<String>,
    /// What is sent before anything new.
    pending: Vec<Frame>,
    /// The client has seen nothing yet.
    needs_snapshot: bool,
    after: Option<Cursor>,
}

/// What a listener is given: for programs as frames, for a terminal as states and changes.
#[derive(Clone, Debug)]
pub enum Arrival {
    /// The session as it is: at the beginning, and after a gap.
    View(View),
    /// Every step since the last arrival, and the session after them.
    Steps(Vec<Arc<SharedStep>>, View),
    /// Nothing more follows.
    End(String),
}

impl FrameListener {
    fn new(handle: SessionHandle, options: ListenOptions) -> Self {
        let ListenOptions { after, delivery, reducer } = options;
        let is_other = delivery == Delivery::Events && reducer.is_some_and(|it| it != REDUCER);
        let notice = is_other.then(|| {
            let asked = reducer.unwrap_or_default();
            format!("reducer {asked} was asked for, and this is reducer {REDUCER}: changes follow")
        });
        let delivery = if is_other { Delivery::Changes } else { delivery };
        let from = after.clone().unwrap_or_else(|| handle.cursor());
        let listener = handle.listen(&from);
        let needs_snapshot = after.is_none() || notice.is_some();
        Self { listener, handle, delivery, notice, pending: Vec::new(), needs_snapshot, after }
    }

    /// Reads from the store what the client missed, where that is not held in memory any more.
    async fn catch_up_from_store(&mut self, store: &dyn Store) -> Result<(), EngineError> {
        let Some(after) = self.after.clone().filter(|_| !self.needs_snapshot) else {
            return Ok(());
        };
        let now = self.handle.cursor();
        let (first, head) = (self.handle.first_held(), now.seq);
        let is_own = after.log == now.log && after.generation == GENERATION && after.seq <= head;
        if !is_own || after.seq + 1 >= first || head - after.seq > MAX_BEHIND {
            return Ok(());
        }
        let session = self.handle.session().clone();
        let mut fold: Fold = load(store, &session, after.seq, Slices::default()).await?.fold;
        let mut is_restored = false;
        let (pending, delivery, handle) = (&mut self.pending, self.delivery, &self.handle);
        read_on(store, &mut fold, head, |record, step| {
            is_restored |= step.restored;
            let cursor = handle.cursor_at(record.seq).to_string();
            let shared = SharedStep::new(Arc::new(step));
            pending.push(shared.frame(&session, &cursor, delivery));
            Ok::<(), EngineError>(())
        })
        .await?;
        if is_restored {
            self.pending.clear();
        } else {
            self.pending.reverse();
            self.listener = self.handle.listen(&self.handle.cursor_at(head));
        }
        Ok(())
    }

    /// Waits for what is new, for whoever shows it.
    pub async fn next(&mut self) -> Arrival {
        if std::mem::take(&mut self.needs_snapshot) {
            let view = self.handle.view();
            self.listener = self.handle.listen(&self.handle.cursor_at(view.seq));
            return Arrival::View(view);
        }
        match self.listener.next().await {
            Update::Steps(steps, view) => Arrival::Steps(steps, view),
            Update::Gap(view) => Arrival::View(view),
            Update::End(reason) => Arrival::End(reason),
        }
    }

    /// Waits for the next frames, each as a line of JSON. The last one is an `end`, and nothing
    /// follows it.
    pub async fn next_frames(&mut self) -> Vec<Arc<str>> {
        if !self.pending.is_empty() {
            let pending = std::mem::take(&mut self.pending).into_iter().rev();
            return pending.map(|frame| frame.to_json().into()).collect();
        }
        let is_first = self.needs_snapshot;
        let session = self.handle.session().clone();
        match self.next().await {
            Arrival::View(view) => {
                let cursor = self.handle.cursor_at(view.seq).to_string();
                let mut frames: Vec<Arc<str>> = Vec::new();
                if !is_first {
                    let reason = "the client is too far behind, or the session was restored";
                    let (session_id, cursor) = (session.clone(), cursor.clone());
                    let gap = Frame::Gap { session_id, cursor, reason: reason.to_owned() };
                    frames.push(gap.to_json().into());
                }
                frames.push(self.snapshot(session, cursor, &view).to_json().into());
                frames
            }
            Arrival::Steps(steps, _) => steps
                .iter()
                .map(|it| {
                    let cursor = self.handle.cursor_at(it.step.seq).to_string();
                    it.json(&session, &cursor, self.delivery)
                })
                .collect(),
            Arrival::End(reason) => {
                let cursor = self.handle.cursor().to_string();
                vec![Frame::End { session_id: session, cursor, reason }.to_json().into()]
            }
        }
    }

    fn snapshot(&self, session_id: SessionId, cursor: String, view: &View) -> Frame {
        let has_events = self.delivery == Delivery::Events;
        Frame::Snapshot {
            session_id,
            cursor,
            protocol: PROTOCOL,
            reducer: REDUCER,
            then: self.delivery,
            notice: self.notice.clone(),
            snapshot: has_events.then(|| view.snapshot.json().clone()),
            state: (!has_events).then(|| threadfold_core::Json::of(&view.conversation)),
        }
    }

    /// Returns a frame that says that the connection is alive.
    pub fn heartbeat(&self) -> Frame {
        let session_id = self.handle.session().clone();
        Frame::Heartbeat { session_id, cursor: self.handle.cursor().to_string() }
    }

    /// Returns the session's handle.
    pub fn handle(&self) -> &SessionHandle {
        &self.handle
    }
}
