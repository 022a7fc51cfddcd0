//! Large content in pieces that are the same wherever the content is the same.

use std::ops::Range;

use fastcdc::v2020::FastCDC;

const LEAST: usize = 16 << 10;
const USUAL: usize = 64 << 10;
/// No piece is longer; and no piece depends on what comes so far behind its start.
pub(crate) const LONGEST_CHUNK: usize = 256 << 10;

/// Returns where each piece of `bytes` is.
pub(crate) fn chunks(bytes: &[u8]) -> impl Iterator<Item = Range<usize>> {
    FastCDC::new(bytes, LEAST, USUAL, LONGEST_CHUNK).map(|it| it.offset..it.offset + it.length)
}
