//! One subscriber of a session: a place in the feed that it shares with all others.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use threadfold_core::SessionId;
use threadfold_engine::{EngineError, REDUCER};
use threadfold_fold::{Cursor, GENERATION, LogId};
use threadfold_store::StoreError;

use crate::feed::{FIRST_PAUSE, Feed, FeedKey, Feeds, JoinFrames, LONGEST_PAUSE, Start};
use crate::metrics::Metrics;
use crate::problem::Problem;
use crate::shared_log::{FramedEntry, Place, Signal};

/// What a client asks for when it subscribes.
#[derive(Clone, Debug)]
pub(crate) struct SubscribeOptions {
    pub(crate) session: SessionId,
    pub(crate) after: Option<Cursor>,
    pub(crate) is_events: bool,
    /// The version of the client's own reducer.
    pub(crate) reducer: Option<u32>,
}

/// A subscriber of a session.
pub(crate) struct Subscription {
    pub(crate) session: SessionId,
    feeds: Arc<Feeds>,
    signal: Arc<Signal>,
    metrics: Arc<Metrics>,
    state: State,
}

enum State {
    /// A task reads what the subscriber gets first.
    Joining(JoinSlot),
    /// It gets its first frames.
    First {
        seat: Seat,
        entries: VecDeque<Arc<FramedEntry>>,
    },
    /// It follows the feed from an index on.
    Live {
        seat: Seat,
        next: u64,
    },
    Ended,
}

type JoinSlot = Arc<Mutex<Option<Result<Join, EngineError>>>>;

/// What a task found for a subscriber.
struct Join {
    feed: Arc<Feed>,
    frames: JoinFrames,
}

/// A subscriber's place among those that a feed wakes, and the record that it has seen.
struct Seat {
    feed: Arc<Feed>,
    id: u64,
    log: LogId,
    seq: u64,
}

impl Seat {
    fn take(feed: Arc<Feed>, signal: &Arc<Signal>, cursor: Cursor) -> Self {
        let id = feed.log.subscribe(signal);
        Self { feed, id, log: cursor.log, seq: cursor.seq }
    }

    fn cursor(&self) -> Cursor {
        Cursor { log: self.log.clone(), generation: GENERATION, seq: self.seq }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.feed.log.unsubscribe(self.id);
    }
}

/// A frame that reports why a session cannot be subscribed to.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ErrorFrame<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
    #[serde(flatten)]
    problem: Problem,
}

/// Returns a problem as a frame.
pub(crate) fn error_entry(session: Option<&SessionId>, problem: Problem) -> FramedEntry {
    let session_id = session.map(SessionId::as_str);
    let frame = ErrorFrame { kind: "error", session_id, problem };
    let json = serde_json::to_string(&frame).expect("a problem has no keys that are not text");
    FramedEntry::new(None, 0, &json).last()
}

impl Subscription {
    /// Subscribes to a session. The signal is set whenever there may be something to send.
    pub(crate) fn new(
        feeds: &Arc<Feeds>,
        metrics: &Arc<Metrics>,
        signal: &Arc<Signal>,
        options: SubscribeOptions,
    ) -> Self {
        metrics.subscriptions.add(1);
        let SubscribeOptions { session, after, is_events, reducer } = options;
        let other = reducer.filter(|it| is_events && *it != REDUCER);
        let key = FeedKey { session: session.clone(), is_events: is_events && other.is_none() };
        let start = match (other, after) {
            (Some(version), _) => Start::OtherReducer(version),
            (None, Some(cursor)) => Start::After(cursor),
            (None, None) => Start::Beginning,
        };
        let slot = JoinSlot::default();
        let (opened, waiting, filled) = (feeds.clone(), signal.clone(), slot.clone());
        tokio::spawn(async move {
            let mut patience = Patience::default();
            let joined = loop {
                let joined = join_first(&opened, &key, start.clone()).await;
                if !patience.waits(is_unreachable(&joined), &filled).await {
                    break joined;
                }
            };
            fill(&filled, joined, &waiting);
        });
        let (feeds, signal, metrics) = (feeds.clone(), signal.clone(), metrics.clone());
        Self { session, feeds, signal, metrics, state: State::Joining(slot) }
    }

    /// Appends what there is to send, up to about so many bytes.
    pub(crate) fn read(&mut self, most: usize, out: &mut Vec<Arc<FramedEntry>>) {
        let mut room = most;
        while room > 0 {
            match std::mem::replace(&mut self.state, State::Ended) {
                State::Joining(slot) => {
                    match slot.lock().unwrap_or_else(PoisonError::into_inner).take() {
                        Some(Ok(Join { feed, frames })) => {
                            let seat = Seat::take(feed, &self.signal, frames.cursor);
                            let entries = frames.entries.into();
                            self.state = State::First { seat, entries };
                        }
                        Some(Err(error)) => {
                            let problem = error.into();
                            out.push(Arc::new(error_entry(Some(&self.session), problem)));
                            return;
                        }
                        None => {
                            self.state = State::Joining(slot.clone());
                            return;
                        }
                    }
                }
                State::First { seat, mut entries } => match entries.pop_front() {
                    Some(entry) => {
                        room = room.saturating_sub(entry.websocket().len().max(1));
                        out.push(entry);
                        self.state = State::First { seat, entries };
                    }
                    None => match seat.feed.place_after(&seat.cursor()) {
                        Place::At(next) => self.state = State::Live { seat, next },
                        Place::Behind => {
                            let start = Start::Continued(seat.cursor());
                            self.join_again(seat, JoinKind::From(start));
                        }
                    },
                },
                State::Live { seat, next } => {
                    self.read_feed(seat, next, room, out);
                    return;
                }
                State::Ended => return,
            }
        }
    }

