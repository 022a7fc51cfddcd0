//! A session's log as a whole, and appends to it.

use threadfold_core::SessionId;
use threadfold_fold::{LogId, Record, Timestamp};

use crate::lease::{Epoch, Lease};
use crate::snapshot::Summary;

/// The id of one append, chosen by the writer.
///
/// It makes appends idempotent: an append that is retried after a lost acknowledgement has the same
/// id, so the store does not take it for a rival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BatchId(pub [u8; 16]);

/// Records to append to a session, all or none.
#[derive(Clone, Debug)]
pub struct Append {
    /// The session.
    pub session: SessionId,
    /// The epoch of the writer's lease.
    pub epoch: Epoch,
    /// The last record that the writer knows; the append is refused if the log ends elsewhere.
    pub after: u64,
    /// The id of this append.
    pub batch: BatchId,
    /// The records.
    pub records: Vec<Record>,
}

/// The acknowledgement of an append: its records are durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendReceipt {
    /// The first of the records.
    pub first: u64,
    /// The last of them; `first - 1` if the append was empty.
    pub last: u64,
}

/// The end of a session's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogHead {
    /// The log's id.
    pub log: LogId,
    /// Its last record; 0 if it is empty.
    pub seq: u64,
    /// The epoch of the latest lease.
    pub epoch: Epoch,
}

/// A session as stores list it.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionEntry {
    /// The session.
    pub session: SessionId,
    /// The end of its log.
    pub head: LogHead,
    /// When it was created, by the store's clock.
    pub created: Timestamp,
    /// When its last record was received.
    pub updated: Timestamp,
    /// Its latest lease, also if that has expired; `None` if it was released.
    pub lease: Option<Lease>,
    /// Its latest summary.
    pub summary: Option<Summary>,
}
