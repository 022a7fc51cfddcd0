//! Lines of a file of any size, in bounded memory.

use std::io::BufRead;

use crate::tool::ToolError;

/// Reads lines, and of each no more than its beginning.
pub(super) struct Lines<R> {
    reader: R,
    longest: usize,
}

/// What was read of a line.
pub(super) struct Line<'a> {
    /// Its beginning, with its end if that was within bounds.
    pub(super) bytes: &'a [u8],
    /// How many bytes are missing of it.
    pub(super) left_out: u64,
}

impl<R: BufRead> Lines<R> {
    /// Reads lines of up to `longest` bytes whole.
    pub(super) fn new(reader: R, longest: usize) -> Self {
        Self { reader, longest }
    }

    /// Reads the next line into `buffer`. `each` is asked before each piece of it.
    pub(super) fn next<'a>(
        &mut self,
        buffer: &'a mut Vec<u8>,
        mut each: impl FnMut() -> Result<(), ToolError>,
    ) -> Result<Option<Line<'a>>, ToolError> {
        buffer.clear();
        let mut left_out = 0;
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
            left_out += (length - kept) as u64;
            self.reader.consume(length);
            if end.is_some() {
                break;
            }
        }
        let found = !buffer.is_empty() || left_out > 0;
        Ok(found.then_some(Line { bytes: buffer, left_out }))
    }
}
