//! The table of a stored snapshot's pieces, by which a reader finds one without knowing all.
//!
//! It stands at the end of the snapshot, in pieces of its own; the last piece has the hash of each
//! of them, and the footer. Whoever knows the last piece can check every other one.
//!
//! ```text
//! where a piece begins, 8 bytes, and its hash, 32 bytes, for each piece: 128 in a page
//! the same for each page │ footer
//! ```

use std::sync::OnceLock;

use bytes::Bytes;
use threadfold_fold::SnapshotFooter;
use threadfold_store::{BlobHash, SnapshotPiece};

/// How many pieces a page of the table has.
const PAGE: usize = 128;
const ROW: usize = 40;

/// Where a piece begins, and its hash.
pub(crate) type PieceRow = (u64, BlobHash);

/// A piece, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundPiece {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) hash: BlobHash,
}

/// The pieces of a snapshot.
pub(crate) enum PieceTable {
    /// Those of a snapshot without a table, as the store lists them.
    Listed(Vec<PieceRow>, u64),
    /// Those of a snapshot with a table, page by page.
    Paged { pages: Vec<PieceRow>, read: Vec<OnceLock<Vec<PieceRow>>>, end: u64 },
}

/// Where to find a piece.
pub(crate) enum Lookup {
    Found(FoundPiece),
    /// This page of the table has to be read first.
    Unread(usize, BlobHash),
    /// There is no such place.
    Beyond,
}

impl PieceTable {
    /// Reads the last piece of a snapshot; nothing if the snapshot has no table.
    pub(crate) fn read(last: &[u8]) -> Option<(SnapshotFooter, Self)> {
        let footer = SnapshotFooter::read(last)?;
        let pages = rows(&last[..last.len() - SnapshotFooter::SIZE])?;
        let wanted = usize::try_from(footer.pieces).ok()?.div_ceil(PAGE);
        if pages.len() != wanted || !is_valid(&pages, 0, footer.end) {
            return None;
        }
        let read = pages.iter().map(|_| OnceLock::new()).collect();
        Some((footer, Self::Paged { pages, read, end: footer.end }))
    }

    /// Returns the table of pieces with these lengths.
    pub(crate) fn listed(pieces: Vec<(BlobHash, u64)>) -> Self {
        let mut end: u64 = 0;
        let row = |(hash, length): (BlobHash, u64)| {
            let start = end;
            end = start.saturating_add(length);
            (start, hash)
        };
        let rows = pieces.into_iter().map(row).collect();
        Self::Listed(rows, end)
    }

    /// Returns where the text ends that the pieces hold.
    pub(crate) fn end(&self) -> u64 {
        match self {
            Self::Listed(_, end) | Self::Paged { end, .. } => *end,
        }
    }

    /// Returns the piece that contains a place.
    pub(crate) fn find(&self, place: u64) -> Lookup {
        if place >= self.end() {
            return Lookup::Beyond;
        }
        match self {
            Self::Listed(rows, end) => found(rows, place, *end),
            Self::Paged { pages, read, end } => {
                let page = pages.partition_point(|it| it.0 <= place).saturating_sub(1);
                match (read.get(page).and_then(OnceLock::get), pages.get(page)) {
                    (Some(rows), _) => {
                        found(rows, place, pages.get(page + 1).map_or(*end, |it| it.0))
                    }
                    (None, Some((_, hash))) => Lookup::Unread(page, *hash),
                    (None, None) => Lookup::Beyond,
                }
            }
        }
    }

    /// Adds a page that was read, or returns false if it is not valid.
    pub(crate) fn add_page(&self, page: usize, bytes: &[u8]) -> bool {
        let Self::Paged { pages, read, end } = self else { return false };
        let (Some((start, _)), Some(place)) = (pages.get(page), read.get(page)) else {
            return false;
        };
        let page_end = pages.get(page + 1).map_or(*end, |it| it.0);
        match rows(bytes).filter(|rows| is_valid(rows, *start, page_end)) {
            Some(rows) => place.set(rows).is_ok() || place.get().is_some(),
            None => false,
        }
    }
}

fn found(rows: &[PieceRow], place: u64, end: u64) -> Lookup {
    let index = rows.partition_point(|it| it.0 <= place).saturating_sub(1);
    let Some((start, hash)) = rows.get(index).copied() else { return Lookup::Beyond };
    let end = rows.get(index + 1).map_or(end, |it| it.0);
    Lookup::Found(FoundPiece { start, end, hash })
}

