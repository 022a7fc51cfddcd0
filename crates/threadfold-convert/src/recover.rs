//! Records out of a damaged line.
//!
//! A line is damaged when two writers wrote at once, when a machine died, when a disk filled up.
//! What it held is then a fragment, and before or after it stand whole records. This file finds
//! them by where the fragment stops being JSON: a record that was spliced in cannot stand where
//! it does, so the scan of the fragment breaks at its first byte, or, when the fragment ended
//! inside a string, right after its first quote.
//!
//! A piece of content inside a fragment is a whole object as well, and must not pass for a
//! record. What stands before and after it tells the two apart, and so do its keys: a record
//! has a `type`, and an identity or a time of its own. One case cannot be told: a fragment that
//! ends right after an object with all of these, as the progress of a subagent has one inside.
//! It is then taken for a record that was spliced in.
//!
//! The cost is linear in the line: a scan that broke is not repeated from its next `{"`, but
//! goes on where it broke. Each byte is scanned at most a few times, whatever the line holds.

mod find;
mod scan;

use std::fmt;
use std::ops::Range;

use crate::recover::find::Finder;
use crate::recover::scan::{Scan, is_space, scan};

/// A piece of a line: all that is recovered and all that is lost, in the order of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// One whole JSON object, as it stands.
    Record(&'a str),
    /// Bytes in which no record was found.
    Lost {
        /// What is lost, without the white space around it.
        bytes: &'a [u8],
        /// What is wrong with it.
        why: Damage,
        /// How many bytes of the line stand before it.
        offset: usize,
    },
}

/// What is wrong with bytes that are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// They are not text.
    NotUtf8,
    /// They are zero bytes, as a machine that died leaves them.
    NulRun,
    /// They are not JSON: a record that was torn, or a fragment of one.
    NotJson,
    /// They are JSON, but not an object, and every record is one.
    NotAnObject,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotUtf8 => "not UTF-8",
            Self::NulRun => "a run of zero bytes",
            Self::NotJson => "not whole JSON",
            Self::NotAnObject => "JSON, but not an object",
        })
    }
}

/// Returns the line as text, if it is text; whether that is a record, the caller's parser says.
///
/// This is the fast way for the many lines that are whole; [`records`] is for the others.
pub fn as_text(line: &[u8]) -> Option<&str> {
    simdutf8::basic::from_utf8(line).ok()
}

/// Returns the records that stand on `line`, and what is lost between them.
///
/// Every byte is in a piece, or is white space or a comma between two pieces. No input makes it
/// panic or recurse, and the time is linear in the line's length.
///
/// ```
/// use threadfold_convert::recover::{Damage, Piece, records};
///
/// let spliced = br#"{"type":"assistant","message":{"con{"type":"user","uuid":"7"}"#;
/// let pieces: Vec<_> = records(spliced).collect();
/// assert_eq!(
///     pieces,
///     [
///         Piece::Lost { bytes: &spliced[..35], why: Damage::NotJson, offset: 0 },
///         Piece::Record(r#"{"type":"user","uuid":"7"}"#),
///     ]
/// );
/// ```
pub fn records(line: &[u8]) -> Records<'_> {
    Records { line, given: 0, gap_end: 0, found: None, finder: Finder::new(line) }
}

/// The pieces of a line; see [`records`].
#[derive(Clone, Debug)]
pub struct Records<'a> {
    line: &'a [u8],
    /// All before this was given.
    given: usize,
    /// All from `given` up to this is lost.
    gap_end: usize,
    /// The record that comes after the gap.
    found: Option<Range<usize>>,
    finder: Finder<'a>,
}

impl<'a> Iterator for Records<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        loop {
            if let Some(lost) = self.next_loss() {
                return Some(lost);
            }
            if let Some(found) = self.found.take() {
                self.given = found.end;
                self.gap_end = found.end;
                return Some(self.piece(found));
            }
            if self.given == self.line.len() {
                return None;
            }
            self.found = self.finder.find(self.given);
            self.gap_end = self.found.as_ref().map_or(self.line.len(), |it| it.start);
        }
    }
}

impl<'a> Records<'a> {
    /// Returns the next piece of the gap; a run of zero bytes is a piece of its own.
    fn next_loss(&mut self) -> Option<Piece<'a>> {
        while self.given < self.gap_end {
            let rest = &self.line[self.given..self.gap_end];
            let is_nul = rest[0] == 0;
            let length = rest.iter().position(|it| (*it == 0) != is_nul).unwrap_or(rest.len());
            let part = self.given..self.given + length;
            self.given = part.end;
            if is_nul {
                return Some(self.lost(part, Damage::NulRun));
            }
            if let Some(part) = trimmed(self.line, part) {
                let why = damage(&self.line[part.clone()]);
                return Some(self.lost(part, why));
            }
        }
        None
    }

    fn piece(&self, found: Range<usize>) -> Piece<'a> {
        match as_text(&self.line[found.clone()]) {
            Some(record) => Piece::Record(record),
            None => self.lost(found, Damage::NotUtf8),
        }
    }

    fn lost(&self, part: Range<usize>, why: Damage) -> Piece<'a> {
        Piece::Lost { offset: part.start, bytes: &self.line[part], why }
    }
}

/// Returns a part of the line without the white space around it, unless it only separates.
fn trimmed(line: &[u8], part: Range<usize>) -> Option<Range<usize>> {
    let bytes = &line[part.clone()];
    if bytes.iter().all(|it| is_space(*it) || *it == b',') {
        return None;
    }
    let first = bytes.iter().position(|it| !is_space(*it))?;
    let last = bytes.iter().rposition(|it| !is_space(*it))?;
    Some(part.start + first..part.start + last + 1)
}

fn damage(bytes: &[u8]) -> Damage {
    if as_text(bytes).is_none() {
        return Damage::NotUtf8;
    }
    match scan(bytes, 0) {
        Scan::Whole { end, .. } if end == bytes.len() && bytes[0] != b'{' => Damage::NotAnObject,
        _ => Damage::NotJson,
    }
}
