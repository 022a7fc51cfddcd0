//! Bytes that come in chunks, cut into records: lines with their ends, exactly as they came.

use bytes::{Bytes, BytesMut};
use threadfold_store::RecordKind;

/// As long as a line may be to be one record; the converters' own limit.
const LIMIT: usize = 64 << 20;
/// How long the pieces are of a line that is longer.
const PIECE: usize = 1 << 20;

/// A record that was cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// A line, or a piece of one.
    pub kind: RecordKind,
    /// Where its first byte stood.
    pub position: u64,
    /// All its bytes, the line's end with them.
    pub bytes: Bytes,
}

/// Cuts bytes into records. All records together are the bytes that were pushed.
///
/// ```
/// use threadfold_engine::Cutter;
///
/// let mut cutter = Cutter::default();
/// let mut cuts = Vec::new();
/// cutter.push(b"{}\r\n[", &mut cuts);
/// cutter.push(b"]\n{", &mut cuts);
/// let lines: Vec<_> = cuts.iter().map(|cut| (cut.position, &cut.bytes[..])).collect();
/// assert_eq!(lines, [(0, &b"{}\r\n"[..]), (4, b"[]\n")]);
/// assert_eq!(cutter.unfinished().map(|cut| cut.bytes), Some("{".into()));
/// ```
#[derive(Clone, Debug)]
pub struct Cutter {
    limit: usize,
    /// Where the bytes that are held began.
    position: u64,
    held: BytesMut,
    /// Pieces of the line at hand were given already.
    in_pieces: bool,
}

impl Default for Cutter {
    fn default() -> Self {
        Self::resume(0, false)
    }
}

impl Cutter {
    /// Returns a cutter that goes on at `position`, perhaps in the middle of a line that comes in
    /// pieces.
    pub fn resume(position: u64, in_pieces: bool) -> Self {
        Self { limit: LIMIT, position, held: BytesMut::new(), in_pieces }
    }

    /// Sets how long a line may be, without its end, to be one record.
    pub fn with_limit(mut self, bytes: usize) -> Self {
        self.limit = bytes;
        self
    }

    /// Takes the next bytes, and gives the records that they finish.
    pub fn push(&mut self, chunk: &[u8], cuts: &mut Vec<Cut>) {
        let mut rest = chunk;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            self.hold(&rest[..end], cuts);
            self.held.extend_from_slice(b"\n");
            self.give_line(cuts);
            rest = &rest[end + 1..];
        }
        self.hold(rest, cuts);
    }

    /// Holds bytes of the line at hand, or gives them in pieces once they are too many.
    ///
    /// Where pieces are cut depends on the line alone, not on how its bytes came.
    fn hold(&mut self, bytes: &[u8], cuts: &mut Vec<Cut>) {
        for part in bytes.chunks(PIECE) {
            self.held.extend_from_slice(part);
            while self.held.len() > self.most() {
                let piece = self.held.split_to(self.most());
                self.in_pieces = true;
                self.give(RecordKind::Piece, piece, cuts);
            }
        }
    }

    fn most(&self) -> usize {
        if self.in_pieces { PIECE } else { self.limit }
    }

    fn give(&mut self, kind: RecordKind, bytes: BytesMut, cuts: &mut Vec<Cut>) {
        let position = self.position;
        self.position += bytes.len() as u64;
        cuts.push(Cut { kind, position, bytes: bytes.freeze() });
    }

    fn give_line(&mut self, cuts: &mut Vec<Cut>) {
        let kind = if self.in_pieces { RecordKind::LastPiece } else { RecordKind::Line };
        self.in_pieces = false;
        let bytes = self.held.split();
        self.give(kind, bytes, cuts);
    }

    /// Returns what is held of a line without an end: a partial one for now, for more may come.
    pub fn unfinished(&self) -> Option<Cut> {
        let bytes = Bytes::copy_from_slice(&self.held);
        let kind = RecordKind::Partial;
        (!bytes.is_empty()).then_some(Cut { kind, position: self.position, bytes })
    }

    /// Gives what is held as a whole record, for nothing more will come.
    pub fn finish(&mut self, cuts: &mut Vec<Cut>) {
        if self.in_pieces || !self.held.is_empty() {
            self.give_line(cuts);
        }
    }

    /// Returns where the next byte stands.
    pub fn end(&self) -> u64 {
        self.position + self.held.len() as u64
    }

    /// Returns where the unfinished line, or what is held of it, begins.
    pub fn position(&self) -> u64 {
        self.position
    }
}
