//! The frames of one session in one view, for all its subscribers: one task reads the session, and
//! frames each record once.
//!
//! A session that nobody watches has no feed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use threadfold_core::SessionId;
use threadfold_engine::{
    Delivery, EngineError, Frame, FrameKind, FrameLine, FrameListener, GapReason, Host,
    ListenOptions,
};
use threadfold_fold::{Cursor, GENERATION, LogId, with_causes};
use threadfold_store::StoreError;
use tokio::sync::{Notify, Semaphore};

use crate::metrics::Metrics;
use crate::shared_log::{FramedEntry, Place, SharedLog};

/// How many subscribers may be given what they missed at once: each takes memory for it.
const JOINS_AT_ONCE: usize = 4;

/// How long to wait for a store that cannot be reached, at first and at most.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(100);
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// All feeds that have subscribers.
pub(crate) struct Feeds {
    host: Host,
    feeds: Mutex<HashMap<FeedKey, Weak<Feed>>>,
    joins: Semaphore,
    metrics: Arc<Metrics>,
}

/// A session in a view.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FeedKey {
    pub(crate) session: SessionId,
    pub(crate) is_events: bool,
}

impl FeedKey {
    fn delivery(&self) -> Delivery {
        if self.is_events { Delivery::Events } else { Delivery::Changes }
    }
}

/// The frames of one session in one view.
pub(crate) struct Feed {
    key: FeedKey,
    pub(crate) log: SharedLog,
    head: Mutex<FeedHead>,
    /// The latest snapshot that somebody still sends.
    snapshot: Mutex<Weak<FramedEntry>>,
    /// Signals that nobody needs the feed any more.
    gone: Arc<Notify>,
}

/// How far a feed has read its session.
#[derive(Clone, Debug)]
struct FeedHead {
    log: LogId,
    seq: u64,
    heartbeat: Option<Arc<FramedEntry>>,
    is_ended: bool,
}

/// Where a subscriber starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// With a snapshot.
    Beginning,
    /// After its cursor.
    After(Cursor),
    /// After its cursor, and it knows how the stream goes on.
    Continued(Cursor),
    /// With a snapshot that says why it is not sent events: its reducer has this version.
    OtherReducer(u32),
}

/// The first frames of a subscriber, and the cursor after them.
#[derive(Debug)]
pub(crate) struct JoinFrames {
    pub(crate) entries: Vec<Arc<FramedEntry>>,
    pub(crate) cursor: Cursor,
}

impl Feeds {
    pub(crate) fn new(host: Host, metrics: Arc<Metrics>) -> Self {
        Self { host, feeds: Mutex::default(), joins: Semaphore::new(JOINS_AT_ONCE), metrics }
    }

    /// Returns the feed of a session, which starts if there is none.
    pub(crate) async fn open(self: &Arc<Self>, key: &FeedKey) -> Result<Arc<Feed>, EngineError> {
        if let Some(feed) = self.running(key) {
            return Ok(feed);
        }
        let cursor = self.host.session(&key.session).await?.cursor();
        let mut feeds = self.lock();
        let running = feeds.get(key).and_then(Weak::upgrade);
        if let Some(feed) = running.filter(|it| !it.is_ended()) {
            return Ok(feed);
        }
        let head =
            FeedHead { log: cursor.log.clone(), seq: cursor.seq, heartbeat: None, is_ended: false };
        let feed = Arc::new(Feed {
            key: key.clone(),
            log: SharedLog::default(),
            head: Mutex::new(head),
            snapshot: Mutex::default(),
            gone: Arc::default(),
        });
        feeds.retain(|_, it| it.strong_count() > 0);
        feeds.insert(key.clone(), Arc::downgrade(&feed));
        let (host, weak, gone) = (self.host.clone(), Arc::downgrade(&feed), feed.gone.clone());
        let pump =
            Pump { host, key: key.clone(), feed: weak, cursor, metrics: self.metrics.clone() };
        tokio::spawn(async move {
            tokio::select! {
                () = gone.notified() => {}
                () = pump.run() => {}
            }
        });
        Ok(feed)
    }

    fn running(&self, key: &FeedKey) -> Option<Arc<Feed>> {
        self.lock().get(key).and_then(Weak::upgrade).filter(|it| !it.is_ended())
    }

