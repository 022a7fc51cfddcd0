//! Stored snapshots: the JSON, and behind it an outline by which a session is opened without
//! reading the rest.
//!
//! ```text
//! JSON of the snapshot │ a row per block │ a hash per block │ outline, as JSON │ footer
//! ```
//!
//! Rows and hashes stand in the order of the blocks, and the outline, which is different each time,
//! behind them: so most pieces of a snapshot are pieces of the one before as well.

use serde::{Deserialize, Serialize};
use threadfold_core::{SessionEvent, SessionId, StateOutline};

use crate::cursor::LogId;

/// What is known of a stored snapshot before its text is read.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotOutline {
    /// The id of the log.
    pub log_id: LogId,
    /// The version of converters and reducer that produced it.
    pub generation: u32,
    /// The sequence number of the last record in it.
    pub seq: u64,
    /// The hash of the conversation.
    pub state_hash: String,
    /// Where the JSON of the conversation begins.
    pub conversation: u64,
    /// Its outline.
    pub state: StateOutline,
    /// The memory of the converter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub converter: Option<ConverterPlace>,
    /// All other slices.
    pub slices: Vec<TextRange>,
    /// The events that follow if every source ends here, if they were determined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settling: Option<Vec<SessionEvent>>,
}

/// Where the item of the converter's slice is, and what is asked of a converter before it is used.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ConverterPlace {
    /// The name of its agent.
    pub agent: String,
    /// The session's id in the agent's records.
    pub session: Option<SessionId>,
    /// The item.
    pub item: TextRange,
}

/// A range of a snapshot's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextRange {
    /// Where it begins.
    pub place: u64,
    /// How many bytes it has.
    pub length: u64,
}

impl TextRange {
    /// Returns the range between two places.
    pub fn between(place: u64, end: u64) -> Self {
        Self { place, length: end.saturating_sub(place) }
    }
}

/// Where the parts of a stored snapshot are. It is the last that is written, and the first that is
/// read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotFooter {
    /// Where the JSON ends and the rows begin.
    pub rows: u64,
    /// Where the rows end and the hashes begin.
    pub hashes: u64,
    /// Where the hashes end and the outline begins.
    pub outline: u64,
    /// Where the outline ends and the footer begins.
    pub end: u64,
}

/// No JSON ends with it.
const MAGIC: [u8; 8] = *b"\0tfoutl1";

impl SnapshotFooter {
    /// How many bytes it has.
    pub const SIZE: usize = 40;

    /// Returns it as bytes.
    pub fn to_bytes(self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        let places = [self.rows, self.hashes, self.outline, self.end];
        for (place, bytes) in places.into_iter().zip(bytes.chunks_mut(8)) {
            bytes.copy_from_slice(&place.to_le_bytes());
        }
        bytes[32..].copy_from_slice(&MAGIC);
        bytes
    }

    /// Reads it from the last bytes of a stored snapshot of this length; `None` if the snapshot has
    /// no outline, as those of older versions.
    pub fn read(last: &[u8], length: u64) -> Option<Self> {
        let bytes: &[u8; Self::SIZE] = last.last_chunk()?;
        let (numbers, magic) = bytes.split_at(32);
        let mut numbers = numbers.as_chunks::<8>().0.iter().map(|it| u64::from_le_bytes(*it));
        let mut next = || numbers.next().unwrap_or_default();
        let footer = Self { rows: next(), hashes: next(), outline: next(), end: next() };
        let is_ordered = footer.rows <= footer.hashes
            && footer.hashes <= footer.outline
            && footer.outline <= footer.end
            && footer.end.checked_add(Self::SIZE as u64) == Some(length);
        (magic == MAGIC && is_ordered).then_some(footer)
    }

    /// Returns the JSON of a stored snapshot, with or without an outline behind it.
    pub fn json_of(snapshot: &[u8]) -> &[u8] {
        let footer = Self::read(snapshot, snapshot.len() as u64);
        let end = footer.and_then(|it| usize::try_from(it.rows).ok()).unwrap_or(snapshot.len());
        &snapshot[..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_stored_snapshot_are_found_by_its_end() {
        let footer = SnapshotFooter { rows: 2, hashes: 3, outline: 4, end: 6 };
        let mut stored = b"{}rhoo".to_vec();
        stored.extend(footer.to_bytes());
        assert_eq!(SnapshotFooter::read(&stored, stored.len() as u64), Some(footer));
        assert_eq!(SnapshotFooter::json_of(&stored), b"{}");
        assert_eq!(SnapshotFooter::json_of(b"{}"), b"{}", "of an older version");
        assert_eq!(SnapshotFooter::read(&stored, stored.len() as u64 + 1), None);
        stored[6] = 9;
        assert_eq!(SnapshotFooter::read(&stored, stored.len() as u64), None, "out of order");
    }
}
