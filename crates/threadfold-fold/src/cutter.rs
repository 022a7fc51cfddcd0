//! Cuts chunks of bytes into records: lines with their line ends, unchanged.

use bytes::{Bytes, BytesMut};

use crate::record::{Record, RecordKind};

/// The longest line that is one record; the converters have the same limit.
const LIMIT: usize = 64 << 20;
/// The length of the pieces of a longer line.
const PIECE: usize = 1 << 20;

/// Cuts bytes into records. All records together are exactly the bytes that were pushed.
///
/// ```
/// use threadfold_fold::Cutter;
///
/// let mut cutter = Cutter::new(1);
/// let mut records = Vec::new();
/// cutter.push(b"{}\r\n[", &mut records);
/// cutter.push(b"]\n{", &mut records);
/// let lines: Vec<_> = records.iter().map(|it| (it.position, &it.bytes[..])).collect();
/// assert_eq!(lines, [(0, &b"{}\r\n"[..]), (4, b"[]\n")]);
/// assert_eq!(cutter.unfinished().map(|it| it.bytes), Some("{".into()));
/// ```
#[derive(Clone, Debug)]
pub struct Cutter {
    /// The number of the records' source in the session.
    source: u32,
    limit: usize,
    /// The offset of the held bytes in the source.
    position: u64,
    held: BytesMut,
    /// Pieces of the current line were returned already.
    in_pieces: bool,
}

impl Cutter {
    /// Returns a cutter at the beginning of a source.
    pub fn new(source: u32) -> Self {
        Self::resume(source, 0, false)
    }

    /// Returns a cutter that continues at `position`; `in_pieces` if that is inside a line that is
    /// cut into pieces.
    pub fn resume(source: u32, position: u64, in_pieces: bool) -> Self {
        Self { source, limit: LIMIT, position, held: BytesMut::new(), in_pieces }
    }

    /// Returns the number of the source.
    pub fn source(&self) -> u32 {
        self.source
    }

    /// Sets the longest line, without its line end, that is one record.
    pub fn with_limit(mut self, bytes: usize) -> Self {
        self.limit = bytes;
        self
    }

    /// Reads the next bytes, and appends the records that they complete.
    pub fn push(&mut self, chunk: &[u8], records: &mut Vec<Record>) {
        let mut rest = chunk;
        if let Some(end) = memchr::memchr(b'\n', rest)
            && (self.in_pieces || !self.held.is_empty())
        {
            self.hold_line(&rest[..end], records);
            rest = &rest[end + 1..];
        }
        if let Some(end) = memchr::memrchr(b'\n', rest) {
            self.cut_lines(&rest[..=end], records);
            rest = &rest[end + 1..];
        }
        self.hold(rest, records);
    }

