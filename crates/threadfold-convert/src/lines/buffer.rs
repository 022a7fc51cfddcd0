//! Lines out of bytes that come in chunks: a file that grows, a process that talks.
//!
//! The buffer holds at most one unfinished line, and never more than its limit, so that a line
//! without an end costs no memory.

use serde::{Deserialize, Serialize};

use super::{Line, line_at, mark_length};

const DEFAULT_LIMIT: usize = 64 << 20;
/// How much of a line that is too long is shown.
const HEAD: usize = 4 << 10;
/// How much memory is kept from one line to the next.
const SPARE: usize = 1 << 20;

/// A place between two lines, from which reading can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// How many bytes come before.
    pub offset: u64,
    /// Which line comes next, from 1.
    pub number: u64,
}

impl Position {
    pub(super) fn after_line(self, length: usize) -> Self {
        Self { offset: self.offset + length as u64, number: self.number + 1 }
    }
}

impl Default for Position {
    fn default() -> Self {
        Self { offset: 0, number: 1 }
    }
}

/// A line, or the notice that one could not be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineOrLoss<'a> {
    /// A line that holds more than white space.
    Line(Line<'a>),
    /// A line over the limit, whatever it held.
    TooLong {
        /// Which line this is, from 1.
        number: u64,
        /// How many bytes stand before its first.
        offset: u64,
        /// How many bytes it has, without the line end.
        length: u64,
        /// How it begins: at most 4 KiB, and at most the limit.
        head: &'a [u8],
    },
}

/// Cuts bytes that come in chunks into the lines that [`lines`](super::lines) would give.
///
/// A line is given when its end has come. However the bytes are cut into chunks, the same
/// lines come.
///
/// ```
/// use threadfold_convert::lines::{LineBuffer, LineOrLoss};
///
/// let mut found = Vec::new();
/// let mut each = |it: LineOrLoss<'_>| match it {
///     LineOrLoss::Line(line) => found.push(String::from_utf8_lossy(line.bytes).into_owned()),
///     LineOrLoss::TooLong { number, .. } => found.push(format!("line {number} is too long")),
/// };
/// let mut buffer = LineBuffer::with_limit(8);
/// buffer.push(b"{\"a\"", &mut each);
/// buffer.push(b":1}\n[\"far too long\"]\n{}", &mut each);
/// buffer.finish(&mut each);
/// assert_eq!(found, ["{\"a\":1}", "line 2 is too long", "{}"]);
/// ```
#[derive(Clone, Debug)]
pub struct LineBuffer {
    limit: usize,
    /// Where the unfinished line begins.
    position: Position,
    /// The unfinished line, or how it begins once it is over the limit.
    kept: Vec<u8>,
    /// How many bytes of the unfinished line have come.
    length: u64,
    /// Whether the last of them is `\r`, which may be half of the line's end.
    ends_with_return: bool,
}

impl Default for LineBuffer {
    /// Returns a buffer for lines of at most 64 MiB.
    fn default() -> Self {
        Self::with_limit(DEFAULT_LIMIT)
    }
}

impl LineBuffer {
    /// Returns a buffer for lines of at most `bytes`, everything before the `\n` counted.
    pub fn with_limit(bytes: usize) -> Self {
        Self {
            limit: bytes,
            position: Position::default(),
            kept: Vec::new(),
            length: 0,
            ends_with_return: false,
        }
    }

    /// Returns a buffer that goes on where another was: the next byte pushed is the one at
    /// `position.offset`.
    pub fn resume(position: Position) -> Self {
        Self { position, ..Self::default() }
    }

    /// Returns the place after the last line given: the beginning of the unfinished one.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Returns how many bytes of memory the buffer holds; never more than its limit.
    pub fn capacity(&self) -> usize {
        self.kept.capacity()
    }

    /// Takes the next bytes, and gives each line that they finish.
    pub fn push(&mut self, chunk: &[u8], mut each: impl FnMut(LineOrLoss<'_>)) {
        let mut rest = chunk;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let raw = &rest[..end];
            if self.length == 0 && raw.len() <= self.limit {
                // It came in one piece, and need not be copied.
                give(line_at(self.position, raw), &mut each);
                self.position = self.position.after_line(end + 1);
            } else {
                self.keep(raw);
                self.end_line(1, &mut each);
            }
            rest = &rest[end + 1..];
        }
        self.keep(rest);
    }

    /// Gives the last line, if it lacks its end.
    ///
    /// What is pushed afterwards begins a new line. Do not call this for a file that may still
    /// grow: its writer may be in the middle of a line.
    pub fn finish(&mut self, mut each: impl FnMut(LineOrLoss<'_>)) {
        if self.length > 0 {
            self.end_line(0, &mut each);
        }
    }

    /// Adds `bytes` to the unfinished line.
    fn keep(&mut self, bytes: &[u8]) {
        let Some(last) = bytes.last() else { return };
        self.ends_with_return = *last == b'\r';
        let was_kept = !self.is_too_long();
        self.length += bytes.len() as u64;
        if !self.is_too_long() {
            self.reserve(bytes.len());
            self.kept.extend_from_slice(bytes);
        } else if was_kept {
            let head = HEAD.min(self.limit);
            self.kept.truncate(head);
            self.kept.shrink_to(head);
            let missing = bytes.len().min(head - self.kept.len());
            self.kept.reserve_exact(missing);
            self.kept.extend_from_slice(&bytes[..missing]);
        }
    }

    fn is_too_long(&self) -> bool {
        self.length > self.limit as u64
    }

    /// Makes room for `more` bytes: twice as much as before, but never beyond the limit.
    fn reserve(&mut self, more: usize) {
        let wanted = self.kept.len() + more;
        if wanted > self.kept.capacity() {
            let room = wanted.max(self.kept.capacity().saturating_mul(2)).min(self.limit);
            self.kept.reserve_exact(room - self.kept.len());
        }
    }

    /// Gives the unfinished line, which ends here with `terminator` more bytes.
    fn end_line(&mut self, terminator: u64, each: &mut impl FnMut(LineOrLoss<'_>)) {
        let length = self.length;
        if self.is_too_long() {
            let mark = mark_length(self.position, &self.kept);
            each(LineOrLoss::TooLong {
                number: self.position.number,
                offset: self.position.offset + mark as u64,
                length: length - mark as u64 - u64::from(self.ends_with_return),
                head: &self.kept[mark..],
            });
        } else {
            give(line_at(self.position, &self.kept), each);
        }
        self.position.offset += length + terminator;
        self.position.number += 1;
        self.kept.clear();
        self.kept.shrink_to(SPARE);
        self.length = 0;
        self.ends_with_return = false;
    }
}

fn give(line: Option<Line<'_>>, each: &mut impl FnMut(LineOrLoss<'_>)) {
    if let Some(line) = line {
        each(LineOrLoss::Line(line));
    }
}