/// Returns whether rows are of pieces that follow one another from `start` to `end`.
fn is_valid(rows: &[PieceRow], start: u64, end: u64) -> bool {
    let ends = rows.iter().skip(1).map(|it| it.0).chain([end]);
    rows.first().map_or(start, |it| it.0) == start
        && rows.iter().zip(ends).all(|(row, end)| row.0 < end)
}

fn rows(bytes: &[u8]) -> Option<Vec<PieceRow>> {
    let (rows, rest) = bytes.as_chunks::<ROW>();
    let row = |row: &[u8; ROW]| -> Option<PieceRow> {
        let (start, hash) = row.split_first_chunk::<8>()?;
        let hash: [u8; 32] = hash.try_into().ok()?;
        Some((u64::from_le_bytes(*start), BlobHash::from(hash)))
    };
    rest.is_empty().then(|| rows.iter().map(row).collect())?
}

fn bytes_of(rows: &[PieceRow]) -> Vec<u8> {
    let row = |(start, hash): &PieceRow| [&start.to_le_bytes()[..], hash.as_bytes()].concat();
    rows.iter().flat_map(row).collect()
}

/// Returns the pieces of the table of a snapshot, and its last piece.
pub(crate) fn table_pieces(pieces: &[PieceRow], footer: SnapshotFooter) -> Vec<SnapshotPiece> {
    let piece = |bytes: Vec<u8>| SnapshotPiece::new(Bytes::from(bytes));
    let mut written: Vec<_> = pieces.chunks(PAGE).map(|page| piece(bytes_of(page))).collect();
    let pages: Vec<PieceRow> =
        pieces.chunks(PAGE).zip(&written).map(|(page, it)| (page[0].0, it.hash())).collect();
    let mut last = bytes_of(&pages);
    last.extend(SnapshotFooter { pieces: pieces.len() as u64, ..footer }.to_bytes());
    written.push(piece(last));
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn footer(end: u64) -> SnapshotFooter {
        SnapshotFooter { rows: 0, hashes: 0, index: 0, outline: 0, end, pieces: 0 }
    }

    fn pieces(count: u64) -> Vec<PieceRow> {
        (0..count).map(|it| (it * 10, BlobHash::of(&it.to_le_bytes()))).collect()
    }

    #[test]
    fn a_piece_is_found_after_its_page_is_read() {
        for count in [0, 1, 127, 128, 129, 2_000] {
            let (all, end) = (pieces(count), count * 10);
            let written = table_pieces(&all, footer(end));
            let (last, pages) = written.split_last().unwrap();
            let (read, table) = PieceTable::read(last.bytes()).unwrap();
            assert_eq!((read.pieces, table.end()), (count, end));
            for (number, (start, hash)) in all.iter().enumerate() {
                if let Lookup::Unread(page, hash) = table.find(start + 9) {
                    assert_eq!((page, hash), (number / PAGE, pages[page].hash()));
                    assert!(table.add_page(page, pages[page].bytes()));
                }
                let Lookup::Found(found) = table.find(start + 9) else { panic!("not found") };
                let expected = FoundPiece { start: *start, end: start + 10, hash: *hash };
                assert_eq!(found, expected);
            }
            assert!(matches!(table.find(end), Lookup::Beyond));
        }
    }

    #[test]
    fn a_table_that_is_not_valid_is_refused() {
        let written = table_pieces(&pieces(200), footer(2_000));
        let last = written[2].bytes();
        assert!(PieceTable::read(&last[1..]).is_none(), "a byte is missing");
        assert!(PieceTable::read(&last[ROW..]).is_none(), "a page is missing");
        let mut unordered = last.to_vec();
        unordered[ROW..ROW + 8].copy_from_slice(&7_000_u64.to_le_bytes());
        assert!(PieceTable::read(&unordered).is_none(), "a page is beyond the end");
        let (_, table) = PieceTable::read(last).unwrap();
        assert!(!table.add_page(0, written[1].bytes()), "another page");
        assert!(!table.add_page(0, &written[0].bytes()[1..]), "a byte is missing");
        assert!(!table.add_page(9, written[0].bytes()), "there is no such page");
        let mut unordered = written[0].bytes().to_vec();
        unordered[ROW..ROW + 8].fill(0xff);
        assert!(!table.add_page(0, &unordered), "out of order");
        assert!(table.add_page(0, written[0].bytes()));
    }
}