    /// Cuts complete lines, while nothing is held. They share one copy of their bytes: a copy for
    /// each would cost more than cutting.
    fn cut_lines(&mut self, lines: &[u8], records: &mut Vec<Record>) {
        let shared = Bytes::copy_from_slice(lines);
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', lines) {
            if end - start > self.limit {
                self.hold_line(&lines[start..end], records);
            } else {
                self.append(RecordKind::Line, shared.slice(start..=end), records);
            }
            start = end + 1;
        }
    }

    /// Holds the rest of a line without its line end, and cuts the line.
    fn hold_line(&mut self, bytes: &[u8], records: &mut Vec<Record>) {
        self.hold(bytes, records);
        self.held.extend_from_slice(b"\n");
        self.cut_line(records);
    }

    /// Holds bytes of the current line, or cuts pieces once the line is too long.
    ///
    /// Where pieces are cut depends on the line alone and not on the chunks, so that every reader of
    /// a file stores the same records.
    fn hold(&mut self, bytes: &[u8], records: &mut Vec<Record>) {
        for part in bytes.chunks(PIECE) {
            self.held.extend_from_slice(part);
            while self.held.len() > self.capacity() {
                let piece = self.held.split_to(self.capacity());
                self.in_pieces = true;
                self.append(RecordKind::Piece, piece.freeze(), records);
            }
        }
    }

    /// Returns how many bytes may be held.
    fn capacity(&self) -> usize {
        if self.in_pieces { PIECE } else { self.limit }
    }

    fn append(&mut self, kind: RecordKind, bytes: Bytes, records: &mut Vec<Record>) {
        let position = self.position;
        self.position += bytes.len() as u64;
        records.push(Record::new(kind, self.source, position, bytes));
    }

    fn cut_line(&mut self, records: &mut Vec<Record>) {
        let kind = if self.in_pieces { RecordKind::LastPiece } else { RecordKind::Line };
        self.in_pieces = false;
        let bytes = match self.held.len() {
            // A long line takes its memory with it, or the next short lines would keep it alive.
            PIECE.. => std::mem::take(&mut self.held),
            _ => self.held.split(),
        };
        self.append(kind, bytes.freeze(), records);
    }

    /// Returns the incomplete last line as a partial record, because the rest may still come.
    pub fn unfinished(&self) -> Option<Record> {
        let bytes = Bytes::copy_from_slice(&self.held);
        let partial = Record::new(RecordKind::Partial, self.source, self.position, bytes);
        (!partial.bytes.is_empty()).then_some(partial)
    }

    /// Appends the incomplete last line as a whole record, because nothing more will come.
    pub fn finish(&mut self, records: &mut Vec<Record>) {
        if self.in_pieces || !self.held.is_empty() {
            self.cut_line(records);
        }
    }

    /// Returns the offset of the next byte.
    pub fn end(&self) -> u64 {
        self.position + self.held.len() as u64
    }

    /// Returns the offset of the held bytes.
    pub fn position(&self) -> u64 {
        self.position
    }
}

/// Hands on the lines of `bytes` that are one record each, with their line ends. Returns what comes
/// after them, from an incomplete line or one that is too long on.
pub(crate) fn whole_lines<'a>(bytes: &'a [u8], mut each: impl FnMut(&'a [u8])) -> &'a [u8] {
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', bytes) {
        if end - start > LIMIT {
            break;
        }
        each(&bytes[start..=end]);
        start = end + 1;
    }
    &bytes[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_gigabyte_is_never_buffered_completely() {
        const LIMIT: usize = 8 << 20;
        let chunk = vec![b'x'; 1 << 20];
        let mut cutter = Cutter::new(1).with_limit(LIMIT);
        let mut records = Vec::new();
        cutter.push(b"{}\n", &mut records);
        let (mut given, mut most, mut most_memory) = (0, 0, 0);
        for _ in 0..1024 {
            cutter.push(&chunk, &mut records);
            most = most.max(cutter.held.len());
            most_memory = most_memory.max(cutter.held.capacity());
            given += records.drain(..).map(|it| it.bytes.len()).sum::<usize>();
        }
        cutter.push(b"\r\n[]\n", &mut records);
        assert_eq!(most, LIMIT);
        // The buffer grows by doubling.
        assert!(most_memory <= 2 * LIMIT, "{most_memory} bytes are held");
        given += records.iter().map(|it| it.bytes.len()).sum::<usize>();
        assert_eq!(given, (1 << 30) + 8);
        let last: Vec<_> = records.iter().map(|it| (it.kind, it.position)).collect();
        let line = (RecordKind::Line, (1 << 30) + 5);
        assert_eq!(last[last.len() - 2..], [(RecordKind::LastPiece, 1 << 30 | 3), line]);
    }

    #[test]
    fn a_returned_long_line_frees_its_memory() {
        let mut cutter = Cutter::new(1);
        let mut records = Vec::new();
        cutter.push(&vec![b'x'; 20 << 20], &mut records);
        assert!(cutter.held.capacity() >= 20 << 20);
        cutter.push(b"\n", &mut records);
        assert_eq!(records[0].bytes.len(), (20 << 20) + 1);
        assert!(cutter.held.capacity() <= 1 << 20);
    }
}
