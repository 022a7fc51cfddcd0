//! Content-defined chunks: equal content gives equal chunks, wherever it stands.

use std::ops::Range;

use fastcdc::v2020::FastCDC;

const SHORTEST: usize = 16 << 10;
const USUAL: usize = 64 << 10;
/// The longest chunk, and how far ahead of its start the end of a chunk can depend on bytes.
pub(crate) const LONGEST_CHUNK: usize = 256 << 10;

/// Returns the range of each chunk of `bytes`.
pub fn chunks(bytes: &[u8]) -> impl Iterator<Item = Range<usize>> {
    FastCDC::new(bytes, SHORTEST, USUAL, LONGEST_CHUNK).map(|it| it.offset..it.offset + it.length)
}
