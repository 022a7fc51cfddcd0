//! Publishes a session to listeners in this process: wake-ups and cursors, no per-listener queue.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use threadfold_core::{ConversationState, SessionId, SessionMetadata};
use threadfold_fold::{Cursor, Fold, GENERATION, LogId, Step};
use tokio::sync::watch;

use crate::frame::{GapReason, LazySnapshot, SharedStep, View};

/// How many steps are buffered for slow listeners.
const MAX_STEPS: usize = 1024;
/// How many bytes of records the buffered steps may have. A step takes some times as much memory,
/// because its events and its changes have the text as well.
const MAX_BYTES: usize = 1 << 20;
/// How many records a client may lag behind. Up to this, steps that are no longer buffered are read
/// from the store; beyond it, a snapshot is cheaper.
pub(crate) const MAX_BEHIND: u64 = 10_000;

/// A published session, for its readers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SessionHandle {
    shared: Arc<SharedSession>,
}

#[derive(Debug)]
struct SharedSession {
    session: SessionId,
    published: Mutex<PublishedState>,
    /// Signals only that there may be something new, and whether it was the last. The position is
    /// in `published`, and nowhere else.
    wake: watch::Sender<bool>,
}

#[derive(Debug)]
struct PublishedState {
    log: LogId,
    view: View,
    /// The latest steps, one per record, without a gap.
    steps: VecDeque<Arc<SharedStep>>,
    /// The total size of their records.
    bytes: usize,
    /// The record at which the session was last restored to a snapshot, if it was.
    restored: Option<u64>,
    /// Why the session ended, if it did.
    end: Option<String>,
}

/// What is new for a listener.
#[derive(Clone, Debug)]
pub enum Update {
    /// Every step since the last call.
    Steps(Vec<Arc<SharedStep>>, View),
    /// The listener cannot continue from its position, for this reason: it continues from this view.
    Gap(View, GapReason),
    /// No more updates follow.
    End(String),
}

/// Receives updates of a session from its own position.
#[derive(Debug)]
pub struct Listener {
    handle: SessionHandle,
    wake: watch::Receiver<bool>,
    log: LogId,
    /// The last record it has seen, or why its cursor is of no record here.
    seq: Result<u64, GapReason>,
}

impl SessionHandle {
    pub(crate) fn new(log: LogId, fold: &Fold) -> Self {
        let published = PublishedState {
            view: view(&log, fold),
            log,
            steps: VecDeque::new(),
            bytes: 0,
            restored: None,
            end: None,
        };
        let shared = SharedSession {
            session: fold.session().clone(),
            published: Mutex::new(published),
            wake: watch::Sender::new(false),
        };
        Self { shared: Arc::new(shared) }
    }

    pub(crate) fn publish(&self, fold: &Fold, steps: Vec<Arc<Step>>) {
        self.update(fold, steps);
        self.shared.wake.send_modify(|_| {});
    }

    /// Replaces the session's log: the session was removed and created again.
    pub(crate) fn replace(&self, log: LogId, fold: &Fold) {
        let mut published = self.published();
        published.view = view(&log, fold);
        published.log = log;
        published.steps.clear();
        published.bytes = 0;
        published.restored = None;
        drop(published);
        self.shared.wake.send_modify(|_| {});
    }

    fn update(&self, fold: &Fold, steps: Vec<Arc<Step>>) {
        let mut published = self.published();
        published.view = view(&published.log, fold);
        if steps.iter().any(|step| step.restored) {
            published.steps.clear();
            published.bytes = 0;
            published.restored = Some(published.view.seq);
        } else {
            published.bytes += steps.iter().map(|step| step.bytes).sum::<usize>();
            published.steps.extend(steps.into_iter().map(|it| Arc::new(SharedStep::new(it))));
        }
        // The last one stays, however large it is: who has read everything before it has no gap.
        while published.steps.len() > 1
            && (published.steps.len() > MAX_STEPS || published.bytes > MAX_BYTES)
            && let Some(step) = published.steps.pop_front()
        {
            published.bytes -= step.step.bytes;
        }
    }

    pub(crate) fn end(&self, reason: &str) {
        self.published().end.get_or_insert_with(|| reason.to_owned());
        self.shared.wake.send_replace(true);
    }

    /// Returns whether no more updates follow.
    pub fn is_ended(&self) -> bool {
        *self.shared.wake.borrow()
    }

    fn published(&self) -> MutexGuard<'_, PublishedState> {
        self.shared.published.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the session's id.
    pub fn session(&self) -> &SessionId {
        &self.shared.session
    }

    /// Returns the cursor of its latest record.
    pub fn cursor(&self) -> Cursor {
        let published = self.published();
        published.view.cursor()
    }

    /// Waits until a record is published, the session ends, or its log is replaced.
    pub(crate) async fn wait_for(&self, cursor: &Cursor) {
        let mut listener = self.listen(&self.cursor());
        loop {
            let now = self.cursor();
            let is_over = now.log != cursor.log || now.seq >= cursor.seq;
            if is_over || matches!(listener.next().await, Update::End(_)) {
                return;
            }
        }
    }

