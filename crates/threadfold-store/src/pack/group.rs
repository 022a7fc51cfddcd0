//! Records in groups: the content, which sessions share, and the meta, which is the session's own.

use threadfold_fold::{Record, StoredRecord, Timestamp};

use super::Malformed;
use super::cut::Cutter;
use super::escape::{CutOut, Escaper, names, unescape};
use super::meta::{Batch, RecordMeta, read_meta, write_meta};
use super::number::{Reader, write};
use crate::blob::BlobHash;

/// A group that is complete.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// Its first record.
    pub(crate) first: u64,
    /// How many it has.
    pub(crate) count: u64,
    /// When the last was received.
    pub(crate) latest: Timestamp,
    /// What only the session knows.
    pub(crate) meta: Vec<u8>,
    /// The name of the content.
    pub(crate) hash: BlobHash,
    /// The records, escaped; to be kept as a blob.
    pub(crate) content: Vec<u8>,
    /// What the content names.
    pub(crate) cut_out: Vec<CutOut>,
}

impl Group {
    /// Returns its last record.
    pub(crate) fn last(&self) -> u64 {
        self.first + self.count - 1
    }
}

/// Makes groups of the records of one session, in their order.
pub(crate) struct Packer<'a> {
    escaper: Escaper<'a>,
    cutter: Cutter,
    first: u64,
    escaped: Vec<u8>,
    escaped_lengths: Vec<usize>,
    lengths: Vec<usize>,
    records: Vec<RecordMeta>,
    batches: Vec<Batch>,
    cut_out: Vec<CutOut>,
}

impl<'a> Packer<'a> {
    /// Makes a packer whose first record is `first`.
    pub(crate) fn new(session: &'a str, first: u64) -> Self {
        Self {
            escaper: Escaper::new(session),
            cutter: Cutter::default(),
            first,
            escaped: Vec::new(),
            escaped_lengths: Vec::new(),
            lengths: Vec::new(),
            records: Vec::new(),
            batches: Vec::new(),
            cut_out: Vec::new(),
        }
    }

    /// Says that an append begins with the next record.
    pub(crate) fn begin(&mut self, batch: Batch) {
        self.batches.push(batch);
    }

    /// Adds a record, and returns the group that ends with it, if one does.
    pub(crate) fn push(&mut self, record: &Record) -> Option<Group> {
        let start = self.escaped.len();
        self.escaper.escape(&record.bytes, &mut self.escaped, &mut self.cut_out);
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
        let cut_out = std::mem::take(&mut self.cut_out);
        Group { first, count, latest, meta, hash, content, cut_out }
    }
}

/// What is kept of a group.
pub(crate) struct Packed<'a> {
    pub(crate) session: &'a str,
    pub(crate) first: u64,
    pub(crate) count: u64,
    pub(crate) meta: &'a [u8],
    pub(crate) hash: &'a BlobHash,
    pub(crate) content: &'a [u8],
}

/// Returns the records of a group, exactly as they came; `blob` looks up what they name.
pub(crate) fn unpack<E: From<Malformed>>(
    packed: &Packed<'_>,
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

/// Returns the names of the blobs that a group's content needs.
pub(crate) fn named_blobs(content: &[u8], count: u64) -> Result<Vec<BlobHash>, Malformed> {
    let mut all = Vec::new();
    for escaped in split(content, count)? {
        all.extend(names(escaped)?);
    }
    Ok(all)
}

/// Cuts a content into its records, which are escaped.
fn split(content: &[u8], count: u64) -> Result<Vec<&[u8]>, Malformed> {
    // Every record takes a byte at least, for its length.
    if count > content.len() as u64 {
        return Err(Malformed("a group has fewer records than it says"));
    }
    let mut reader = Reader::new(content);
    let mut lengths = Vec::new();
    for _ in 0..count {
        lengths.push(reader.length()?);
    }
    let records =
        lengths.into_iter().map(|length| reader.take(length)).collect::<Result<_, _>>()?;
    if !reader.is_at_end() {
        return Err(Malformed("something follows the records of a group"));
    }
    Ok(records)
}
