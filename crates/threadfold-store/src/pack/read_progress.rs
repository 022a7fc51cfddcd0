//! How far a log was read, within a limit and without a gap.

use threadfold_fold::StoredRecord;

use crate::query::Limit;

/// What was read of a log, and what is still wanted.
pub struct ReadProgress {
    next: u64,
    limit: Limit,
    bytes: usize,
    records: Vec<StoredRecord>,
}

/// A record is missing between those that were read and those that follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("record {seq} is missing")]
pub struct MissingRecord {
    /// Its sequence number.
    pub seq: u64,
}

impl ReadProgress {
    /// Begins after a record.
    pub fn new(after: u64, limit: Limit) -> Self {
        Self { next: after.saturating_add(1), limit, bytes: 0, records: Vec::new() }
    }

    /// Returns the next record that is wanted.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Returns whether the limit is reached.
    pub fn is_done(&self) -> bool {
        self.next > self.limit.until || self.bytes >= self.limit.bytes.max(1)
    }

    /// Adds the wanted records of a row. A gap before the row means corruption.
    pub fn take(&mut self, rows: Vec<StoredRecord>) -> Result<(), MissingRecord> {
        let from = self.next;
        for record in rows.into_iter().skip_while(|record| record.seq < from) {
            if self.is_done() {
                break;
            }
            if record.seq != self.next {
                return Err(MissingRecord { seq: self.next });
            }
            self.next += 1;
            self.bytes += record.bytes.len();
            self.records.push(record);
        }
        Ok(())
    }

    /// Returns what was read.
    pub fn into_records(self) -> Vec<StoredRecord> {
        self.records
    }
}
