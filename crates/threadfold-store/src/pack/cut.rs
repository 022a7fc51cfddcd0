//! Where a group ends: after a record whose hash says so, within bounds.
//!
//! The same records then make the same groups, whatever stood before them.

/// A group has at least this many bytes, so that it compresses well.
const LEAST: usize = 64 << 10;
/// A group ends when it has this many bytes, so that it is quick to read.
const MOST: usize = 1 << 20;
/// A group ends when it has this many records.
const MOST_RECORDS: usize = 4096;
/// One record in 64 ends a group that is large enough.
const MASK: u8 = 0b11_1111;

/// Says of record after record whether a group ends with it.
#[derive(Default)]
pub(super) struct Cutter {
    bytes: usize,
    /// With what was taken out of the records and is kept apart.
    whole_bytes: usize,
    records: usize,
}

impl Cutter {
    pub(super) fn ends_with(&mut self, escaped: &[u8], whole: usize) -> bool {
        self.bytes += escaped.len();
        self.whole_bytes += whole;
        self.records += 1;
        let ends = self.whole_bytes >= MOST
            || self.records >= MOST_RECORDS
            || (self.bytes >= LEAST && blake3::hash(escaped).as_bytes()[0] & MASK == 0);
        if ends {
            *self = Self::default();
        }
        ends
    }
}
