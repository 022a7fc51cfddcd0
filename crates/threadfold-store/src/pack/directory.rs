//! An index of the rows of several sessions that were written together.

use std::ops::Range;

use threadfold_fold::Timestamp;

use super::PackError;
use super::checksum;
use super::number::{Reader, write, write_signed};

/// One session's row among those of other sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The session's number.
    pub session: u64,
    /// The row's first record.
    pub first: u64,
    /// How many records the row has.
    pub count: u64,
    /// When the last of them was received.
    pub latest: Timestamp,
    /// The row's bytes, among those of all rows.
    pub range: Range<usize>,
}

impl DirectoryEntry {
    /// Returns the row's last record.
    pub fn last(&self) -> u64 {
        self.first.saturating_add(self.count).saturating_sub(1)
    }
}

const PLACE: &[u8] = b"directory";

/// Packs a directory. Each entry's range starts where the range before it ends.
pub fn pack_directory(entries: &[DirectoryEntry]) -> Vec<u8> {
    let mut out = Vec::with_capacity(entries.len() * 16);
    for entry in entries {
        write(&mut out, entry.session);
        write(&mut out, entry.first);
        write(&mut out, entry.count);
        write_signed(&mut out, entry.latest.0);
        write(&mut out, entry.range.len() as u64);
    }
    checksum::add(&mut out, PLACE);
    out
}

/// Unpacks a directory.
pub fn unpack_directory(packed: &[u8]) -> Result<Vec<DirectoryEntry>, PackError> {
    let mut reader = Reader::new(checksum::remove(packed, PLACE)?);
    let mut entries = Vec::new();
    let mut start = 0_usize;
    while !reader.is_at_end() {
        let session = reader.number()?;
        let first = reader.number()?;
        let count = reader.number()?;
        let latest = Timestamp(reader.signed()?);
        let end = start
            .checked_add(reader.length()?)
            .ok_or(PackError("a row's length is out of range"))?;
        entries.push(DirectoryEntry { session, first, count, latest, range: start..end });
        start = end;
    }
    Ok(entries)
}
