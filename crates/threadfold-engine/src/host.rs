//! The one entry point for everyone who wants sessions, live or stored.

mod listed;
mod tail;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use threadfold_core::SessionId;
use threadfold_fold::{Cursor, GENERATION, Slices};
use threadfold_store::{Head, Store};

use crate::bus::{Listener, SessionHandle, Update, view};
use crate::error::EngineError;
use crate::frame::{Delivery, Frame, PROTOCOL, REDUCER, SharedStep, View};
use crate::load::{load_within, read_on};
use crate::session::{Options, Session};
use crate::spill::Budget;

use self::tail::Tail;
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
        let mut live = self.live();
        live.retain(|_, it| !it.is_ended());
        live.insert(id.clone(), session.handle());
        drop(live);
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
        listener.catch_up_from_store(&*self.shared.store, self.shared.budget.clone()).await?;
        Ok(listener)
    }

    /// Returns the handle of a session, and follows its log if no writer here does.
    async fn handle(&self, id: &SessionId) -> Result<SessionHandle, EngineError> {
        if let Some(handle) = self.live().get(id).filter(|it| !it.is_ended()) {
            return Ok(handle.clone());
        }
        let (store, budget) = (self.shared.store.clone(), self.shared.budget.clone());
        let tail = Tail::open(store, id, budget).await?;
        let mut live = self.live();
        live.retain(|_, it| !it.is_ended());
        // A writer that was opened here meanwhile, or another listener's tail, is shared.
        Ok(live.entry(id.clone()).or_insert_with(|| tail.follow()).clone())
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
    /// What the client missed and only the store had, and the session after it.
    missed: Option<(Vec<Arc<SharedStep>>, View)>,
    /// The client has seen nothing yet, or cannot continue from what it has.
    needs_snapshot: bool,
    /// The last record that the client has seen. What is not sent yet is not seen, however far the
    /// session is.
    seen: Cursor,
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
        let needs_snapshot = after.is_none() || notice.is_some();
        let seen = after.unwrap_or_else(|| Cursor { seq: 0, ..handle.cursor() });
        let listener = handle.listen(&seen);
        Self { listener, handle, delivery, notice, missed: None, needs_snapshot, seen }
    }

    /// Reads from the store what the client missed, where that is not held in memory any more.
    async fn catch_up_from_store(
        &mut self,
        store: &dyn Store,
        budget: Option<Budget>,
    ) -> Result<(), EngineError> {
        let after = self.seen.clone();
        if self.needs_snapshot || after.generation != GENERATION {
            return Ok(());
        }
        let session = self.handle.session().clone();
        let is_stored = |head: Head| head.log == after.log && head.seq >= after.seq;
        if after.seq > self.handle.cursor().seq
            && store.head(&session).await?.is_some_and(is_stored)
        {
            // The client saw it elsewhere, before it was read here.
            self.handle.wait_for(&after).await;
        }
        let now = self.handle.cursor();
        let (first, head) = (self.handle.first_held(), now.seq);
        let is_own = after.log == now.log && after.seq <= head;
        if !is_own || after.seq + 1 >= first || head - after.seq > MAX_BEHIND {
            return Ok(());
        }
        let loaded = load_within(store, &session, after.seq, Slices::default(), budget).await?;
        let (mut fold, mut steps) = (loaded.fold, Vec::new());
        let read = read_on(store, &mut fold, head, |_, step| {
            steps.push(Arc::new(SharedStep::new(Arc::new(step))));
            Ok::<(), EngineError>(())
        });
        let read = read.await;
        // Asked after reading: what was read is of this log, for a log never comes back. If it is
        // of another one, the listener finds that out as well, and sends a gap.
        if store.head(&session).await?.is_none_or(|head| head.log != after.log) {
            return Ok(());
        }
        read?;
        loaded.spill.map_or(Ok(()), |spill| spill.check())?;
        if !steps.iter().any(|it| it.step.restored) {
            let view = view(&after.log, &fold);
            self.listener = self.handle.listen(&view.cursor());
            self.missed = Some((steps, view));
        }
        Ok(())
    }

    /// Waits for what is new, for whoever shows it.
    pub async fn next(&mut self) -> Arrival {
        let arrival = if std::mem::take(&mut self.needs_snapshot) {
            let view = self.handle.view();
            self.listener = self.handle.listen(&view.cursor());
            Arrival::View(view)
        } else if let Some((steps, view)) = self.missed.take() {
            Arrival::Steps(steps, view)
        } else {
            match self.listener.next().await {
                Update::Steps(steps, view) => Arrival::Steps(steps, view),
                Update::Gap(view) => Arrival::View(view),
                Update::End(reason) => Arrival::End(reason),
            }
        };
        if let Arrival::View(view) | Arrival::Steps(_, view) = &arrival {
            self.seen = view.cursor();
        }
        arrival
    }

    /// Waits for the next frames, each as a line of JSON. The last one is an `end`, and nothing
    /// follows it.
    pub async fn next_frames(&mut self) -> Vec<Arc<str>> {
        let (is_first, before) = (self.needs_snapshot, self.seen.clone());
        let session = self.handle.session().clone();
        match self.next().await {
            Arrival::View(view) => {
                let mut frames: Vec<Arc<str>> = Vec::new();
                if !is_first {
                    let reason = "the client is too far behind, or the session was restored";
                    let (session_id, cursor) = (session.clone(), before.to_string());
                    let gap = Frame::Gap { session_id, cursor, reason: reason.to_owned() };
                    frames.push(gap.to_json().into());
                }
                let cursor = view.cursor().to_string();
                frames.push(self.snapshot(session, cursor, &view).to_json().into());
                frames
            }
            Arrival::Steps(steps, view) => steps
                .iter()
                .map(|it| {
                    let cursor = Cursor { seq: it.step.seq, ..view.cursor() };
                    it.json(&session, &cursor.to_string(), self.delivery)
                })
                .collect(),
            Arrival::End(reason) => {
                let cursor = self.seen.to_string();
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
        Frame::Heartbeat { session_id, cursor: self.seen.to_string() }
    }

    /// Returns the session's handle.
    pub fn handle(&self) -> &SessionHandle {
        &self.handle
    }
}
