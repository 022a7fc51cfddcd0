//! Groups of records: the content, which sessions share, and the meta, which belongs to one session.

use threadfold_fold::{Record, StoredRecord, Timestamp};

use super::PackError;
use super::escape::{Escaper, Extract, names, unescape};
use super::group_boundary::GroupCutter;
use super::meta::{Batch, RecordMeta, read_meta, write_meta};
use super::number::{Reader, write};
use crate::blob::BlobHash;

/// A complete group.
#[derive(Clone, Debug)]
pub struct Group {
    /// The first record.
    pub first: u64,
    /// How many records it has.
    pub count: u64,
    /// When the last record was received.
    pub latest: Timestamp,
    /// The columns that belong to this session: batches, kinds, sources, positions, times.
    pub meta: Vec<u8>,
    /// The hash of the content.
    pub hash: BlobHash,
    /// The escaped records, to be stored as a blob.
    pub content: Vec<u8>,
    /// The blobs that the content refers to.
    pub extracts: Vec<Extract>,
}

impl Group {
    /// Returns the last record.
    pub fn last(&self) -> u64 {
        self.first + self.count - 1
    }
}

/// Packs the records of one session, in log order, into groups.
pub struct Packer<'a> {
    escaper: Escaper<'a>,
    cutter: GroupCutter,
    first: u64,
    escaped: Vec<u8>,
    escaped_lengths: Vec<usize>,
    lengths: Vec<usize>,
    records: Vec<RecordMeta>,
    batches: Vec<Batch>,
    extracts: Vec<Extract>,
}

impl<'a> Packer<'a> {
    /// Returns a packer for the records from `first` on.
    pub fn new(session: &'a str, first: u64) -> Self {
        Self {
            escaper: Escaper::new(session),
            cutter: GroupCutter::default(),
            first,
            escaped: Vec::new(),
            escaped_lengths: Vec::new(),
            lengths: Vec::new(),
            records: Vec::new(),
            batches: Vec::new(),
            extracts: Vec::new(),
        }
    }

    /// Marks the next record as the first of an append.
    pub fn begin(&mut self, batch: Batch) {
        self.batches.push(batch);
    }

    /// Adds a record, and returns the group that ends with it, if one does.
    ///
    /// Records after the last returned group are in no group: the caller keeps them as rows, or
    /// calls [`finish`](Self::finish).
    pub fn push(&mut self, record: &Record) -> Option<Group> {
        let start = self.escaped.len();
        self.escaper.escape(&record.bytes, &mut self.escaped, &mut self.extracts);
        self.escaped_lengths.push(self.escaped.len() - start);
        self.lengths.push(record.bytes.len());
        self.records.push(RecordMeta {
            kind: record.kind,
            source: record.source,
            position: record.position,
            received: record.received,
        });
        self.cutter
            .ends_with(&self.escaped[start..], record.bytes.len())
            .then(|| self.end(record.received))
    }

    /// Ends the group that was begun, if one was.
    pub fn finish(mut self) -> Option<Group> {
        let latest = self.records.last()?.received;
        Some(self.end(latest))
    }

    fn end(&mut self, latest: Timestamp) -> Group {
        let mut content = Vec::with_capacity(self.escaped.len() + 2 * self.records.len());
        for &length in &self.escaped_lengths {
            write(&mut content, length as u64);
        }
        content.append(&mut self.escaped);
        let hash = BlobHash::of(&content);
        let meta = write_meta(self.first, &hash, &self.batches, &self.records, &self.lengths);
        let count = self.records.len() as u64;
        let first = self.first;
        self.first += count;
        self.escaped_lengths.clear();
        self.lengths.clear();
        self.records.clear();
        self.batches.clear();
        let extracts = std::mem::take(&mut self.extracts);
        Group { first, count, latest, meta, hash, content, extracts }
    }
}

/// A group as it was stored.
pub struct PackedGroup<'a> {
    /// The session's id, to restore it in the records.
    pub session: &'a str,
    /// The first record.
    pub first: u64,
    /// How many records it has.
    pub count: u64,
    /// See [`Group::meta`].
    pub meta: &'a [u8],
    /// The hash of the content.
    pub hash: &'a BlobHash,
    /// See [`Group::content`].
    pub content: &'a [u8],
}

/// Returns the records of a group with their exact bytes; `blob` looks up the blobs that they refer
/// to.
pub fn unpack<E: From<PackError>>(
    packed: &PackedGroup<'_>,
    mut blob: impl FnMut(&BlobHash) -> Result<Vec<u8>, E>,
) -> Result<Vec<StoredRecord>, E> {
    let mut all_bytes = Vec::new();
    for escaped in split(packed.content, packed.count)? {
        all_bytes.push(unescape(escaped, packed.session, &mut blob)?);
    }
    let lengths: Vec<usize> = all_bytes.iter().map(Vec::len).collect();
    let metas = read_meta(packed.meta, packed.first, packed.hash, &lengths)?;
    let records = metas.into_iter().zip(all_bytes).zip(packed.first..);
    Ok(records
        .map(|((meta, bytes), seq)| {
            let RecordMeta { kind, source, position, received } = meta;
            Record { kind, source, position, received, bytes: bytes.into() }.at(seq)
        })
        .collect())
}

/// Returns the hashes of the blobs that a group's content refers to.
pub fn named_blobs(content: &[u8], count: u64) -> Result<Vec<BlobHash>, PackError> {
    let mut all = Vec::new();
    for escaped in split(content, count)? {
        all.extend(names(escaped)?);
    }
    Ok(all)
}

/// Splits a content into its escaped records.
fn split(content: &[u8], count: u64) -> Result<Vec<&[u8]>, PackError> {
    // Each record takes at least one byte, for its length: reject a count that would allocate more.
    if count > content.len() as u64 {
        return Err(PackError("a group has fewer records than its count"));
    }
    let mut reader = Reader::new(content);
    let mut lengths = Vec::new();
    for _ in 0..count {
        lengths.push(reader.length()?);
    }
    let records =
        lengths.into_iter().map(|length| reader.take(length)).collect::<Result<_, _>>()?;
    if !reader.is_at_end() {
        return Err(PackError("bytes follow the last record of a group"));
    }
    Ok(records)
}
