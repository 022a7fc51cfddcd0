//! A session's log as a whole, and what is added to it.

use threadfold_core::SessionId;

use crate::lease::{Epoch, Lease};
use crate::snapshot::Summary;
use threadfold_fold::{LogId, Record, Timestamp};

/// The name of one append. Said again after a lost acknowledgement, it is the same append and
/// not a rival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BatchId(pub [u8; 16]);

/// Records to be added to a session, all or none.
#[derive(Clone, Debug)]
pub struct Append {
    /// The session.
    pub session: SessionId,
    /// The writer's lease.
    pub epoch: Epoch,
    /// The last record that the writer knows of; the first of these follows it.
    pub after: u64,
    /// The name of this append.
    pub batch: BatchId,
    /// What is added.
    pub records: Vec<Record>,
}

/// What was added, and is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The first of the records.
    pub first: u64,
    /// The last of them; less than `first` if there were none.
    pub last: u64,
}

/// How far a session's log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The log.
    pub log: LogId,
    /// Its last record; 0 if there is none.
    pub seq: u64,
    /// The latest lease that was given out.
    pub epoch: Epoch,
}

/// A session as a store lists it.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionEntry {
    /// The session.
    pub session: SessionId,
    /// How far its log goes.
    pub head: Head,
    /// When it was first written to.
    pub created: Timestamp,
    /// When it was last written to.
    pub updated: Timestamp,
    /// Who writes to it, also if the time is over.
    pub lease: Option<Lease>,
    /// What was last derived of it for lists.
    pub summary: Option<Summary>,
}

/// Returns the time by this machine's clock.
pub fn now() -> Timestamp {
    let since =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
