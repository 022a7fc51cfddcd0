//! The summaries of all sessions as they change, for all clients that list them.

use std::sync::Arc;

use serde::Serialize;

use crate::catalog::CatalogRow;
use crate::shared_log::{FramedEntry, SharedLog, Signal};

/// Summaries as they change.
pub(crate) struct SummaryFeed {
    /// Distinguishes the positions of this process from those of another.
    run: String,
    log: SharedLog,
}

/// A frame about the list of sessions.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
enum SummaryFrame<'a> {
    /// Changes of the list follow: whoever lists the sessions now misses nothing.
    Ready {
        cursor: &'a str,
    },
    /// The client missed changes: it is to list the sessions again.
    Gap {
        cursor: &'a str,
        reason: &'static str,
    },
    /// A session is new, or has changed.
    Session {
        cursor: &'a str,
        session: &'a CatalogRow,
    },
    /// A session was removed.
    Removed {
        cursor: &'a str,
        session_id: &'a str,
    },
    Heartbeat {
        cursor: &'a str,
    },
}

impl SummaryFrame<'_> {
    fn json(&self) -> String {
        serde_json::to_string(self).expect("a summary has no keys that are not text")
    }
}

impl SummaryFeed {
    pub(crate) fn new() -> Self {
        let run = uuid::Uuid::new_v4().simple().to_string()[..12].to_owned();
        Self { run, log: SharedLog::default() }
    }

    fn cursor(&self, index: u64) -> String {
        format!("{}.{index}", self.run)
    }

    /// Publishes that sessions have changed. The caller does not do so twice at the same time.
    pub(crate) fn publish(&self, rows: &[CatalogRow]) {
        let first = self.log.end();
        self.log.append(rows.iter().zip(first + 1..).map(|(session, index)| {
            let cursor = self.cursor(index);
            let json = SummaryFrame::Session { cursor: &cursor, session }.json();
            FramedEntry::new(Some(cursor), index, &json)
        }));
    }

    /// Publishes that a session was removed.
    pub(crate) fn publish_removed(&self, session: &str) {
        let index = self.log.end() + 1;
        let cursor = self.cursor(index);
        let json = SummaryFrame::Removed { cursor: &cursor, session_id: session }.json();
        self.log.append([FramedEntry::new(Some(cursor), index, &json)]);
    }
}

/// A subscriber of the summaries.
pub(crate) struct SummarySubscription {
    feed: Arc<SummaryFeed>,
    id: u64,
    next: u64,
    greeting: Option<Arc<FramedEntry>>,
}

impl SummarySubscription {
    pub(crate) fn new(feed: &Arc<SummaryFeed>, signal: &Arc<Signal>, after: Option<&str>) -> Self {
        let id = feed.log.subscribe(signal);
        let end = feed.log.end();
        let position = after.and_then(|it| {
            let (run, index) = it.split_once('.')?;
            index.parse().ok().filter(|index| run == feed.run && *index <= end)
        });
        let mut missed = Vec::new();
        let is_held = |from: &u64| feed.log.read(*from, 0, &mut missed).is_some();
        let (next, greeting) = match (position.filter(is_held), after) {
            (Some(position), _) => (position, None),
            (None, Some(_)) => (end, Some(gap(feed, end))),
            (None, None) => {
                let cursor = feed.cursor(end);
                let json = SummaryFrame::Ready { cursor: &cursor }.json();
                (end, Some(Arc::new(FramedEntry::new(Some(cursor), end, &json))))
            }
        };
        signal.set();
        Self { feed: feed.clone(), id, next, greeting }
    }

    pub(crate) fn read(&mut self, most: usize, out: &mut Vec<Arc<FramedEntry>>) {
        out.extend(self.greeting.take());
        match self.feed.log.read(self.next, most, out) {
            Some(next) => self.next = next,
            None => {
                self.next = self.feed.log.end();
                out.push(gap(&self.feed, self.next));
            }
        }
    }

    pub(crate) fn heartbeat(&self) -> Arc<FramedEntry> {
        let cursor = self.feed.cursor(self.next);
        let json = SummaryFrame::Heartbeat { cursor: &cursor }.json();
        Arc::new(FramedEntry::new(None, self.next, &json))
    }
}

impl Drop for SummarySubscription {
    fn drop(&mut self) {
        self.feed.log.unsubscribe(self.id);
    }
}

fn gap(feed: &SummaryFeed, end: u64) -> Arc<FramedEntry> {
    let cursor = feed.cursor(end);
    let reason = "changes before this were missed: list the sessions again";
    let json = SummaryFrame::Gap { cursor: &cursor, reason }.json();
    Arc::new(FramedEntry::new(Some(cursor), end, &json))
}
