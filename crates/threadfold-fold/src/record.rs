//! What a log holds.

use std::ops::Deref;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// A time of receipt: milliseconds since 1970, in UTC.
///
/// It is kept beside the record for people to look at. Nothing is ordered by it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Returns the time this much later.
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Returns the time this much earlier.
    pub fn before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Returns how long after `earlier` this is; zero if it is not after it.
    pub fn since(self, earlier: Self) -> Duration {
        let milliseconds = self.0.saturating_sub(earlier.0);
        Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0))
    }
}

/// What a record is, so that one can tell without looking into its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RecordKind {
    /// A source that the records after it name by its number; the bytes describe it.
    Source,
    /// A line of a source, with its line end.
    Line,
    /// A whole file that is one record; a later one of the same source takes its place.
    Document,
    /// The beginning of a line whose end was not there yet; the whole line may follow, from the
    /// same position.
    Partial,
    /// A piece of a line that is too long to be one record; more follow.
    Piece,
    /// The last piece of such a line.
    LastPiece,
    /// The source is at its end: nothing more will come from it.
    End,
    /// An event in its own form, from the server or a loop of ours.
    Event,
    /// A word to a session's slices: something dispatched, seeded, cleared or restored.
    Slice,
    /// A kind of a newer program.
    Other(u8),
}

impl RecordKind {
    /// Returns the number that stands for it in a store.
    pub fn code(self) -> u8 {
        match self {
            Self::Source => 1,
            Self::Line => 2,
            Self::Document => 3,
            Self::Partial => 4,
            Self::Piece => 5,
            Self::LastPiece => 6,
            Self::End => 7,
            Self::Event => 8,
            Self::Slice => 9,
            Self::Other(code) => code,
        }
    }

    /// Returns the kind that a number stands for.
    pub fn from_code(code: u8) -> Self {
        match code {
            1 => Self::Source,
            2 => Self::Line,
            3 => Self::Document,
            4 => Self::Partial,
            5 => Self::Piece,
            6 => Self::LastPiece,
            7 => Self::End,
            8 => Self::Event,
            9 => Self::Slice,
            code => Self::Other(code),
        }
    }

    /// Returns its name, as people are shown it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Line => "line",
            Self::Document => "document",
            Self::Partial => "partial",
            Self::Piece => "piece",
            Self::LastPiece => "last piece",
            Self::End => "end",
            Self::Event => "event",
            Self::Slice => "slice",
            Self::Other(_) => "unknown",
        }
    }
}

/// What came from a source, exactly as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What it is.
    pub kind: RecordKind,
    /// The source it came from, by its number in the session; 0 for none.
    pub source: u32,
    /// The offset of its first byte in that source.
    pub position: u64,
    /// When it was received. Nothing is ordered by it, and no state depends on it.
    pub received: Timestamp,
    /// What came, exactly.
    pub bytes: Bytes,
}

impl Record {
    /// Returns a record that was not received yet: the session stamps it when it accepts it.
    pub fn new(kind: RecordKind, source: u32, position: u64, bytes: impl Into<Bytes>) -> Self {
        Self { kind, source, position, received: Timestamp::default(), bytes: bytes.into() }
    }

    /// Returns the record as a log has it at `seq`.
    pub fn at(self, seq: u64) -> StoredRecord {
        StoredRecord { seq, record: self }
    }
}

/// A record in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecord {
    /// Its place in the log, from 1 without a gap.
    pub seq: u64,
    /// What came.
    pub record: Record,
}

impl Deref for StoredRecord {
    type Target = Record;

    fn deref(&self) -> &Record {
        &self.record
    }
}