    /// Returns how many feeds there are.
    pub(crate) fn count(&self) -> usize {
        self.lock().values().filter(|it| it.strong_count() > 0).count()
    }

    /// Returns the first frames of a subscriber: what it missed, or a snapshot.
    pub(crate) async fn join(&self, feed: &Feed, start: Start) -> Result<JoinFrames, EngineError> {
        if start == Start::Beginning
            && let Some(shared) = feed.shared_snapshot()
        {
            return Ok(shared);
        }
        let _turn = self.joins.acquire().await;
        let (delivery, is_beginning) = (feed.key.delivery(), start == Start::Beginning);
        let options = ListenOptions { after: None, delivery, reducer: None };
        let (options, is_continued) = match start {
            Start::Beginning => (options, false),
            Start::After(cursor) => (ListenOptions { after: Some(cursor), ..options }, false),
            Start::Continued(cursor) => (ListenOptions { after: Some(cursor), ..options }, true),
            Start::OtherReducer(version) => {
                let (delivery, reducer) = (Delivery::Events, Some(version));
                (ListenOptions { delivery, reducer, ..options }, false)
            }
        };
        let mut listener = self.host.listen(&feed.key.session, options).await?;
        if is_continued {
            listener = listener.continued();
        }
        let mut lines = listener.next_lines().await;
        if lines.iter().any(|it| it.kind == FrameKind::Resume) {
            // What was missed follows at once, if anything was.
            let cursor = listener.handle().cursor();
            if lines.last().is_some_and(|it| it.cursor != cursor) {
                lines.extend(listener.next_lines().await);
            }
        }
        // The end of a writer is not the end of its session.
        lines.retain(|it| it.kind != FrameKind::End);
        if lines.iter().any(|it| it.kind == FrameKind::Gap) {
            self.metrics.gaps.add(1);
        }
        let Some(cursor) = lines.last().map(|it| it.cursor.clone()) else {
            let session = feed.key.session.clone();
            return Err(StoreError::NotFound { session }.into());
        };
        let entries = lines.iter().map(|it| Arc::new(framed(it))).collect();
        let joined = JoinFrames { entries, cursor };
        if is_beginning {
            feed.share_snapshot(&joined);
        }
        Ok(joined)
    }

