//! Sends the frames of a session to one client: from its cursor on, or from a snapshot if the
//! cursor cannot be continued.

use std::sync::Arc;

use threadfold_core::SessionId;
use threadfold_fold::{Cursor, GENERATION, Slices};
use threadfold_store::{LogHead, Store};

use super::ListenOptions;
use crate::error::EngineError;
use crate::frame::{
    Delivery, Frame, FrameKind, FrameLine, GapReason, PROTOCOL, REDUCER, SharedStep, View,
};
use crate::listeners::{Listener, MAX_BEHIND, SessionHandle, Update, view};
use crate::load::{advance_fold, load_within};
use crate::spill_file::Budget;

/// How many bytes of records are read for a client that is behind; beyond it, a snapshot is cheaper.
const MAX_BYTES_BEHIND: usize = 8 << 20;

/// Why the records that a client missed were not read.
enum CatchUpError {
    TooLarge,
    Engine(EngineError),
}

impl From<EngineError> for CatchUpError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

/// Sends the frames of a session to one client.
pub struct FrameListener {
    handle: SessionHandle,
    listener: Listener,
    delivery: Delivery,
    /// Why the client is not sent what it requested.
    notice: Option<String>,
    /// Records that the client missed and that only the store had, and the view after them.
    missed: Option<(Vec<Arc<SharedStep>>, View)>,
    /// The client has seen nothing yet, or cannot continue from its cursor.
    needs_snapshot: bool,
    /// The client gave a cursor, and was not told yet how the stream goes on.
    needs_greeting: bool,
    /// Why the records that the client missed were not read from the store.
    refusal: Option<GapReason>,
    /// The last record sent to the client, which may be behind the session.
    /// Records that are not sent yet do not count.
    seen: Cursor,
}

impl FrameLine {
    fn of(kind: FrameKind, cursor: &Cursor, frame: &Frame) -> Self {
        Self { kind, cursor: cursor.clone(), json: frame.to_json() }
    }
}

/// What a listener receives: frames for programs, states and changes for a terminal.
#[derive(Clone, Debug)]
pub enum Arrival {
    /// The current view: at the beginning, and after a gap.
    View(View),
    /// Every step since the last arrival, and the view after them.
    Steps(Vec<Arc<SharedStep>>, View),
    /// No more arrivals follow.
    End(String),
}

impl FrameListener {
    pub(super) fn new(handle: SessionHandle, options: ListenOptions) -> Self {
        let ListenOptions { after, delivery, reducer } = options;
        let is_other = delivery == Delivery::Events && reducer.is_some_and(|it| it != REDUCER);
        let notice = is_other.then(|| {
            let asked = reducer.unwrap_or_default();
            format!("the client has reducer {asked}, and this is reducer {REDUCER}: changes follow")
        });
        let delivery = if is_other { Delivery::Changes } else { delivery };
        let needs_snapshot = after.is_none() || notice.is_some();
        let seen = after.unwrap_or_else(|| Cursor { seq: 0, ..handle.cursor() });
        let listener = handle.listen(&seen);
        Self {
            listener,
            handle,
            delivery,
            notice,
            missed: None,
            needs_snapshot,
            needs_greeting: !needs_snapshot,
            refusal: None,
            seen,
        }
    }

    /// Returns the listener without the first frame of a resumed stream, for a client that knows how
    /// the stream goes on.
    #[must_use]
    pub fn continued(mut self) -> Self {
        self.needs_greeting = false;
        self
    }

    /// Reads the records that the client missed from the store, if they are not buffered any more.
    pub(super) async fn catch_up_from_store(
        &mut self,
        store: &Arc<dyn Store>,
        budget: Option<Budget>,
    ) -> Result<(), EngineError> {
        let after = self.seen.clone();
        if self.needs_snapshot || after.generation != GENERATION {
            return Ok(());
        }
        let session = self.handle.session().clone();
        let is_stored = |head: LogHead| head.log == after.log && head.seq >= after.seq;
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
        let (mut fold, mut steps, mut bytes) = (loaded.fold, Vec::new(), 0);
        let read = advance_fold(&**store, &mut fold, head, |_, step| {
            bytes += step.bytes;
            if bytes > MAX_BYTES_BEHIND {
                return Err(CatchUpError::TooLarge);
            }
            steps.push(Arc::new(SharedStep::new(Arc::new(step))));
            Ok(())
        });
        let read = read.await;
        // Checked after reading: a log id is never reused, so if it is unchanged, the records are
        // of this log. Otherwise the listener detects that as well, and sends a gap.
        if store.head(&session).await?.is_none_or(|head| head.log != after.log) {
            return Ok(());
        }
        match read {
            Err(CatchUpError::Engine(error)) => return Err(error),
            // The records are not buffered, so the listener sends a gap.
            Err(CatchUpError::TooLarge) => return Ok(()),
            Ok(()) => {}
        }
        loaded.parts.check()?;
        if steps.iter().any(|it| it.step.restored) {
            self.refusal = Some(GapReason::Restored);
        } else {
            let view = view(&after.log, &fold);
            self.listener = self.handle.listen(&view.cursor());
            self.missed = Some((steps, view));
        }
        Ok(())
    }

