//! How a session is heard within the process: wake-ups and cursors, and no queue per listener.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use threadfold_convert::GENERATION;
use threadfold_core::{ConversationState, SessionId, SessionMetadata};
use threadfold_store::{Cursor, LogId};
use tokio::sync::watch;

use crate::fold::{Fold, Step};

/// How many steps are kept for those who are behind, and of how many bytes of records.
const KEPT: usize = 1024;
const KEPT_BYTES: usize = 16 << 20;

/// A session that somebody writes, for those who look at it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SessionHandle {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    session: SessionId,
    log: LogId,
    heard: Mutex<Published>,
    /// Says only that there may be something new, and whether it was the last: how far the session
    /// is stands in `heard`, and nowhere else.
    wake: watch::Sender<bool>,
}

#[derive(Debug)]
struct Published {
    seq: u64,
    conversation: ConversationState,
    metadata: SessionMetadata,
    /// The latest steps, one a record, without a gap.
    steps: VecDeque<Arc<Step>>,
    /// How many bytes their records have.
    bytes: usize,
}

/// What a listener hears.
#[derive(Clone, Debug)]
pub enum Heard {
    /// Every step since it last listened.
    Steps(Vec<Arc<Step>>),
    /// It was too far behind or ahead, its cursor is of another log or generation, or the session
    /// was restored: look at the whole state, then listen on from there.
    Gap {
        /// The record that the state is at.
        seq: u64,
        /// The state.
        conversation: ConversationState,
    },
    /// Nobody writes the session any more.
    Ended,
}

/// Listens to a session from a place of its own.
#[derive(Debug)]
pub struct Listener {
    handle: SessionHandle,
    wake: watch::Receiver<bool>,
    /// The last record that it has heard; nothing if it comes from another log.
    seq: Option<u64>,
}

impl SessionHandle {
    pub(crate) fn new(log: LogId, fold: &Fold) -> Self {
        let published = Published {
            seq: fold.seq(),
            conversation: fold.conversation().clone(),
            metadata: fold.metadata().clone(),
            steps: VecDeque::new(),
            bytes: 0,
        };
        let shared = Shared {
            session: fold.session().clone(),
            log,
            heard: Mutex::new(published),
            wake: watch::Sender::new(false),
        };
        Self { shared: Arc::new(shared) }
    }

    pub(crate) fn publish(&self, fold: &Fold, steps: Vec<Arc<Step>>) {
        self.note(fold, steps);
        self.shared.wake.send_modify(|_| {});
    }

    fn note(&self, fold: &Fold, steps: Vec<Arc<Step>>) {
        let mut heard = self.heard();
        heard.seq = fold.seq();
        heard.conversation = fold.conversation().clone();
        heard.metadata = fold.metadata().clone();
        if steps.iter().any(|step| step.restored) {
            heard.steps.clear();
            heard.bytes = 0;
        } else {
            heard.bytes += steps.iter().map(|step| step.bytes).sum::<usize>();
            heard.steps.extend(steps);
        }
        while (heard.steps.len() > KEPT || heard.bytes > KEPT_BYTES)
            && let Some(step) = heard.steps.pop_front()
        {
            heard.bytes -= step.bytes;
        }
    }

    pub(crate) fn end(&self) {
        self.shared.wake.send_replace(true);
    }

    fn heard(&self) -> MutexGuard<'_, Published> {
        self.shared.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the session's name.
    pub fn session(&self) -> &SessionId {
        &self.shared.session
    }

    /// Returns the place of its latest record.
    pub fn cursor(&self) -> Cursor {
        self.cursor_at(self.heard().seq)
    }

    /// Returns the place of a record of its log.
    pub fn cursor_at(&self, seq: u64) -> Cursor {
        Cursor { log: self.shared.log.clone(), generation: GENERATION, seq }
    }

    /// Returns the conversation, and the record it is at.
    pub fn conversation(&self) -> (u64, ConversationState) {
        let heard = self.heard();
        (heard.seq, heard.conversation.clone())
    }

    /// Returns what is known of the session as a whole.
    pub fn metadata(&self) -> SessionMetadata {
        self.heard().metadata.clone()
    }

    /// Returns a listener who has heard everything up to `after`. One whose cursor does not match
    /// hears of a gap first.
    pub fn listen(&self, after: &Cursor) -> Listener {
        let is_own = *after == self.cursor_at(after.seq);
        let seq = is_own.then_some(after.seq);
        Listener { handle: self.clone(), wake: self.shared.wake.subscribe(), seq }
    }
}

impl Listener {
    /// Waits until there is something new, and returns all of it.
    pub async fn next(&mut self) -> Heard {
        loop {
            let is_ended = *self.wake.borrow_and_update();
            if let Some(heard) = self.catch_up() {
                return heard;
            }
            if is_ended || self.wake.changed().await.is_err() {
                return Heard::Ended;
            }
        }
    }

    /// Returns what is new, if anything is.
    fn catch_up(&mut self) -> Option<Heard> {
        let heard = self.handle.heard();
        if self.seq == Some(heard.seq) {
            return None;
        }
        let first = heard.steps.front().map_or(u64::MAX, |step| step.seq);
        let next = self.seq.filter(|seq| *seq < heard.seq).map(|seq| seq + 1);
        let known = next.and_then(|next| next.checked_sub(first));
        let found = match known.and_then(|known| usize::try_from(known).ok()) {
            Some(known) => Heard::Steps(heard.steps.iter().skip(known).cloned().collect()),
            None => Heard::Gap { seq: heard.seq, conversation: heard.conversation.clone() },
        };
        self.seq = Some(heard.seq);
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use threadfold_store::{NewRecord, RecordKind, Timestamp};

    use super::*;
    use crate::slice::Slices;

    fn push(fold: &mut Fold) -> Vec<Arc<Step>> {
        let record = NewRecord {
            kind: RecordKind::Event,
            source: 0,
            position: 0,
            received: Timestamp(0),
            bytes: r#"{"type":"session:idle"}"#.into(),
        };
        let seq = fold.seq() + 1;
        vec![Arc::new(fold.push(&record.at(seq)))]
    }

    #[test]
    fn who_caught_up_before_the_wake_up_hears_nothing_twice() {
        let mut fold = Fold::new("s".into(), Slices::default());
        let handle = SessionHandle::new("log".into(), &fold);
        let mut listener = handle.listen(&handle.cursor());
        let steps = push(&mut fold);
        handle.publish(&fold, steps);
        let steps = push(&mut fold);
        handle.note(&fold, steps);
        let mut context = Context::from_waker(Waker::noop());
        let heard = pin!(listener.next()).poll(&mut context);
        assert!(matches!(heard, Poll::Ready(Heard::Steps(steps)) if steps.len() == 2));
        let heard = pin!(listener.next()).poll(&mut context);
        assert!(heard.is_pending(), "{heard:?}");
        handle.shared.wake.send_modify(|_| {});
        let heard = pin!(listener.next()).poll(&mut context);
        assert!(heard.is_pending(), "{heard:?}");
    }
}
