//! A snapshot's bytes in pieces, while they come.

use bytes::Bytes;

use super::SnapshotPiece;
use crate::pack::{LONGEST_CHUNK, chunks};

/// Cuts bytes into pieces that are the same wherever the bytes are the same.
///
/// However the bytes are handed in, the pieces are those of the whole.
#[derive(Debug, Default)]
pub struct SnapshotCutter {
    held: Vec<u8>,
}

impl SnapshotCutter {
    /// Takes the next bytes, and returns the pieces whose end is known by now.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<SnapshotPiece> {
        self.held.extend_from_slice(bytes);
        self.cut(LONGEST_CHUNK)
    }

    /// Returns the pieces that are left, at the end of all bytes.
    pub fn finish(&mut self) -> Vec<SnapshotPiece> {
        self.cut(1)
    }

    /// Returns how many bytes were taken of which the piece is not known yet.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Forgets those bytes, as if a piece had ended before them.
    pub fn forget_held(&mut self) {
        self.held.clear();
    }

    /// Cuts as long as `least` bytes are left: a piece depends on no more than the longest has.
    fn cut(&mut self, least: usize) -> Vec<SnapshotPiece> {
        let mut pieces = Vec::new();
        let mut start = 0;
        while self.held.len() - start >= least {
            let Some(piece) = chunks(&self.held[start..]).next() else { break };
            let end = start + piece.end;
            pieces.push(SnapshotPiece::new(Bytes::copy_from_slice(&self.held[start..end])));
            start = end;
        }
        self.held.drain(..start);
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_bytes_come_the_pieces_are_those_of_the_whole() {
        let numbers = (0..400_000_u64).map(|it| it.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40);
        let bytes: Vec<u8> = numbers.flat_map(|it| it.to_string().into_bytes()).collect();
        let whole: Vec<_> = chunks(&bytes)
            .map(|range| SnapshotPiece::new(Bytes::copy_from_slice(&bytes[range])))
            .collect();
        assert!(whole.len() > 10);
        for step in [1_000, 65_536, 262_144, 1_000_003, bytes.len()] {
            let mut cutter = SnapshotCutter::default();
            let mut pieces: Vec<_> =
                bytes.chunks(step).flat_map(|part| cutter.push(part)).collect();
            pieces.extend(cutter.finish());
            assert!(pieces == whole, "in steps of {step}");
            assert_eq!(cutter.held(), 0);
        }
    }
}
