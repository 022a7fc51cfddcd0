//! The end of a log: rows that wait until enough of them make a group.

use threadfold_fold::{Record, StoredRecord};

use super::PackError;
use super::compressed::CompressedGroup;
use super::meta::Batch;
use super::packer::Packer;
use super::row::{pack_row, unpack_row};

/// The records of one or more appends, without those that are in groups already.
#[derive(Clone, Debug)]
pub struct TailRow {
    /// The first record.
    pub first: u64,
    /// The appends that begin in it.
    pub batches: Vec<Batch>,
    /// The records.
    pub records: Vec<Record>,
}

impl TailRow {
    /// Returns a row as it was stored. A row without records is corrupt.
    pub fn unpack(first: u64, count: u64, data: &[u8]) -> Result<Self, PackError> {
        let (batches, records) = unpack_row(first, count, data)?;
        if records.is_empty() {
            return Err(PackError("a row has no records"));
        }
        let records = records.into_iter().map(as_new).collect();
        Ok(Self { first, batches, records })
    }

    /// Returns the last record.
    pub fn last(&self) -> u64 {
        self.first + self.records.len() as u64 - 1
    }

    /// Returns what of it is after a record that is in it, packed; `None` if nothing is.
    pub fn rest_after(mut self, until: u64) -> Option<(Self, Vec<u8>)> {
        if self.last() <= until {
            return None;
        }
        let packed = until.saturating_add(1).saturating_sub(self.first);
        self.records.drain(..usize::try_from(packed).unwrap_or(usize::MAX));
        self.first += packed;
        self.batches.retain(|batch| batch.first > until);
        let data = pack_row(self.first, &self.batches, &self.records);
        Some((self, data))
    }
}

fn as_new(record: StoredRecord) -> Record {
    let Record { kind, source, position, received, bytes } = record.record;
    Record { kind, source, position, received, bytes }
}

/// Packs rows that follow one another into groups, up to the end of the last complete group.
pub fn complete_groups(session: &str, rows: &[TailRow]) -> Vec<CompressedGroup> {
    pack(session, rows).0
}

/// Packs rows that follow one another into groups, all of them.
pub fn all_groups(session: &str, rows: &[TailRow]) -> Vec<CompressedGroup> {
    let (mut groups, packer) = pack(session, rows);
    groups.extend(packer.and_then(Packer::finish).map(CompressedGroup::new));
    groups
}

/// Returns the complete groups, and the packer with the rest. Each group is compressed as soon as it
/// is complete, so that only one is in memory as it was.
fn pack<'a>(session: &'a str, rows: &[TailRow]) -> (Vec<CompressedGroup>, Option<Packer<'a>>) {
    let Some(first) = rows.first().map(|row| row.first) else { return (Vec::new(), None) };
    let (mut groups, mut packer) = (Vec::new(), Packer::new(session, first));
    for row in rows {
        let mut batches = row.batches.iter().peekable();
        for (record, seq) in row.records.iter().zip(row.first..) {
            if let Some(batch) = batches.next_if(|batch| batch.first == seq) {
                packer.begin(*batch);
            }
            groups.extend(packer.push(record).map(CompressedGroup::new));
        }
    }
    (groups, Some(packer))
}
