//! Positions in the sequence of a store's changes, to wait for the next one.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// A position in the sequence of a store's changes: some session was created, appended to or
/// removed.
///
/// It is opaque: hand it back to the store that returned it. A position that the store does not
/// know, such as one of an earlier process, counts as older than every change. The default is such
/// a position.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChangePosition(String);

impl ChangePosition {
    /// Returns the position as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for ChangePosition {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for ChangePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Counts the changes of a store within one process, and wakes tasks that wait for one.
///
/// For stores that observe changes only while running: positions hold as long as the counter.
#[derive(Debug)]
pub struct ChangeCounter {
    /// Distinguishes this counter from those of other processes and handles, whose numbers mean
    /// nothing here.
    instance: u64,
    changes: watch::Sender<u64>,
}

impl Default for ChangeCounter {
    fn default() -> Self {
        // The standard library's only source of random numbers.
        let instance = RandomState::new().build_hasher().finish();
        Self { instance, changes: watch::Sender::new(0) }
    }
}

impl ChangeCounter {
    /// Counts a change, and wakes every waiting task.
    pub fn advance(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Returns how many tasks wait.
    pub fn waiters(&self) -> usize {
        self.changes.receiver_count()
    }

    /// Starts to wait; no change after this call is missed.
    pub fn waiter(&self) -> ChangeWaiter {
        ChangeWaiter { instance: self.instance, changes: self.changes.subscribe() }
    }
}

/// A task that waits for a change.
#[derive(Debug)]
pub struct ChangeWaiter {
    instance: u64,
    changes: watch::Receiver<u64>,
}

impl ChangeWaiter {
    /// Returns the position of the last change, once it is not `after`.
    pub async fn wait(mut self, after: &ChangePosition) -> ChangePosition {
        loop {
            let count = *self.changes.borrow_and_update();
            let position = ChangePosition(format!("{:x}.{count}", self.instance));
            if position != *after {
                return position;
            }
            if self.changes.changed().await.is_err() {
                // The store was closed. Its caller finds out with the next call.
                return position;
            }
        }
    }
}
