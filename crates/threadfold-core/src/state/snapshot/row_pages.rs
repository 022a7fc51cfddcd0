//! The rows of an outline: what is known of each block before its text is read, page by page.
//!
//! ```text
//! place of the first text, 8 bytes │ a row for each block, 14 bytes
//! ```

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use super::super::entry::Entry;
use super::super::order::{Label, restored_label, restored_position};
use super::super::sequence::{PAGE_ITEMS, PageSource};
use super::super::spill::{SpilledBlock, SpilledConversation};
use crate::work::visit;

/// What the outline has of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct OutlineRow {
    /// The length of its text.
    pub(in super::super) length: u32,
    /// The hash by which its id is found.
    pub(in super::super) id_hash: u64,
    /// The index of its type.
    pub(in super::super) kind: Option<u8>,
    /// Two bits for each rank.
    pub(in super::super) marks: u8,
    /// It is read when the state is restored: it may change soon, or shows more than its text.
    pub(in super::super) is_eager: bool,
}

const NO_KIND: u8 = 0xff;
/// The place of the first text.
const HEAD: usize = 8;

impl OutlineRow {
    /// How many bytes a row has.
    const SIZE: usize = 14;

    fn to_bytes(self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..4].copy_from_slice(&self.length.to_le_bytes());
        bytes[4..12].copy_from_slice(&self.id_hash.to_le_bytes());
        bytes[12] = self.kind.unwrap_or(NO_KIND);
        bytes[13] = self.marks;
        bytes
    }

    fn from_bytes(bytes: &[u8; Self::SIZE]) -> Self {
        let [a, b, c, d, hash @ .., kind, marks] = *bytes;
        Self {
            length: u32::from_le_bytes([a, b, c, d]),
            id_hash: u64::from_le_bytes(hash),
            kind: (kind != NO_KIND).then_some(kind),
            marks,
            is_eager: false,
        }
    }

    /// Writes the row of the block at `position`, whose text begins at `place`.
    pub(super) fn write(self, position: usize, place: u64, out: &mut dyn Write) -> io::Result<()> {
        if position.is_multiple_of(PAGE_ITEMS) {
            out.write_all(&place.to_le_bytes())?;
        }
        out.write_all(&self.to_bytes())
    }
}

/// Returns how many bytes the rows of a conversation have.
pub(super) fn rows_size(count: usize) -> u64 {
    (count.div_ceil(PAGE_ITEMS) * HEAD) as u64 + (count * OutlineRow::SIZE) as u64
}

/// The blocks of a restored conversation, as its outline has them.
pub(in super::super) struct RowPages {
    /// What the blocks share; it holds the text with the rows as well.
    pub(super) shared: Arc<SpilledConversation>,
    /// Where the rows begin.
    pub(super) rows_at: u64,
    /// Where the text begins from which places are counted.
    pub(super) state_at: u64,
    pub(super) count: usize,
    /// The hashes of ids in the pages that were read last, sorted, with their positions: most
    /// lookups are for a neighbour of a block that somebody looks at.
    pub(super) latest: Mutex<VecDeque<Vec<(u64, usize)>>>,
}

/// How many pages are searched before the index on disk is.
const MOST_LATEST: usize = 8;

impl RowPages {
    /// Returns the positions that blocks with this hash had, of those in the pages that were read
    /// last.
    pub(in super::super) fn latest(&self, hash: u64, most: usize) -> Vec<usize> {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let alike = latest.iter().rev().flat_map(|page| {
            let at = page.partition_point(|it| it.0 < hash);
            page[at..].iter().take_while(|it| it.0 == hash).map(|it| it.1)
        });
        alike.take(most).collect()
    }

    fn note_latest(&self, first: usize, rows: &[OutlineRow]) {
        let hashes = rows.iter().map(|row| row.id_hash);
        let mut page: Vec<(u64, usize)> = hashes.zip(first..).collect();
        page.sort_unstable();
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if latest.len() == MOST_LATEST {
            latest.pop_front();
        }
        latest.push_back(page);
    }

    /// Returns the place of the first text of a page, and its rows; nothing if it cannot be read.
    fn rows(&self, page: usize) -> Option<(u64, Vec<OutlineRow>)> {
        let first = page.checked_mul(PAGE_ITEMS).filter(|first| *first < self.count)?;
        let count = PAGE_ITEMS.min(self.count - first);
        let store = self.shared.store();
        let at = self.rows_at.checked_add(rows_size(first))?;
        let bytes = store.fetch(at, HEAD + count * OutlineRow::SIZE)?;
        let (head, rows) = bytes.split_first_chunk::<HEAD>()?;
        let rows = rows.as_chunks::<{ OutlineRow::SIZE }>().0.iter().map(OutlineRow::from_bytes);
        Some((self.state_at.saturating_add(u64::from_le_bytes(*head)), rows.collect()))
    }

    /// Returns whether a label is one that a block had when the conversation was restored.
    pub(in super::super) fn has_label(&self, label: Label) -> bool {
        restored_position(label).is_some_and(|position| position < self.count)
    }

    /// Returns the hash of the id that the block with this label had. `held` is the page that was
    /// read last.
    pub(in super::super) fn id_hash(
        &self,
        label: Label,
        held: &mut Option<(usize, Vec<OutlineRow>)>,
    ) -> Option<u64> {
        let position = restored_position(label).filter(|position| *position < self.count)?;
        let page = position / PAGE_ITEMS;
        if held.as_ref().is_none_or(|it| it.0 != page) {
            *held = Some((page, self.rows(page)?.1));
        }
        let (_, rows) = held.as_ref()?;
        rows.get(position % PAGE_ITEMS).map(|row| row.id_hash)
    }

    fn entry(&self, position: usize, place: u64, row: &OutlineRow) -> Option<Entry> {
        let number = u32::try_from(position).ok()?;
        let spilled = SpilledBlock::restored(self.shared.clone(), place, row, number)?;
        Some(Entry { label: restored_label(position), ..Entry::of_spilled(spilled) })
    }
}

impl PageSource<Entry> for RowPages {
    fn count(&self) -> usize {
        self.count
    }

    fn key_at(&self, position: usize) -> u64 {
        restored_label(position)
    }

    fn read(&self, page: usize) -> Vec<Entry> {
        let first = page * PAGE_ITEMS;
        let wanted = PAGE_ITEMS.min(self.count.saturating_sub(first));
        let mut entries = Vec::with_capacity(wanted);
        if let Some((mut place, rows)) = self.rows(page) {
            self.note_latest(first, &rows);
            for (position, row) in (first..).zip(&rows) {
                visit();
                let Some(entry) = self.entry(position, place, row) else {
                    self.shared.store().report_corruption(place);
                    break;
                };
                entries.push(entry);
                place = place.saturating_add(u64::from(row.length) + 1);
            }
        }
        // The store has failed, so the state is invalid: its blocks are empty, as those whose text
        // cannot be read.
        let nothing = OutlineRow { length: 0, id_hash: 0, kind: None, marks: 0, is_eager: false };
        let missing = first + entries.len()..first + wanted;
        entries.extend(missing.filter_map(|position| self.entry(position, 0, &nothing)));
        entries
    }
}
