//! Content-defined chunks: equal content gives equal chunks, wherever it stands.

use std::ops::Range;

use fastcdc::v2020::FastCDC;

/// How long chunks are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkSizes {
    shortest: usize,
    usual: usize,
    /// The longest chunk, and how far ahead of its start the end of a chunk can depend on bytes.
    pub(crate) longest: usize,
}

impl ChunkSizes {
    pub(crate) const FINE: Self = Self { shortest: 4 << 10, usual: 12 << 10, longest: 48 << 10 };
}

impl Default for ChunkSizes {
    fn default() -> Self {
        Self { shortest: 16 << 10, usual: 64 << 10, longest: 256 << 10 }
    }
}

/// Returns the range of each chunk of `bytes`.
pub fn chunks(bytes: &[u8]) -> impl Iterator<Item = Range<usize>> {
    chunks_of(bytes, ChunkSizes::default())
}

/// Returns the range of each chunk of `bytes`, of these sizes.
pub(crate) fn chunks_of(bytes: &[u8], sizes: ChunkSizes) -> impl Iterator<Item = Range<usize>> {
    let ChunkSizes { shortest, usual, longest } = sizes;
    FastCDC::new(bytes, shortest, usual, longest).map(|it| it.offset..it.offset + it.length)
}