    fn read_feed(
        &mut self,
        mut seat: Seat,
        next: u64,
        most: usize,
        out: &mut Vec<Arc<FramedEntry>>,
    ) {
        let start = out.len();
        let Some(next) = seat.feed.log.read(next, most, out) else {
            self.join_again(seat, JoinKind::AfterGap);
            return;
        };
        // The first frames may have been read before the feed had got there.
        if out.get(start).is_some_and(|it| it.seq <= seat.seq) {
            let seen = seat.seq;
            let mut index = 0;
            out.retain(|it| {
                index += 1;
                index <= start || it.seq > seen
            });
        }
        match out.get(start..).and_then(<[_]>::last) {
            Some(last) if last.is_last => return,
            Some(last) => seat.seq = last.seq,
            None => {}
        }
        self.state = State::Live { seat, next };
    }

    /// Starts a task that reads what the subscriber gets next, because the feed does not have it.
    fn join_again(&mut self, seat: Seat, kind: JoinKind) {
        let slot = JoinSlot::default();
        let (feeds, filled, waiting) = (self.feeds.clone(), slot.clone(), self.signal.clone());
        let (feed, cursor) = (seat.feed.clone(), seat.cursor());
        tokio::spawn(async move {
            let mut patience = Patience::default();
            let frames = loop {
                let frames = match &kind {
                    JoinKind::From(start) => feeds.join(&feed, start.clone()).await,
                    JoinKind::AfterGap => feeds.rejoin(&feed, &cursor).await,
                };
                if !patience.waits(is_unreachable(&frames), &filled).await {
                    break frames;
                }
            };
            fill(&filled, frames.map(|frames| Join { feed, frames }), &waiting);
        });
        self.state = State::Joining(slot);
    }

    /// Returns a heartbeat, if the subscriber has everything.
    pub(crate) fn heartbeat(&self) -> Option<Arc<FramedEntry>> {
        match &self.state {
            State::Live { seat, next } if *next == seat.feed.log.end() => {
                Some(seat.feed.heartbeat())
            }
            _ => None,
        }
    }

    /// Returns whether nothing more follows.
    pub(crate) fn is_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.metrics.subscriptions.subtract(1);
    }
}

enum JoinKind {
    From(Start),
    /// The subscriber was too slow.
    AfterGap,
}

async fn join_first(feeds: &Arc<Feeds>, key: &FeedKey, start: Start) -> Result<Join, EngineError> {
    let feed = feeds.open(key).await?;
    let frames = feeds.join(&feed, start).await?;
    Ok(Join { feed, frames })
}

/// Waits for a store that cannot be reached: the subscriber waits, as it does for the next record.
struct Patience {
    pause: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { pause: FIRST_PAUSE }
    }
}

impl Patience {
    /// Waits, and returns whether to try again: nobody does once the subscriber is gone.
    async fn waits(&mut self, is_unreachable: bool, slot: &JoinSlot) -> bool {
        // Two are this one and the subscriber's.
        if !is_unreachable || Arc::strong_count(slot) < 2 {
            return false;
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        true
    }
}

fn is_unreachable<T>(joined: &Result<T, EngineError>) -> bool {
    matches!(joined, Err(EngineError::Store(StoreError::Unreachable { .. })))
}

fn fill(slot: &JoinSlot, joined: Result<Join, EngineError>, signal: &Signal) {
    *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(joined);
    signal.set();
}

#[cfg(test)]
mod tests {
    use threadfold_core::SessionEvent;
    use threadfold_engine::{Host, Options, holder};
    use threadfold_store::MemoryStore;

    use super::*;

    /// Returns a subscriber that has been given all up to a record by others than the feed.
    async fn subscriber_at(seq: u64) -> (Subscription, Arc<Feed>) {
        let host = Host::new(Arc::new(MemoryStore::default()));
        let id = SessionId::from("s");
        let mut session = host.open(&id, Options::new(holder("test"))).await.unwrap();
        let event = SessionEvent::from_json(r#"{"type":"session:idle"}"#).unwrap();
        session.emit_all(&[event]).await.unwrap();
        let log = session.cursor().log;
        let metrics = Arc::new(Metrics::default());
        let feeds = Arc::new(Feeds::new(host, metrics.clone()));
        let key = FeedKey { session: id.clone(), is_events: true };
        let feed = feeds.open(&key).await.unwrap();
        let cursor = Cursor { log, generation: GENERATION, seq };
        let frames = JoinFrames { entries: Vec::new(), cursor };
        let joined = Join { feed: feed.clone(), frames };
        let state = State::Joining(Arc::new(Mutex::new(Some(Ok(joined)))));
        let signal = Arc::default();
        (Subscription { session: id, feeds, signal, metrics, state }, feed)
    }

    fn append(feed: &Feed, seqs: impl IntoIterator<Item = u64>) {
        feed.log.append(seqs.into_iter().map(|seq| FramedEntry::new(None, seq, "{}")));
    }

    fn read(subscription: &mut Subscription) -> Vec<u64> {
        let mut entries = Vec::new();
        subscription.read(usize::MAX, &mut entries);
        entries.iter().map(|it| it.seq).collect()
    }

    #[tokio::test]
    async fn records_that_a_subscriber_has_before_the_feed_are_not_sent_again() {
        let (mut subscription, feed) = subscriber_at(5).await;
        assert!(read(&mut subscription).is_empty(), "the feed is at the first record");
        append(&feed, 2..=3);
        assert!(read(&mut subscription).is_empty(), "it has them");
        append(&feed, 4..=7);
        assert_eq!(read(&mut subscription), [6, 7]);
        append(&feed, 8..=8);
        assert_eq!(read(&mut subscription), [8]);
    }
}
