//! Records: the entries of a log, exactly as their source delivered them.

use std::ops::Deref;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// A time of receipt: milliseconds since 1970, in UTC.
///
/// It is stored for people to read. Nothing is ordered by it, because clocks jump.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Returns the time `duration` later.
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Returns the time `duration` earlier.
    pub fn before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Returns the time since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        let milliseconds = self.0.saturating_sub(earlier.0);
        Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0))
    }
}

/// The kind of a record, which is known without reading its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RecordKind {
    /// The declaration of a source, which later records refer to by its number.
    Source,
    /// A line of a source, with its line end.
    Line,
    /// A whole file; a later document of the same source replaces it.
    Document,
    /// The beginning of an incomplete line; the whole line may follow, at the same position.
    Partial,
    /// A piece of a line that is too long for one record; more pieces follow.
    Piece,
    /// The last piece of such a line.
    LastPiece,
    /// The end of a source: nothing more will come from it.
    End,
    /// An event of Threadfold itself, for example from the server that runs the agent.
    Event,
    /// A command to a session's slices: dispatch, seed, clear or restore.
    Slice,
    /// An event that our own agent loop wrote under its lease. Only such records make a ledger,
    /// and nothing that is read from a file, a pipe or a server becomes one.
    Loop,
    /// A person's decision to continue a run from the turns that the log reports so far, although
    /// no loop here wrote them.
    Trust,
    /// An event that only a follower of the session can observe: its server became ready, its
    /// transcript changed. It is about no source, and no conversation, ledger or original file
    /// contains it.
    Observation,
    /// A kind that a newer version wrote; it is stored and ignored.
    Other(u8),
}

impl RecordKind {
    /// Returns its number in a store. Numbers never change, because stored logs contain them.
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
            Self::Loop => 10,
            Self::Trust => 11,
            Self::Observation => 12,
            Self::Other(code) => code,
        }
    }

    /// Returns the kind with this number.
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
            10 => Self::Loop,
            11 => Self::Trust,
            12 => Self::Observation,
            code => Self::Other(code),
        }
    }

    /// Returns true if only the loop that runs a session may write it.
    pub fn is_of_loop(self) -> bool {
        matches!(self, Self::Loop | Self::Trust)
    }

    /// Returns its name for people.
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
            Self::Loop => "loop",
            Self::Trust => "trust",
            Self::Observation => "observation",
            Self::Other(_) => "unknown",
        }
    }
}

/// A piece of a source, exactly as it was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its kind.
    pub kind: RecordKind,
    /// The number of its source in the session; 0 for none.
    pub source: u32,
    /// The offset of its first byte in that source.
    pub position: u64,
    /// When it was received. Nothing is ordered by it, and no state depends on it.
    pub received: Timestamp,
    /// Its content.
    pub bytes: Bytes,
}

impl Record {
    /// Returns a record without a time of receipt: the session sets it when it accepts the record.
    pub fn new(kind: RecordKind, source: u32, position: u64, bytes: impl Into<Bytes>) -> Self {
        Self { kind, source, position, received: Timestamp::default(), bytes: bytes.into() }
    }

    /// Returns a record of the loop, with the mark that authenticates it.
    pub fn of_loop(kind: RecordKind, json: impl Into<String>, mark: Option<&str>) -> Self {
        // The mark is appended in place: an answer may be large.
        let mut text = json.into();
        if let Some(mark) = mark {
            text.push('\n');
            text.push_str(mark);
        }
        Self::new(kind, 0, 0, text)
    }

    /// Returns the content of a record of the loop, and its mark.
    pub fn content_and_mark(&self) -> (&[u8], Option<&[u8]>) {
        // JSON on one line has no line end, so the first one separates the mark.
        match self.bytes.iter().position(|byte| *byte == b'\n') {
            Some(at) => (&self.bytes[..at], Some(&self.bytes[at + 1..])),
            None => (&self.bytes, None),
        }
    }

    /// Returns the record at `seq` in a log.
    pub fn at(self, seq: u64) -> StoredRecord {
        StoredRecord { seq, record: self }
    }
}

/// A record in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecord {
    /// Its position in the log, from 1 without gaps.
    pub seq: u64,
    /// The record.
    pub record: Record,
}

impl Deref for StoredRecord {
    type Target = Record;

    fn deref(&self) -> &Record {
        &self.record
    }
}
