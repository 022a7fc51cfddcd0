//! Splits bytes into lines: a whole slice, or chunks of a stream.
//!
//! A line is bytes and not text, so that one invalid byte never hides the lines after it.
//! [`recover`](crate::recover) handles corrupt lines.

mod buffer;

pub use buffer::{LineBuffer, LineOrLoss, Position};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

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
