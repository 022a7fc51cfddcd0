//! Reads lines of a stream in bounded memory.

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// Reads lines, truncated to a maximum length.
///
/// The state is kept in the reader, so a cancelled read loses nothing.
pub(super) struct LineReader<R> {
    reader: BufReader<R>,
    longest: usize,
    line: Line,
    is_complete: bool,
}

/// A line, possibly truncated.
#[derive(Default)]
pub(super) struct Line {
    /// Its beginning, without the line end.
    pub(super) bytes: Vec<u8>,
    /// The line was truncated.
    pub(super) is_cut: bool,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(super) fn new(reader: R, longest: usize) -> Self {
        let reader = BufReader::with_capacity(64 * 1024, reader);
        Self { reader, longest, line: Line::default(), is_complete: false }
    }

    /// Returns the next line. A line without a line end at the end of the stream is dropped.
    pub(super) async fn next(&mut self) -> Option<&Line> {
        if self.is_complete {
            self.line.bytes.clear();
            self.line.is_cut = false;
            self.is_complete = false;
        }
        while !self.is_complete {
            let piece = self.reader.fill_buf().await.ok().filter(|it| !it.is_empty())?;
            let end = memchr::memchr(b'\n', piece);
            let text = &piece[..end.unwrap_or(piece.len())];
            let kept = text.len().min(self.longest - self.line.bytes.len());
            self.line.bytes.extend_from_slice(&text[..kept]);
            self.line.is_cut |= kept < text.len();
            self.is_complete = end.is_some();
            let length = text.len() + usize::from(self.is_complete);
            self.reader.consume(length);
        }
        Some(&self.line)
    }
}
