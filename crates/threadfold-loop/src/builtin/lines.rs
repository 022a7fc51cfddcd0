//! Reads lines of a file of any size in bounded memory.

use std::io::BufRead;

use crate::tool::ToolError;

/// Reads lines, truncated to a maximum length.
pub(super) struct Lines<R> {
    reader: R,
    longest: usize,
}

/// A line, possibly truncated.
pub(super) struct Line<'a> {
    /// Its beginning, including the line end if it is within the limit.
    pub(super) bytes: &'a [u8],
    /// The number of bytes that were omitted.
    pub(super) omitted: u64,
}

impl<R: BufRead> Lines<R> {
    /// Returns a reader that truncates lines to `longest` bytes.
    pub(super) fn new(reader: R, longest: usize) -> Self {
        Self { reader, longest }
    }

    /// Reads the next line into `buffer`. Calls `each` before every read, so that it can stop.
    pub(super) fn next<'a>(
        &mut self,
        buffer: &'a mut Vec<u8>,
        mut each: impl FnMut() -> Result<(), ToolError>,
    ) -> Result<Option<Line<'a>>, ToolError> {
        buffer.clear();
        let mut omitted = 0;
        loop {
            each()?;
            let read = self.reader.fill_buf();
            let piece = read.map_err(|error| ToolError::failed(error.to_string()))?;
            if piece.is_empty() {
                break;
            }
            let end = memchr::memchr(b'\n', piece).map(|it| it + 1);
            let length = end.unwrap_or(piece.len());
            let kept = length.min(self.longest - buffer.len());
            buffer.extend_from_slice(&piece[..kept]);
            omitted += (length - kept) as u64;
            self.reader.consume(length);
            if end.is_some() {
                break;
            }
        }
        let found = !buffer.is_empty() || omitted > 0;
        Ok(found.then_some(Line { bytes: buffer, omitted }))
    }
}
