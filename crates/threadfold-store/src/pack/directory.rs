//! What is in the rows of many sessions that were written at once.

use std::ops::Range;

use threadfold_fold::Timestamp;

use super::Malformed;
use super::number::{Reader, write, write_signed};
use super::seal;

/// A row of one session among those of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DirectoryEntry {
    /// The session's number.
    pub(crate) session: u64,
    pub(crate) first: u64,
    pub(crate) count: u64,
    pub(crate) latest: Timestamp,
    /// Where the row is.
    pub(crate) range: Range<usize>,
}

impl DirectoryEntry {
    /// Returns its last record.
    pub(crate) fn last(&self) -> u64 {
        self.first.saturating_add(self.count).saturating_sub(1)
    }
}

const PLACE: &[u8] = b"directory";

/// Packs a directory; the rows follow each other without a gap.
pub(crate) fn pack_directory(entries: &[DirectoryEntry]) -> Vec<u8> {
    let mut out = Vec::with_capacity(entries.len() * 16);
    for entry in entries {
        write(&mut out, entry.session);
        write(&mut out, entry.first);
        write(&mut out, entry.count);
        write_signed(&mut out, entry.latest.0);
        write(&mut out, entry.range.len() as u64);
    }
    seal::add(&mut out, PLACE);
    out
}

/// Returns the entries of a directory.
pub(crate) fn unpack_directory(packed: &[u8]) -> Result<Vec<DirectoryEntry>, Malformed> {
    let mut reader = Reader::new(seal::remove(packed, PLACE)?);
    let mut entries = Vec::new();
    let mut start = 0_usize;
    while !reader.is_at_end() {
        let session = reader.number()?;
        let first = reader.number()?;
        let count = reader.number()?;
        let latest = Timestamp(reader.signed()?);
        let end = start.checked_add(reader.length()?).ok_or(Malformed("a row has no end"))?;
        entries.push(DirectoryEntry { session, first, count, latest, range: start..end });
        start = end;
    }
    Ok(entries)
}
