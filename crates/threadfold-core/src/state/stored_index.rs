//! The ids of restored blocks, on disk: a lookup reads one page of each segment.
//!
//! A segment has the hashes of the ids of neighbouring blocks, sorted, each with the position of
//! its block; behind them stands the first hash of every page. Segments are as long as a power of
//! two allows: a longer conversation begins with the same segments, so a store that deduplicates
//! pieces of snapshots stores each block only a few times, and there are few segments to look in.
//!
//! ```text
//! hash, 8 bytes, and position in the segment, 4 bytes, for each block │ 8 bytes for each page
//! ```

use std::io::{self, Write};
use std::sync::{Arc, OnceLock};

use super::spill::SpillStore;
use crate::work::visit;

/// How many blocks the shortest segment has, except the last.
const UNIT: usize = 4096;
/// How many hashes a page has.
const PAGE: usize = 512;
const PAIR: usize = 12;
const FIRST_HASH: usize = 8;

/// The positions of restored blocks by the hash of their ids.
pub(super) struct StoredIndex {
    text: Arc<dyn SpillStore>,
    segments: Vec<Segment>,
}

struct Segment {
    /// The position of its first block.
    start: usize,
    count: usize,
    /// Where it is.
    place: u64,
    pages: OnceLock<Pages>,
}

/// What is in memory of a segment. A page stays there: it takes less room than the blocks that were
/// looked for would in a table.
struct Pages {
    /// The first hash of each page.
    first: Vec<u64>,
    read: Vec<OnceLock<Vec<(u64, u32)>>>,
}

/// Returns the lengths of the segments of so many blocks.
fn segments(count: usize) -> impl Iterator<Item = usize> {
    let mut rest = count;
    std::iter::from_fn(move || {
        let mut length = UNIT;
        while length.saturating_mul(2) <= rest {
            length *= 2;
        }
        let length = length.min(rest);
        rest -= length;
        (length > 0).then_some(length)
    })
}

fn segment_size(count: usize) -> u64 {
    (count * PAIR + count.div_ceil(PAGE) * FIRST_HASH) as u64
}

/// Returns how many bytes the index of so many blocks has.
pub(super) fn index_size(count: usize) -> u64 {
    segments(count).map(segment_size).sum()
}

/// Writes the index of blocks with these hashes, in order. Returns the positions of blocks that the
/// index has no room for, because `most` before them have the same hash.
pub(super) fn write_index(
    hashes: &[u64],
    most: usize,
    out: &mut dyn Write,
) -> io::Result<Vec<usize>> {
    let mut beyond = Vec::new();
    let mut start = 0;
    for count in segments(hashes.len()) {
        let of_segment = &hashes[start..start + count];
        let mut pairs: Vec<(u64, u32)> = of_segment.iter().copied().zip(0..).collect();
        pairs.sort_unstable();
        for alike in pairs.chunk_by(|one, next| one.0 == next.0) {
            let more = alike.iter().skip(most);
            beyond.extend(more.map(|(_, position)| start + *position as usize));
        }
        let mut first = Vec::new();
        for page in pairs.chunks(PAGE) {
            first.extend(page[0].0.to_le_bytes());
            for (hash, position) in page {
                out.write_all(&hash.to_le_bytes())?;
                out.write_all(&position.to_le_bytes())?;
            }
        }
        out.write_all(&first)?;
        start += count;
    }
    Ok(beyond)
}

impl StoredIndex {
    /// Returns the index of `count` blocks that begins at `place`.
    pub(super) fn new(text: Arc<dyn SpillStore>, place: u64, count: usize) -> Self {
        let (mut start, mut place) = (0, place);
        let segment = |count: usize| {
            let segment = Segment { start, count, place, pages: OnceLock::new() };
            start += count;
            place = place.saturating_add(segment_size(count));
            segment
        };
        Self { text, segments: segments(count).map(segment).collect() }
    }

    /// Returns the positions that blocks with this hash had when the state was restored, at most
    /// `most` of each segment. A segment is not read before those of the one before are used.
    pub(super) fn get(&self, hash: u64, most: usize) -> impl Iterator<Item = usize> {
        self.segments.iter().flat_map(move |segment| {
            visit();
            segment.get(&*self.text, hash, most).unwrap_or_default()
        })
    }
}

impl Segment {
    fn get(&self, text: &dyn SpillStore, hash: u64, most: usize) -> Option<Vec<usize>> {
        let pages = self.pages(text)?;
        // Equal hashes may begin at the end of the page before.
        let from = pages.first.partition_point(|it| *it < hash).saturating_sub(1);
        let mut found = Vec::new();
        for page in from..pages.first.len() {
            if pages.first[page] > hash || found.len() >= most {
                break;
            }
            let pairs = self.page(text, pages, page)?;
            let at = pairs.partition_point(|it| it.0 < hash);
            let alike = pairs[at..].iter().take_while(|it| it.0 == hash);
            found.extend(alike.map(|it| self.start + it.1 as usize));
        }
        found.truncate(most);
        Some(found)
    }

