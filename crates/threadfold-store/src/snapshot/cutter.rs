//! Cuts a snapshot into pieces while its bytes are produced.

use bytes::Bytes;

use super::SnapshotPiece;
use crate::pack::{ChunkSizes, chunks_of};

/// Cuts bytes into content-defined pieces.
///
/// The pieces do not depend on the portions in which the bytes are pushed.
#[derive(Debug, Default)]
pub struct SnapshotCutter {
    held: Vec<u8>,
    sizes: ChunkSizes,
}

impl SnapshotCutter {
    /// Returns a cutter of short pieces, for content of which a reader needs a little at a time.
    pub fn fine() -> Self {
        Self { held: Vec::new(), sizes: ChunkSizes::FINE }
    }

    /// Takes the next bytes, and returns the pieces that are complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<SnapshotPiece> {
        self.held.extend_from_slice(bytes);
        self.cut(self.sizes.longest)
    }

    /// Returns the remaining pieces, at the end of the bytes.
    pub fn finish(&mut self) -> Vec<SnapshotPiece> {
        self.cut(1)
    }

    /// Returns how many pushed bytes are in no piece yet.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Drops those bytes, as if a piece had ended before them.
    pub fn forget_held(&mut self) {
        self.held.clear();
    }

    /// Cuts while at least `least` bytes remain. With the length of the longest piece buffered, more
    /// bytes cannot move the end of the next piece.
    fn cut(&mut self, least: usize) -> Vec<SnapshotPiece> {
        let mut pieces = Vec::new();
        let mut start = 0;
        while self.held.len() - start >= least {
            let Some(piece) = chunks_of(&self.held[start..], self.sizes).next() else { break };
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
    fn pieces_do_not_depend_on_the_portions_that_are_pushed() {
        let numbers = (0..400_000_u64).map(|it| it.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40);
        let bytes: Vec<u8> = numbers.flat_map(|it| it.to_string().into_bytes()).collect();
        for (sizes, least) in [(ChunkSizes::default(), 10), (ChunkSizes::FINE, 100)] {
            let whole: Vec<_> = chunks_of(&bytes, sizes)
                .map(|range| SnapshotPiece::new(Bytes::copy_from_slice(&bytes[range])))
                .collect();
            assert!(whole.len() > least);
            for step in [1_000, 65_536, 262_144, 1_000_003, bytes.len()] {
                let mut cutter = SnapshotCutter { held: Vec::new(), sizes };
                let mut pieces: Vec<_> =
                    bytes.chunks(step).flat_map(|part| cutter.push(part)).collect();
                pieces.extend(cutter.finish());
                assert!(pieces == whole, "in steps of {step}");
                assert_eq!(cutter.held(), 0);
            }
        }
    }
}
