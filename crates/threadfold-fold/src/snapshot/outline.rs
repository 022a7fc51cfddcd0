//! Stored snapshots: the JSON, and behind it an outline by which a session is opened without
//! reading the rest.
//!
//! ```text
//! JSON of the snapshot │ rows │ a hash per block │ index │ outline, as JSON │ table of pieces │ footer
//! ```
//!
//! Rows, hashes and index stand in the order of the blocks, and the outline, which is different each
//! time, behind them: so most pieces of a snapshot are pieces of the one before as well.

use serde::{Deserialize, Serialize};
use threadfold_core::{Json, SessionEvent, SessionId, StateOutline};

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
    /// The metadata of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<MetadataPlace>,
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

/// Where the item of the metadata's slice is, and what is shown of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MetadataPlace {
    /// What is shown, see `SessionMetadata::head`.
    pub head: Json,
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
    /// Where the hashes end and the index begins.
    pub index: u64,
    /// Where the index ends and the outline begins.
    pub outline: u64,
    /// Where the outline ends and the table of pieces begins.
    pub end: u64,
    /// How many pieces there are before the table.
    pub pieces: u64,
}

/// No JSON ends with it.
const MAGIC: [u8; 8] = *b"\0tfoutl2";
/// The end of a snapshot of the version before, whose outline is not read any more.
const MAGIC_BEFORE: [u8; 8] = *b"\0tfoutl1";
/// How many bytes the footer of the version before has.
const SIZE_BEFORE: usize = 40;

impl SnapshotFooter {
    /// How many bytes it has.
    pub const SIZE: usize = 56;

    /// Returns it as bytes.
    pub fn to_bytes(self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        let Self { rows, hashes, index, outline, end, pieces } = self;
        let numbers = [rows, hashes, index, outline, end, pieces];
        for (number, bytes) in numbers.into_iter().zip(bytes.chunks_mut(8)) {
            bytes.copy_from_slice(&number.to_le_bytes());
        }
        bytes[48..].copy_from_slice(&MAGIC);
        bytes
    }

    /// Reads it from the last bytes of a stored snapshot; `None` if the snapshot has no outline, or
    /// one of an older version.
    pub fn read(last: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::SIZE] = last.last_chunk()?;
        let (numbers, magic) = bytes.split_at(48);
        let [rows, hashes, index, outline, end, pieces] = numbers.as_chunks::<8>().0 else {
            return None;
        };
        let number = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
        let footer = Self {
            rows: number(rows),
            hashes: number(hashes),
            index: number(index),
            outline: number(outline),
            end: number(end),
            pieces: number(pieces),
        };
        let Self { rows, hashes, index, outline, end, .. } = footer;
        let is_ordered = [rows, hashes, index, outline, end].is_sorted();
        (magic == MAGIC && is_ordered).then_some(footer)
    }

    /// Returns the JSON of a stored snapshot, with or without an outline behind it.
    pub fn json_of(snapshot: &[u8]) -> &[u8] {
        let end = match Self::read(snapshot) {
            Some(footer) => Some(footer.rows),
            None => json_before(snapshot),
        };
        let end = end.and_then(|it| usize::try_from(it).ok()).unwrap_or(snapshot.len());
        snapshot.get(..end).unwrap_or(snapshot)
    }
}

/// Returns where the JSON ends in a snapshot of the version before.
fn json_before(snapshot: &[u8]) -> Option<u64> {
    let footer: &[u8; SIZE_BEFORE] = snapshot.last_chunk()?;
    let (end, _) = footer.split_first_chunk::<8>()?;
    footer.ends_with(&MAGIC_BEFORE).then(|| u64::from_le_bytes(*end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_stored_snapshot_are_found_by_its_end() {
        let footer = SnapshotFooter { rows: 2, hashes: 3, index: 4, outline: 5, end: 7, pieces: 1 };
        let mut stored = b"{}rhioo".to_vec();
        stored.extend(footer.to_bytes());
        assert_eq!(SnapshotFooter::read(&stored), Some(footer));
        assert_eq!(SnapshotFooter::json_of(&stored), b"{}");
        stored[7] = 9;
        assert_eq!(SnapshotFooter::read(&stored), None, "out of order");
    }

    #[test]
    fn the_json_of_older_snapshots_is_found() {
        assert_eq!(SnapshotFooter::json_of(b"{}"), b"{}");
        let mut stored = b"{}rhoo".to_vec();
        for place in [2_u64, 3, 4, 6] {
            stored.extend(place.to_le_bytes());
        }
        stored.extend(b"\0tfoutl1");
        assert_eq!(SnapshotFooter::read(&stored), None);
        assert_eq!(SnapshotFooter::json_of(&stored), b"{}");
    }
}
