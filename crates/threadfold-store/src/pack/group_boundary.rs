//! Group boundaries are content-defined: a group ends after a record with a certain hash, within
//! bounds.
//!
//! The end depends on the record alone, so equal records make equal groups whatever precedes them.
//! The hash names nothing, and no reader computes it: it only has to be fast.

use xxhash_rust::xxh3::xxh3_64;

/// Smaller groups compress badly.
const FEWEST_BYTES: usize = 128 << 10;
/// Larger groups are slow to read for one record.
const MOST_BYTES: usize = 1 << 20;
const MOST_RECORDS: usize = 4096;
/// One record in 64 ends a group that is large enough.
const MASK: u64 = 0b11_1111;

/// Decides, record by record, whether a group ends.
#[derive(Default)]
pub(super) struct GroupCutter {
    bytes: usize,
    /// Counts the extracted texts as well, which the group does not contain.
    whole_bytes: usize,
    records: usize,
}

impl GroupCutter {
    pub(super) fn ends_with(&mut self, escaped: &[u8], whole: usize) -> bool {
        self.bytes += escaped.len();
        self.whole_bytes += whole;
        self.records += 1;
        let ends = self.whole_bytes >= MOST_BYTES
            || self.records >= MOST_RECORDS
            || (self.bytes >= FEWEST_BYTES && xxh3_64(escaped) & MASK == 0);
        if ends {
            *self = Self::default();
        }
        ends
    }
}
