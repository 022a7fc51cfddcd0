//! The id of a log, and a client's position in one.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The id of one log, created with the log.
///
/// A session that was removed and imported again has another log id, so that old cursors do not
/// match the new log.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LogId(String);

impl LogId {
    /// Returns the id as text, as cursors contain it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for LogId {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for LogId {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A position in a log, for one generation of converters and reducer: `<log>.<generation>.<seq>`.
///
/// ```
/// use threadfold_fold::Cursor;
///
/// let cursor: Cursor = "l7f3a.1.42".parse()?;
/// assert_eq!((cursor.generation, cursor.seq), (1, 42));
/// assert_eq!(cursor.to_string(), "l7f3a.1.42");
/// # Ok::<(), threadfold_fold::CursorError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The log's id.
    pub log: LogId,
    /// The version of the converters and the reducer.
    pub generation: u32,
    /// The sequence number of the last record that the client has received.
    pub seq: u64,
}

/// The text is not a cursor. Start again from a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a cursor: expected `<log>.<generation>.<seq>`")]
pub struct CursorError {
    text: String,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.log, self.generation, self.seq)
    }
}

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            // From the right, because a log id may contain dots.
            let (rest, seq) = text.rsplit_once('.')?;
            let (log, generation) = rest.rsplit_once('.')?;
            // `parse` alone would accept a sign.
            let digits = |it: &str| it.bytes().all(|byte| byte.is_ascii_digit());
            if log.is_empty() || !digits(seq) || !digits(generation) {
                return None;
            }
            Some(Self {
                log: LogId::from(log),
                generation: generation.parse().ok()?,
                seq: seq.parse().ok()?,
            })
        };
        parse().ok_or_else(|| CursorError { text: text.to_owned() })
    }
}
