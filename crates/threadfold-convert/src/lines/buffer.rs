//! Splits chunks of a stream into lines, for growing files and running processes.
//!
//! The buffer holds at most one incomplete line, and never more than its limit, so that a line
//! without an end does not exhaust memory.

use serde::{Deserialize, Serialize};

use super::{Line, line_at, mark_length};

const DEFAULT_LIMIT: usize = 64 << 20;
/// How many bytes of an oversized line are kept.
const HEAD: usize = 4 << 10;
/// How much memory is kept between lines; a single long line must not pin its memory forever.
const SPARE: usize = 1 << 20;

/// A position between two lines, from which reading can resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The number of bytes before it.
    pub offset: u64,
    /// The number of the next line, from 1.
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

/// A line, or the report that one exceeded the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineOrLoss<'a> {
    /// A line that holds more than white space.
    Line(Line<'a>),
    /// A line over the limit, whatever its content.
    TooLong {
        /// The line's number, from 1.
        number: u64,
        /// The offset of its first byte.
        offset: u64,
        /// Its length in bytes, without the line end.
        length: u64,
        /// Its first bytes: at most 4 KiB, and at most the limit.
        head: &'a [u8],
    },
}

/// Splits chunks into the lines that [`lines`](super::lines) returns for the whole input.
///
/// A line is passed on when its end arrives. The lines do not depend on the boundaries of chunks.
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
    /// The beginning of the incomplete line.
    position: Position,
    /// The incomplete line, or its first bytes once it exceeds the limit.
    kept: Vec<u8>,
    /// How many bytes of the incomplete line have arrived.
    length: u64,
    /// The last of them is `\r`, which may be half of the line end.
    ends_with_return: bool,
}

impl Default for LineBuffer {
    /// Returns a buffer for lines of at most 64 MiB.
    fn default() -> Self {
        Self::with_limit(DEFAULT_LIMIT)
    }
}

impl LineBuffer {
    /// Returns a buffer for lines of at most `bytes`, counting everything before the `\n`.
    pub fn with_limit(bytes: usize) -> Self {
        Self {
            limit: bytes,
            position: Position::default(),
            kept: Vec::new(),
            length: 0,
            ends_with_return: false,
        }
    }

    /// Returns a buffer that resumes at `position`: the next byte pushed is the one at
    /// `position.offset`.
    pub fn resume(position: Position) -> Self {
        Self { position, ..Self::default() }
    }

    /// Returns the position after the last complete line.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Returns how many bytes of memory the buffer has allocated; never more than its limit.
    pub fn capacity(&self) -> usize {
        self.kept.capacity()
    }

    /// Reads the next bytes, and passes on each line that they complete.
    pub fn push(&mut self, chunk: &[u8], mut each: impl FnMut(LineOrLoss<'_>)) {
        let mut rest = chunk;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let raw = &rest[..end];
            if self.length == 0 && raw.len() <= self.limit {
                // The whole line is in this chunk, so it is not copied.
                pass_on(line_at(self.position, raw), &mut each);
                self.position = self.position.after_line(end + 1);
            } else {
                self.keep(raw);
                self.end_line(1, &mut each);
            }
            rest = &rest[end + 1..];
        }
        self.keep(rest);
    }

    /// Passes on the last line, if it lacks its end.
    ///
    /// Bytes pushed afterwards begin a new line. Do not call this for a file that may still grow:
    /// its writer may be in the middle of a line.
    pub fn finish(&mut self, mut each: impl FnMut(LineOrLoss<'_>)) {
        if self.length > 0 {
            self.end_line(0, &mut each);
        }
    }

    /// Appends `bytes` to the incomplete line.
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

    /// Reserves room for `more` bytes: doubles the capacity, but never beyond the limit.
    fn reserve(&mut self, more: usize) {
        let wanted = self.kept.len() + more;
        if wanted > self.kept.capacity() {
            let room = wanted.max(self.kept.capacity().saturating_mul(2)).min(self.limit);
            self.kept.reserve_exact(room - self.kept.len());
        }
    }

    /// Passes on the incomplete line, which ends here with `terminator` more bytes.
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
            pass_on(line_at(self.position, &self.kept), each);
        }
        self.position.offset += length + terminator;
        self.position.number += 1;
        self.kept.clear();
        self.kept.shrink_to(SPARE);
        self.length = 0;
        self.ends_with_return = false;
    }
}

fn pass_on(line: Option<Line<'_>>, each: &mut impl FnMut(LineOrLoss<'_>)) {
    if let Some(line) = line {
        each(LineOrLoss::Line(line));
    }
}
