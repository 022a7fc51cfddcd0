//! Recovers records from a corrupt line.
//!
//! A line becomes corrupt when two processes write at once, a machine crashes, or a disk is full.
//! It then holds a fragment of one record, with complete records before or after it. They are found
//! where the fragment stops being valid JSON: a spliced record is a syntax error at its first byte,
//! or, if the fragment ended inside a string, right after its first quote.
//!
//! Content inside a fragment can be a complete object too, and must not be taken for a record. The
//! bytes before and after it decide, and so do its keys: a record has a `type`, and an id or a time
//! of its own. One case stays ambiguous: a fragment that ends right after an object with all of
//! these, such as a subagent's progress. That object is taken for a spliced record.
//!
//! The cost is linear in the length of the line: after a syntax error the scan continues there, and
//! not at the next `{"` after its start. Each byte is scanned at most a few times.

mod find_records;
mod scan;

use std::fmt;
use std::ops::Range;

use crate::recover::find_records::{Finder, Prefix, Suffix};
use crate::recover::scan::{Keys, Scan, is_space, scan};

/// A piece of a line: a recovered record or lost bytes, in the order of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// One complete JSON object.
    Record(&'a str),
    /// Bytes without a record.
    Lost {
        /// The lost bytes, without surrounding white space.
        bytes: &'a [u8],
        /// What is wrong with it.
        why: Damage,
        /// The offset of the bytes in the line.
        offset: usize,
    },
}

/// What is wrong with bytes that are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// They are not UTF-8.
    NotUtf8,
    /// They are zero bytes, as a file system leaves them after a crash.
    NulRun,
    /// They are not JSON: a truncated record, or a fragment of one.
    NotJson,
    /// They are JSON, but not an object, and every record is one.
    NotAnObject,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotUtf8 => "not UTF-8",
            Self::NulRun => "a run of zero bytes",
            Self::NotJson => "not valid JSON",
            Self::NotAnObject => "JSON, but not an object",
        })
    }
}

/// Returns the line as text, if it is UTF-8.
///
/// This is the fast path for intact lines, whose JSON the caller parses; [`records`] is for the
/// others.
pub fn as_text(line: &[u8]) -> Option<&str> {
    simdutf8::basic::from_utf8(line).ok()
}

/// Returns the records on `line`, and the lost bytes between them.
///
/// Every byte is in a piece, or is white space or a comma between two pieces. No input causes a
/// panic or recursion, and the time is linear in the length of the line.
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
    Records { line, done: 0, gap_end: 0, found: None, finder: Finder::new(line) }
}

/// The pieces of a line; see [`records`].
#[derive(Clone, Debug)]
pub struct Records<'a> {
    line: &'a [u8],
    /// The end of the last piece that was returned.
    done: usize,
    /// Everything from `done` up to this is lost.
    gap_end: usize,
    /// The record after the gap.
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
                self.done = found.end;
                self.gap_end = found.end;
                return Some(self.piece(found));
            }
            if self.done == self.line.len() {
                return None;
            }
            self.found = self.finder.find(self.done);
            self.gap_end = self.found.as_ref().map_or(self.line.len(), |it| it.start);
        }
    }
}

impl<'a> Records<'a> {
    /// Returns the next piece of the gap; a run of zero bytes is a separate piece.
    fn next_loss(&mut self) -> Option<Piece<'a>> {
        while self.done < self.gap_end {
            let rest = &self.line[self.done..self.gap_end];
            let is_nul = rest[0] == 0;
            let length = rest.iter().position(|it| (*it == 0) != is_nul).unwrap_or(rest.len());
            let part = self.done..self.done + length;
            self.done = part.end;
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

/// Returns whether a complete object is a record, by the bytes before and after it and its keys.
///
/// The less the bytes around it prove, the more its keys must prove.
fn is_record(before: Prefix, after: Suffix, keys: Keys) -> bool {
    match (before, after) {
        (Prefix::Intact, Suffix::End) => true,
        (Prefix::Intact, Suffix::Noise) => keys.any,
        (Prefix::Intact, Suffix::Rest) => keys.typed && keys.signed,
        (Prefix::Splice, Suffix::End) => true,
        (Prefix::Splice, Suffix::Noise | Suffix::Rest) => keys.typed,
        (Prefix::Between, Suffix::End | Suffix::Noise) => keys.typed,
        (Prefix::Inside, Suffix::End | Suffix::Noise) => keys.typed && keys.signed,
        (Prefix::Between | Prefix::Inside, Suffix::Rest) => false,
    }
}

/// Returns a part of the line without surrounding white space; nothing if it is only a separator.
fn trimmed(line: &[u8], part: Range<usize>) -> Option<Range<usize>> {
    let bytes = &line[part.clone()];
    if bytes.iter().all(|it| is_space(*it) || *it == b',') {
        return None;
    }
    let first = bytes.iter().position(|it| !is_space(*it))?;
    let last = bytes.iter().rposition(|it| !is_space(*it))?;
    Some(part.start + first..part.start + last + 1)
}

/// Returns what is wrong with bytes that are not a record.
fn damage(bytes: &[u8]) -> Damage {
    if as_text(bytes).is_none() {
        return Damage::NotUtf8;
    }
    match scan(bytes, 0) {
        Scan::Whole { end, .. } if end == bytes.len() && bytes[0] != b'{' => Damage::NotAnObject,
        _ => Damage::NotJson,
    }
}