    /// Returns the cursor of a record of its log.
    pub fn cursor_at(&self, seq: u64) -> Cursor {
        Cursor { log: self.published().log.clone(), generation: GENERATION, seq }
    }

    /// Returns the current view of the session.
    pub fn view(&self) -> View {
        self.published().view.clone()
    }

    /// Returns the conversation, and the record that it is at.
    pub fn conversation(&self) -> (u64, ConversationState) {
        let published = self.published();
        (published.view.seq, published.view.conversation.clone())
    }

    /// Returns the metadata of the session.
    pub fn metadata(&self) -> SessionMetadata {
        self.published().view.metadata.clone()
    }

    /// Returns the first record whose step is still buffered.
    pub(crate) fn first_held(&self) -> u64 {
        let published = self.published();
        published.steps.front().map_or(published.view.seq + 1, |it| it.step.seq)
    }

    /// Returns a listener that has seen everything up to `after`. If the cursor does not match, it
    /// receives a gap first.
    pub fn listen(&self, after: &Cursor) -> Listener {
        let log = self.published().log.clone();
        let seq = match (after.log == log, after.generation == GENERATION) {
            (true, true) => Ok(after.seq),
            (true, false) => Err(GapReason::OtherGeneration),
            (false, _) => Err(GapReason::OtherLog),
        };
        Listener { handle: self.clone(), wake: self.shared.wake.subscribe(), log, seq }
    }
}

/// Returns a view of a session at the last record of its fold.
pub(crate) fn view(log: &LogId, fold: &Fold) -> View {
    View {
        seq: fold.seq(),
        log: log.clone(),
        conversation: fold.conversation().clone(),
        metadata: fold.metadata().clone(),
        snapshot: Arc::new(LazySnapshot::new(fold.without_converter(), log.clone())),
    }
}

impl Listener {
    /// Waits until there are updates, and returns all of them.
    pub async fn next(&mut self) -> Update {
        loop {
            let is_ended = *self.wake.borrow_and_update();
            if let Some(update) = self.catch_up() {
                return update;
            }
            if is_ended || self.wake.changed().await.is_err() {
                let reason = self.handle.published().end.clone();
                return Update::End(reason.unwrap_or_else(|| "the writer stopped".to_owned()));
            }
        }
    }

    /// Returns why it cannot continue from its position; nothing if it can.
    pub(crate) fn gap(&self) -> Option<GapReason> {
        self.gap_in(&self.handle.published())
    }

    fn gap_in(&self, published: &PublishedState) -> Option<GapReason> {
        if published.log != self.log {
            return Some(GapReason::OtherLog);
        }
        let seq = match self.seq {
            Ok(seq) => seq,
            Err(reason) => return Some(reason),
        };
        let first = published.steps.front().map_or(published.view.seq + 1, |it| it.step.seq);
        match seq.cmp(&published.view.seq) {
            Ordering::Greater => Some(GapReason::BeyondEnd),
            Ordering::Less if seq + 1 < first => {
                let is_restored = published.restored.is_some_and(|restored| seq < restored);
                Some(if is_restored { GapReason::Restored } else { GapReason::TooFarBehind })
            }
            _ => None,
        }
    }

    /// Returns the updates, if there are any.
    fn catch_up(&mut self) -> Option<Update> {
        let published = self.handle.published();
        let view = published.view.clone();
        let update = match (self.gap_in(&published), self.seq) {
            (None, Ok(seq)) if seq == view.seq => return None,
            (None, Ok(seq)) => {
                let first = published.steps.front().map_or(0, |it| it.step.seq);
                let seen = usize::try_from((seq + 1).saturating_sub(first)).unwrap_or(usize::MAX);
                Update::Steps(published.steps.iter().skip(seen).cloned().collect(), view)
            }
            (None, Err(reason)) | (Some(reason), _) => Update::Gap(view, reason),
        };
        self.seq = Ok(published.view.seq);
        self.log = published.log.clone();
        Some(update)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use threadfold_fold::{Record, RecordKind, Slices};

    use super::*;

    fn push(fold: &mut Fold) -> Vec<Arc<Step>> {
        let record = Record::new(RecordKind::Event, 0, 0, r#"{"type":"session:idle"}"#);
        let seq = fold.seq() + 1;
        vec![Arc::new(fold.push(&record.at(seq)))]
    }

    #[test]
    fn a_listener_that_caught_up_before_the_wake_up_gets_nothing_twice() {
        let mut fold = Fold::new("s".into(), Slices::default());
        let handle = SessionHandle::new("log".into(), &fold);
        let mut listener = handle.listen(&handle.cursor());
        let steps = push(&mut fold);
        handle.publish(&fold, steps);
        let steps = push(&mut fold);
        handle.update(&fold, steps);
        let mut context = Context::from_waker(Waker::noop());
        let update = pin!(listener.next()).poll(&mut context);
        assert!(matches!(update, Poll::Ready(Update::Steps(steps, _)) if steps.len() == 2));
        let update = pin!(listener.next()).poll(&mut context);
        assert!(update.is_pending(), "{update:?}");
        handle.shared.wake.send_modify(|_| {});
        let update = pin!(listener.next()).poll(&mut context);
        assert!(update.is_pending(), "{update:?}");
    }
}
