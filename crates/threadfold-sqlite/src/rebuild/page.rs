//! Reads rows out of the leaf pages of tables, as SQLite's file format defines them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// The pages of a database file, and those that its write-ahead log replaces.
pub(super) struct Pages<'a> {
    bytes: &'a [u8],
    size: usize,
    replaced: BTreeMap<usize, &'a [u8]>,
    /// The overflow pages of the rows that were read.
    followed: RefCell<BTreeSet<usize>>,
}

/// A row of a table.
#[derive(Debug, PartialEq)]
pub(super) struct Row {
    pub(super) id: i64,
    /// If the end of the row is missing, its last value is cut or null.
    pub(super) values: Vec<Value>,
}

/// A value of a column.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Integer(i64),
    Text(String),
    Blob(Vec<u8>),
}

impl Value {
    pub(super) fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            _ => None,
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// The size of a page, unless the file has another one.
const USUAL_SIZE: usize = 4096;
/// The sizes that a page can have.
const SIZES: [usize; 8] = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536];
/// The type of a page that is a leaf of a table.
const TABLE_LEAF: u8 = 13;
/// The bytes before the first page's own header.
const FILE_HEADER: usize = 100;
/// The most columns that a table of ours has.
const MOST_COLUMNS: usize = 16;

/// The bytes before the first frame of a write-ahead log, and before the page in each frame.
const LOG_HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

impl<'a> Pages<'a> {
    /// The size that the file states may be damaged, so the size is the one with which the most
    /// pages look like nodes of a tree.
    pub(super) fn new(bytes: &'a [u8], log: &'a [u8]) -> Self {
        let stated = bytes.get(16..18).map(|it| usize::from(u16::from_be_bytes([it[0], it[1]])));
        let stated = stated.filter(|it| SIZES.contains(it)).unwrap_or(USUAL_SIZE);
        let mut best = Self::with_size(bytes, log, stated);
        let mut nodes = best.count_nodes();
        for size in SIZES.into_iter().filter(|it| *it != stated) {
            let pages = Self::with_size(bytes, log, size);
            let found = pages.count_nodes();
            if found > nodes {
                (best, nodes) = (pages, found);
            }
        }
        best
    }

    fn with_size(bytes: &'a [u8], log: &'a [u8], size: usize) -> Self {
        Self { bytes, size, replaced: committed_pages(log, size), followed: RefCell::default() }
    }

    fn count_nodes(&self) -> usize {
        (1..=self.count()).filter(|number| self.is_node(*number)).count()
    }

    /// Returns whether a page looks like a node of a tree: all its cells are behind their list, and
    /// within the page.
    fn is_node(&self, number: usize) -> bool {
        let header = if number == 1 { FILE_HEADER } else { 0 };
        let Some(page) = self.page(number) else { return false };
        let list = match page.get(header) {
            Some(2 | 5) => header + 12,
            Some(10 | 13) => header + 8,
            _ => return false,
        };
        let word = |at: usize| {
            page.get(at..at + 2).map(|it| usize::from(u16::from_be_bytes([it[0], it[1]])))
        };
        let count = word(header + 3).unwrap_or_default();
        let end = list + 2 * count;
        let is_within =
            |index| word(list + 2 * index).is_some_and(|it| it >= end && it < self.size);
        count > 0 && end <= self.size && (0..count).all(is_within)
    }

    /// Returns the rows of all tables, as far as they can be read.
    pub(super) fn rows(&self) -> impl Iterator<Item = Row> {
        (1..=self.count()).flat_map(|number| self.rows_of(number))
    }

    fn count(&self) -> usize {
        let last = self.replaced.keys().next_back().copied().unwrap_or_default();
        self.bytes.len().div_ceil(self.size).max(last)
    }

    /// Returns the contents of overflow pages that no row led to, joined as far as they continue
    /// each other: the page with the beginning of their row is damaged. Called after all rows were
    /// read.
    pub(super) fn orphans(&self) -> Vec<Vec<u8>> {
        let is_orphan =
            |number: &usize| !self.followed.borrow().contains(number) && self.is_overflow(*number);
        let orphans: BTreeSet<usize> = (2..=self.count()).filter(is_orphan).collect();
        let next_of = |number: usize| self.next_page(self.page(number)?);
        let continued: BTreeSet<usize> = orphans.iter().filter_map(|it| next_of(*it)).collect();
        let mut joined = Vec::new();
        for &first in orphans.difference(&continued) {
            let (mut content, mut next) = (Vec::new(), Some(first));
            let mut seen = BTreeSet::new();
            while let Some(number) = next.filter(|it| orphans.contains(it) && seen.insert(*it)) {
                let page = self.page(number).unwrap_or_default();
                content.extend_from_slice(page.get(4..).unwrap_or_default());
                next = next_of(number);
            }
            joined.push(content);
        }
        joined
    }

    /// Returns whether a page may be an overflow page, which begins with the number of the next.
    fn is_overflow(&self, number: usize) -> bool {
        let Some(page) = self.page(number).filter(|page| page.len() > 4) else { return false };
        page[..4] == [0; 4] || self.next_page(page).is_some()
    }

    /// Returns the page that an overflow page says is next, if there is such a page.
    fn next_page(&self, page: &[u8]) -> Option<usize> {
        let number = u32::from_be_bytes(page.get(..4)?.try_into().ok()?);
        usize::try_from(number).ok().filter(|it| (2..=self.count()).contains(it))
    }