    fn pages(&self, text: &dyn SpillStore) -> Option<&Pages> {
        if let Some(pages) = self.pages.get() {
            return Some(pages);
        }
        let count = self.count.div_ceil(PAGE);
        let place = self.place.saturating_add((self.count * PAIR) as u64);
        let bytes = text.fetch(place, count * FIRST_HASH)?;
        let first = bytes.as_chunks::<FIRST_HASH>().0.iter().map(|it| u64::from_le_bytes(*it));
        let first: Vec<u64> = first.collect();
        if !first.is_sorted() {
            text.report_corruption(place);
            return None;
        }
        let read = (0..count).map(|_| OnceLock::new()).collect();
        Some(self.pages.get_or_init(|| Pages { first, read }))
    }

    fn page<'a>(
        &self,
        text: &dyn SpillStore,
        pages: &'a Pages,
        page: usize,
    ) -> Option<&'a [(u64, u32)]> {
        let read = pages.read.get(page)?;
        if let Some(pairs) = read.get() {
            return Some(pairs);
        }
        let count = PAGE.min(self.count - page * PAGE);
        let place = self.place.saturating_add((page * PAGE * PAIR) as u64);
        let bytes = text.fetch(place, count * PAIR)?;
        let pair = |[a, b, c, d, e, f, g, h, position @ ..]: &[u8; PAIR]| {
            (u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h]), u32::from_le_bytes(*position))
        };
        let pairs: Vec<(u64, u32)> = bytes.as_chunks::<PAIR>().0.iter().map(pair).collect();
        // A page that is out of order would answer that a block is not there.
        let is_valid = pairs.first().map(|it| it.0) == pages.first.get(page).copied()
            && pairs.is_sorted()
            && pairs.iter().all(|it| (it.1 as usize) < self.count);
        if !is_valid {
            text.report_corruption(place);
            return None;
        }
        Some(read.get_or_init(|| pairs))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct Memory {
        bytes: Vec<u8>,
        corrupt: Mutex<Vec<u64>>,
        fetched: Mutex<usize>,
    }

    impl SpillStore for Memory {
        fn put(&self, _: &[u8]) -> Option<u64> {
            None
        }

        fn fetch(&self, place: u64, length: usize) -> Option<Vec<u8>> {
            *self.fetched.lock().unwrap() += length;
            self.bytes.get(place as usize..place as usize + length).map(<[u8]>::to_vec)
        }

        fn report_corruption(&self, place: u64) {
            self.corrupt.lock().unwrap().push(place);
        }
    }

    fn mixed(number: usize) -> u64 {
        (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn a_longer_index_begins_with_the_same_segments() {
        assert_eq!(segments(0).count(), 0);
        assert_eq!(segments(3).collect::<Vec<_>>(), [3]);
        assert_eq!(segments(UNIT).collect::<Vec<_>>(), [UNIT]);
        assert_eq!(segments(9 * UNIT + 7).collect::<Vec<_>>(), [8 * UNIT, UNIT, 7]);
        for count in [1_000, 100_000, 1_000_000, 100_000_000] {
            assert_eq!(segments(count).sum::<usize>(), count);
            assert!(segments(count).count() <= 16, "{count}");
        }
    }

    #[test]
    fn a_lookup_reads_a_page_of_each_segment() {
        let hashes: Vec<u64> = (0..50_000).map(mixed).collect();
        let mut bytes = vec![0; 5];
        assert_eq!(write_index(&hashes, 4, &mut bytes).unwrap(), Vec::<usize>::new());
        assert_eq!(bytes.len() as u64, 5 + index_size(hashes.len()));
        let memory = Arc::new(Memory { bytes, ..Memory::default() });
        let index = StoredIndex::new(memory.clone(), 5, hashes.len());
        let get = |hash| index.get(hash, 4).collect::<Vec<_>>();
        assert_eq!(get(mixed(49_999)), [49_999]);
        assert!(get(12_345).is_empty());
        let most = 2 * segments(hashes.len()).count() * (PAGE * PAIR + 64 * FIRST_HASH);
        assert!(*memory.fetched.lock().unwrap() <= most);
        for (position, hash) in hashes.iter().enumerate() {
            assert_eq!(get(*hash), [position]);
        }
        assert!(memory.corrupt.lock().unwrap().is_empty());
    }

    #[test]
    fn equal_hashes_are_found_across_pages_and_are_bounded() {
        let mut hashes: Vec<u64> = (0..3_000).map(|it| it * 2).collect();
        // They begin at the end of the second page.
        hashes[1_022..1_029].fill(2_043);
        let mut bytes = Vec::new();
        assert_eq!(write_index(&hashes, 4, &mut bytes).unwrap(), [1_026, 1_027, 1_028]);
        let index = StoredIndex::new(Arc::new(Memory { bytes, ..Memory::default() }), 0, 3_000);
        let get = |hash| index.get(hash, 4).collect::<Vec<_>>();
        assert_eq!(get(2_043), [1_022, 1_023, 1_024, 1_025]);
        assert!(get(2_041).is_empty());
        assert_eq!(get(2_058), [1_029]);
    }

    #[test]
    fn a_page_that_is_out_of_order_is_reported() {
        let hashes: Vec<u64> = (0..3_000).map(mixed).collect();
        let mut bytes = Vec::new();
        write_index(&hashes, 4, &mut bytes).unwrap();
        bytes[10 * PAIR..11 * PAIR].fill(0xff);
        let memory = Arc::new(Memory { bytes, ..Memory::default() });
        let index = StoredIndex::new(memory.clone(), 0, hashes.len());
        for hash in &hashes {
            index.get(*hash, 4).for_each(drop);
        }
        assert_eq!(memory.corrupt.lock().unwrap().first(), Some(&0));
    }
}