    /// Returns the frames for a subscriber that was too slow: a gap, and a snapshot.
    pub(crate) async fn rejoin(
        &self,
        feed: &Feed,
        seen: &Cursor,
    ) -> Result<JoinFrames, EngineError> {
        let mut joined = self.join(feed, Start::Beginning).await?;
        let (session_id, cursor) = (feed.key.session.clone(), seen.to_string());
        let reason = match joined.cursor.log == seen.log {
            true => GapReason::TooFarBehind,
            false => GapReason::OtherLog,
        };
        let gap = Frame::Gap { session_id, cursor: cursor.clone(), reason: reason.to_string() };
        let gap = FramedEntry::new(Some(cursor), seen.seq, &gap.to_json());
        joined.entries.insert(0, Arc::new(gap));
        self.metrics.gaps.add(1);
        Ok(joined)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<FeedKey, Weak<Feed>>> {
        self.feeds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Feed {
    /// Returns where a subscriber with this cursor continues.
    pub(crate) fn place_after(&self, cursor: &Cursor) -> Place {
        let head = self.head();
        match head.log == cursor.log {
            true => self.log.place_after(cursor.seq, head.seq),
            false => Place::Behind,
        }
    }

    /// Returns a heartbeat for a subscriber that has everything, the same for all of them.
    pub(crate) fn heartbeat(&self) -> Arc<FramedEntry> {
        let mut head = self.head();
        if let Some(entry) = &head.heartbeat {
            return entry.clone();
        }
        let cursor = Cursor { log: head.log.clone(), generation: GENERATION, seq: head.seq };
        let frame =
            Frame::Heartbeat { session_id: self.key.session.clone(), cursor: cursor.to_string() };
        let entry = Arc::new(FramedEntry::new(None, head.seq, &frame.to_json()));
        head.heartbeat = Some(entry.clone());
        entry
    }

    fn is_ended(&self) -> bool {
        self.head().is_ended
    }

    /// Returns the latest snapshot, if a subscriber can continue after it.
    fn shared_snapshot(&self) -> Option<JoinFrames> {
        let entry = self.snapshot().upgrade()?;
        let cursor: Cursor = entry.cursor.as_deref()?.parse().ok()?;
        match self.place_after(&cursor) {
            Place::At(_) => Some(JoinFrames { entries: vec![entry], cursor }),
            Place::Behind => None,
        }
    }

    fn share_snapshot(&self, joined: &JoinFrames) {
        if let Some(entry) = joined.entries.last() {
            *self.snapshot() = Arc::downgrade(entry);
        }
    }

    fn snapshot(&self) -> MutexGuard<'_, Weak<FramedEntry>> {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn head(&self) -> MutexGuard<'_, FeedHead> {
        self.head.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends frames, after the head was moved: a subscriber that joins in between waits for them.
    fn append(&self, log: &LogId, lines: &[FrameLine]) {
        let Some(last) = lines.last() else { return };
        let mut head = self.head();
        (head.log, head.seq, head.heartbeat) = (log.clone(), last.cursor.seq, None);
        self.log.append(lines.iter().map(framed));
        drop(head);
    }

    /// Forgets all frames, because the session continues elsewhere.
    fn restart(&self, cursor: &Cursor) {
        let mut head = self.head();
        (head.log, head.seq, head.heartbeat) = (cursor.log.clone(), cursor.seq, None);
        self.log.clear();
    }

    fn end(&self, cursor: &Cursor, reason: &str) {
        let mut head = self.head();
        head.is_ended = true;
        let frame = Frame::End {
            session_id: self.key.session.clone(),
            cursor: cursor.to_string(),
            reason: reason.to_owned(),
        };
        let entry = FramedEntry::new(None, cursor.seq + 1, &frame.to_json()).last();
        self.log.append([entry]);
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.gone.notify_one();
    }
}

fn framed(line: &FrameLine) -> FramedEntry {
    FramedEntry::new(Some(line.cursor.to_string()), line.cursor.seq, &line.json)
}

/// Reads a session for its feed.
struct Pump {
    host: Host,
    key: FeedKey,
    feed: Weak<Feed>,
    cursor: Cursor,
    metrics: Arc<Metrics>,
}

impl Pump {
    async fn run(mut self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let before = self.cursor.clone();
            let reason = match self.listen_once().await {
                Ok(()) => {
                    pause = FIRST_PAUSE;
                    continue;
                }
                // Nothing has ended: the subscribers wait, as the feed does.
                Err(EngineError::Store(StoreError::Unreachable { .. })) => {
                    pause = if self.cursor == before { pause } else { FIRST_PAUSE };
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    continue;
                }
                Err(EngineError::Store(StoreError::NotFound { .. })) => {
                    "the session was removed".to_owned()
                }
                Err(error) => with_causes(&error),
            };
            if let Some(feed) = self.feed.upgrade() {
                feed.end(&self.cursor, &reason);
            }
            return;
        }
    }

    /// Frames what is new until the session has no writer, then waits until it has grown.
    async fn listen_once(&mut self) -> Result<(), EngineError> {
        self.listen().await?;
        Ok(self.host.store().changed(&self.key.session, self.cursor.seq).await?)
    }

    /// Frames what is new until the session has no writer.
    async fn listen(&mut self) -> Result<(), EngineError> {
        let options = ListenOptions {
            after: Some(self.cursor.clone()),
            delivery: self.key.delivery(),
            reducer: None,
        };
        let mut listener: FrameListener =
            self.host.listen(&self.key.session, options).await?.continued();
        loop {
            let lines = listener.next_lines().await;
            let Some(feed) = self.feed.upgrade() else { return Ok(()) };
            match lines.last() {
                Some(FrameLine { kind: FrameKind::End, .. }) | None => return Ok(()),
                Some(FrameLine { kind: FrameKind::Snapshot, cursor, .. }) => {
                    self.cursor = cursor.clone();
                    feed.restart(cursor);
                }
                Some(last) => {
                    self.cursor = last.cursor.clone();
                    self.metrics.frames.add(lines.len() as u64);
                    feed.append(&last.cursor.log, &lines);
                }
            }
        }
    }
}
