//! An append, packed before it is the database's turn, so that others do not wait for that.

use threadfold_core::SessionId;
use threadfold_fold::{Record, Timestamp};

use super::{Batch, CompressedGroup, Packer, pack_row};
use crate::lease::Epoch;
use crate::log::{Append, AppendReceipt, BatchId};

/// An append of this many bytes is packed into groups at once: it is large enough to compress well,
/// and would soon have to be compacted.
const LONG_APPEND: u64 = 160 << 10;
/// So is one of this many records, however short they are.
const MANY_RECORDS: usize = 1024;

/// An append, packed.
pub struct PreparedAppend {
    /// The session.
    pub session: SessionId,
    /// The epoch of the writer's lease.
    pub epoch: Epoch,
    /// The record that it follows.
    pub after: u64,
    /// Its id.
    pub batch: BatchId,
    /// How many records it has.
    pub count: u64,
    /// When the last of them was received.
    pub latest: Timestamp,
    /// The records.
    pub content: AppendContent,
}

/// The records of an append.
pub enum AppendContent {
    /// Packed as a row of the tail.
    Row(Vec<u8>),
    /// Too many for a row: they are groups from the start, so each is compressed and written once.
    Groups(Vec<CompressedGroup>),
}

impl PreparedAppend {
    /// Packs an append.
    pub fn new(append: Append) -> Self {
        let is_long = is_long(&append);
        let Append { session, epoch, after, batch, records } = append;
        let latest = records.last().map_or(Timestamp(0), |record| record.received);
        let first = after.saturating_add(1);
        let count = records.len() as u64;
        let begun = Batch { id: batch, first, count };
        let content = if is_long {
            AppendContent::Groups(pack_groups(&session, begun, &records))
        } else {
            AppendContent::Row(pack_row(first, &[begun], &records))
        };
        Self { session, epoch, after, batch, count, latest, content }
    }

    /// Returns its row; nothing if it is groups.
    pub fn row(&self) -> &[u8] {
        match &self.content {
            AppendContent::Row(row) => row,
            AppendContent::Groups(_) => &[],
        }
    }

    /// Returns what it is acknowledged with.
    pub fn receipt(&self) -> AppendReceipt {
        AppendReceipt { first: self.after + 1, last: self.after + self.count }
    }
}

/// Returns whether an append is packed into groups at once, which takes long enough to need a thread
/// of its own.
pub fn is_long(append: &Append) -> bool {
    let size: u64 = append.records.iter().map(|record| record.bytes.len() as u64).sum();
    size >= LONG_APPEND || append.records.len() >= MANY_RECORDS
}

/// Packs an append into groups of its own, all of it.
fn pack_groups(session: &SessionId, batch: Batch, records: &[Record]) -> Vec<CompressedGroup> {
    let mut packer = Packer::new(session.as_str(), batch.first);
    packer.begin(batch);
    let mut groups = Vec::new();
    for record in records {
        groups.extend(packer.push(record).map(CompressedGroup::new));
    }
    groups.extend(packer.finish().map(CompressedGroup::new));
    groups
}