    /// Returns a page; the last one may be truncated.
    fn page(&self, number: usize) -> Option<&'a [u8]> {
        if let Some(page) = self.replaced.get(&number) {
            return Some(page);
        }
        let start = number.checked_sub(1)?.checked_mul(self.size)?;
        let rest = self.bytes.get(start..)?;
        Some(&rest[..rest.len().min(self.size)])
    }

    fn rows_of(&self, number: usize) -> Vec<Row> {
        let header = if number == 1 { FILE_HEADER } else { 0 };
        let Some(page) = self.page(number) else { return Vec::new() };
        if page.get(header) != Some(&TABLE_LEAF) {
            return Vec::new();
        }
        let word = |at: usize| {
            page.get(at..at + 2).map(|it| usize::from(u16::from_be_bytes([it[0], it[1]])))
        };
        let count = word(header + 3).unwrap_or_default();
        (0..count)
            .map_while(|index| word(header + 8 + 2 * index))
            .filter_map(|at| self.row(page, at))
            .collect()
    }

    /// Reads the row at an offset of a leaf.
    fn row(&self, page: &[u8], at: usize) -> Option<Row> {
        let (length, rest) = number(page.get(at..)?)?;
        let (id, rest) = number(rest)?;
        let length = usize::try_from(length).ok().filter(|it| *it <= self.bytes.len())?;
        let most = self.size - 35;
        let least = (self.size - 12) * 32 / 255 - 23;
        let local = match length <= most {
            true => length,
            false => {
                let rest = least + (length - least) % (self.size - 4);
                if rest <= most { rest } else { least }
            }
        };
        let mut payload = rest[..rest.len().min(local)].to_vec();
        let mut next = rest.get(local..).and_then(|rest| self.next_page(rest));
        let mut last = None;
        while payload.len() < length && payload.len() >= local {
            // The page that a damaged one led to is usually the one behind it.
            let number = next.filter(|it| !self.followed.borrow().contains(it)).or_else(|| {
                let behind = last? + 1;
                let is_free = !self.followed.borrow().contains(&behind);
                (is_free && self.is_overflow(behind)).then_some(behind)
            });
            let Some(page) = number.and_then(|number| self.page(number)) else { break };
            self.followed.borrow_mut().extend(number);
            let content = page.get(4..).unwrap_or_default();
            let wanted = (length - payload.len()).min(self.size - 4);
            payload.extend_from_slice(&content[..content.len().min(wanted)]);
            if content.len() < wanted {
                break;
            }
            (last, next) = (number, self.next_page(page));
        }
        let is_cut = payload.len() < length;
        Some(Row { id, values: values(&payload, is_cut)? })
    }
}

/// Returns the pages of the transactions in a write-ahead log, the latest of each.
fn committed_pages(log: &[u8], size: usize) -> BTreeMap<usize, &[u8]> {
    let word = |bytes: &[u8], at: usize| {
        bytes.get(at..at + 4).and_then(|it| it.try_into().ok()).map_or(0, u32::from_be_bytes)
    };
    let (mut committed, mut pending) = (BTreeMap::new(), Vec::new());
    let frames = log.get(LOG_HEADER..).unwrap_or_default();
    for frame in frames.chunks_exact(FRAME_HEADER + size) {
        // Frames after the last transaction are of an earlier use of the file, with other salts.
        if frame.get(8..16) != log.get(16..24) {
            break;
        }
        pending.push((word(frame, 0) as usize, &frame[FRAME_HEADER..]));
        if word(frame, 4) != 0 {
            committed.extend(pending.drain(..));
        }
    }
    committed
}

/// Reads a variable-length number, and returns the rest.
fn number(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let mut value: u64 = 0;
    for (index, byte) in bytes.iter().take(9).enumerate() {
        if index == 8 {
            return Some(((value << 8 | u64::from(*byte)) as i64, &bytes[9..]));
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value as i64, &bytes[index + 1..]));
        }
    }
    None
}

/// Reads the values of a record; nothing unless all of it fits. If the record is cut, its last value
/// may be cut or null.
fn values(payload: &[u8], is_cut: bool) -> Option<Vec<Value>> {
    let (header, rest) = number(payload)?;
    let header = usize::try_from(header).ok()?;
    let mut types = payload.get(payload.len() - rest.len()..header)?;
    let mut body = payload.get(header..)?;
    let mut values = Vec::new();
    while !types.is_empty() && values.len() < MOST_COLUMNS {
        let (kind, rest) = number(types)?;
        types = rest;
        let length = match kind {
            0 | 8 | 9 => 0,
            1..=4 => usize::try_from(kind).ok()?,
            5 => 6,
            6 | 7 => 8,
            12.. => usize::try_from((kind - 12) / 2).ok()?,
            _ => return None,
        };
        if is_cut && body.len() < length {
            let is_blob = kind >= 12 && kind % 2 == 0;
            values.push(if is_blob { Value::Blob(body.to_vec()) } else { Value::Null });
            return types.is_empty().then_some(values);
        }
        let bytes = body.get(..length)?;
        body = &body[length..];
        values.push(match kind {
            0 => Value::Null,
            8 => Value::Integer(0),
            9 => Value::Integer(1),
            1..=6 => {
                let is_negative = bytes.first().is_some_and(|it| it & 0x80 != 0);
                let start = if is_negative { -1 } else { 0 };
                Value::Integer(bytes.iter().fold(start, |all: i64, it| all << 8 | i64::from(*it)))
            }
            12.. if kind % 2 == 0 => Value::Blob(bytes.to_vec()),
            13.. => Value::Text(String::from_utf8(bytes.to_vec()).ok()?),
            _ => return None,
        });
    }
    (body.is_empty() && types.is_empty()).then_some(values)
}