    /// Waits for what is new, for a client that draws it.
    pub async fn next(&mut self) -> Arrival {
        self.next_with_gap().await.0
    }

    /// Waits for what is new, and returns why something was missed, if it was.
    async fn next_with_gap(&mut self) -> (Arrival, Option<GapReason>) {
        let mut gap = None;
        let arrival = if std::mem::take(&mut self.needs_snapshot) {
            let view = self.handle.view();
            self.listener = self.handle.listen(&view.cursor());
            Arrival::View(view)
        } else if let Some((steps, view)) = self.missed.take() {
            Arrival::Steps(steps, view)
        } else {
            match self.listener.next().await {
                Update::Steps(steps, view) => Arrival::Steps(steps, view),
                Update::Gap(view, reason) => {
                    gap = Some(self.refusal.take().unwrap_or(reason));
                    Arrival::View(view)
                }
                Update::End(reason) => Arrival::End(reason),
            }
        };
        if let Arrival::View(view) | Arrival::Steps(_, view) = &arrival {
            self.seen = view.cursor();
        }
        (arrival, gap)
    }

    /// Waits for the next frames, each as a line of JSON. The last one is an `end`, and nothing
    /// follows it.
    pub async fn next_frames(&mut self) -> Vec<Arc<str>> {
        let session = self.handle.session().clone();
        let (before, greeting) = self.greet(&session);
        if let Some(greeting) = greeting {
            return vec![greeting.json.into()];
        }
        match self.next_with_gap().await {
            (Arrival::Steps(steps, view), _) => {
                let json = |it: &Arc<SharedStep>| {
                    let cursor = Cursor { seq: it.step.seq, ..view.cursor() };
                    it.json(&session, &cursor.to_string(), self.delivery)
                };
                steps.iter().map(json).collect()
            }
            other => {
                let lines = self.lines(&session, before, other);
                lines.into_iter().map(|it| it.json.into()).collect()
            }
        }
    }

    /// Waits for the next frames as [`next_frames`](Self::next_frames) does, with what a transport
    /// needs to keep them for all clients that listen to this session.
    pub async fn next_lines(&mut self) -> Vec<FrameLine> {
        let session = self.handle.session().clone();
        let (before, greeting) = self.greet(&session);
        if let Some(greeting) = greeting {
            return vec![greeting];
        }
        let next = self.next_with_gap().await;
        self.lines(&session, before, next)
    }

    /// Returns the position before the next frames, and the first frame of a resumed stream.
    fn greet(&mut self, session: &SessionId) -> (Cursor, Option<FrameLine>) {
        let before = self.seen.clone();
        // After a gap, the snapshot has what this frame would have.
        let can_continue = self.missed.is_some() || self.listener.gap().is_none();
        if !(std::mem::take(&mut self.needs_greeting) && can_continue) {
            return (before, None);
        }
        let (cursor, then) = (before.to_string(), self.delivery);
        let (protocol, reducer, session_id) = (PROTOCOL, REDUCER, session.clone());
        let resume = Frame::Resume { session_id, cursor, protocol, reducer, then };
        let line = FrameLine::of(FrameKind::Resume, &before, &resume);
        (before, Some(line))
    }

    fn lines(
        &self,
        session: &SessionId,
        before: Cursor,
        (arrival, gap): (Arrival, Option<GapReason>),
    ) -> Vec<FrameLine> {
        match arrival {
            Arrival::View(view) => {
                let mut lines = Vec::new();
                if let Some(reason) = gap {
                    let (session_id, cursor) = (session.clone(), before.to_string());
                    let gap = Frame::Gap { session_id, cursor, reason: reason.to_string() };
                    lines.push(FrameLine::of(FrameKind::Gap, &before, &gap));
                }
                let cursor = view.cursor();
                let snapshot = self.snapshot(session.clone(), cursor.to_string(), &view);
                lines.push(FrameLine::of(FrameKind::Snapshot, &cursor, &snapshot));
                lines
            }
            Arrival::Steps(steps, view) => {
                let line = |it: &Arc<SharedStep>| {
                    let cursor = Cursor { seq: it.step.seq, ..view.cursor() };
                    let json = it.to_json(session, &cursor.to_string(), self.delivery);
                    FrameLine { kind: FrameKind::Record, cursor, json }
                };
                steps.iter().map(line).collect()
            }
            Arrival::End(reason) => {
                let (session_id, cursor) = (session.clone(), self.seen.to_string());
                let end = Frame::End { session_id, cursor, reason };
                vec![FrameLine::of(FrameKind::End, &self.seen, &end)]
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
            slices: (!has_events).then(|| view.snapshot.slices().clone()),
        }
    }

    /// Returns a heartbeat frame.
    pub fn heartbeat(&self) -> Frame {
        let session_id = self.handle.session().clone();
        Frame::Heartbeat { session_id, cursor: self.seen.to_string() }
    }

    /// Returns the cursor of the last record that was sent.
    pub fn cursor(&self) -> &Cursor {
        &self.seen
    }

    /// Returns the session's handle.
    pub fn handle(&self) -> &SessionHandle {
        &self.handle
    }
}
