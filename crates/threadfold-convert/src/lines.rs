//! Splits bytes into lines.
//!
//! A line is bytes and not text, so that one invalid byte never hides the lines after it.
//! [`recover`](crate::recover) handles corrupt lines.

use serde::{Deserialize, Serialize};
use threadfold_core::BlockId;

use crate::corrupt_lines::LINE;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A position between two lines, from which reading can continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// How many bytes precede it.
    pub offset: u64,
    /// The number of the next line, from 1.
    pub number: u64,
}

impl Position {
    fn after_line(self, length: usize) -> Self {
        Self { offset: self.offset + length as u64, number: self.number + 1 }
    }
}

impl Default for Position {
    fn default() -> Self {
        Self { offset: 0, number: 1 }
    }
}

/// A line that holds more than white space, and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The line's number, from 1; blank lines count too.
    pub number: u64,
    /// The offset of its first byte.
    pub offset: u64,
    /// Its content, without the line end.
    pub bytes: &'a [u8],
}

/// Returns the lines of `bytes`, except blank ones.
///
/// A line ends with `\n` or `\r\n`; the last may lack it. A byte order mark at the beginning
/// belongs to no line.
///
/// ```
/// use threadfold_convert::lines::lines;
///
/// let found: Vec<_> = lines(b"{}\r\n\n[]").map(|it| (it.number, it.offset, it.bytes)).collect();
/// assert_eq!(found, [(1, 0, &b"{}"[..]), (3, 5, b"[]")]);
/// ```
pub fn lines(bytes: &[u8]) -> impl Iterator<Item = Line<'_>> {
    let mut position = Position::default();
    let mut rest = bytes;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let end = memchr::memchr(b'\n', rest);
            let (raw, after) = match end {
                Some(end) => (&rest[..end], &rest[end + 1..]),
                None => (rest, &rest[rest.len()..]),
            };
            let line = line_at(position, raw);
            position = position.after_line(rest.len() - after.len());
            rest = after;
            if line.is_some() {
                return line;
            }
        }
        None
    })
}

/// Returns `raw`, with or without its line end, as a line; nothing if it is blank.
///
/// ```
/// use threadfold_convert::lines::{Position, line};
///
/// assert_eq!(line(Position::default(), b"{}\r\n").map(|it| it.bytes), Some(&b"{}"[..]));
/// ```
pub fn line(position: Position, raw: &[u8]) -> Option<Line<'_>> {
    line_at(position, raw.strip_suffix(b"\n").unwrap_or(raw))
}

/// Returns `raw`, the bytes before the `\n`, as a line; nothing if it is blank.
fn line_at(position: Position, raw: &[u8]) -> Option<Line<'_>> {
    let mark = mark_length(position, raw);
    let bytes = &raw[mark..];
    let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    if bytes.trim_ascii_start().is_empty() {
        return None;
    }
    Some(Line { number: position.number, offset: position.offset + mark as u64, bytes })
}

/// Returns the length of the byte order mark of `raw`; only the first line can have one.
fn mark_length(position: Position, raw: &[u8]) -> usize {
    match position.offset {
        0 if raw.starts_with(BYTE_ORDER_MARK) => BYTE_ORDER_MARK.len(),
        _ => 0,
    }
}

/// Returns whether an id consists of a line's number, because the line names nothing itself.
pub fn is_named_by_line(id: &BlockId) -> bool {
    id.as_str().strip_prefix(LINE).is_some_and(|rest| rest.starts_with(':'))
}
