//! What a session knows of a group's records beside their bytes, in a few bytes a record.
//!
//! Each column is written as runs of how far a value is from what one would expect of it. Of a
//! file that is read from its start to its end, every record stands where the one before it
//! ended: its positions are one run.

use std::collections::HashMap;

use threadfold_fold::{RecordKind, Timestamp};

use super::Malformed;
use super::number::{Reader, write, write_signed};
use super::seal;
use crate::blob::BlobHash;
use crate::log::BatchId;

/// An append whose first record is in a group; the last may be in a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) id: BatchId,
    pub(crate) first: u64,
    pub(crate) count: u64,
}

/// What is known of a record beside its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordMeta {
    pub(super) kind: RecordKind,
    pub(super) source: u32,
    pub(super) position: u64,
    pub(super) received: Timestamp,
}

/// Writes the meta of a group; `lengths` are those of the records' bytes.
pub(super) fn write_meta(
    first: u64,
    content: &BlobHash,
    batches: &[Batch],
    records: &[RecordMeta],
    lengths: &[usize],
) -> Vec<u8> {
    let mut out = Vec::new();
    write_batches(&mut out, first, batches);
    write_runs(&mut out, records.iter().map(|it| i64::from(it.kind.code())));
    write_runs(&mut out, records.iter().map(|it| i64::from(it.source)));
    let mut expected = Expected::default();
    write_runs(
        &mut out,
        records.iter().zip(lengths).map(|(record, &length)| {
            let distance = record.position.wrapping_sub(expected.position(record.source));
            expected.learn(record.source, record.position, length);
            distance as i64
        }),
    );
    let mut before = 0;
    write_runs(
        &mut out,
        records.iter().map(|it| {
            let distance = it.received.0.wrapping_sub(before);
            before = it.received.0;
            distance
        }),
    );
    seal::add(&mut out, &place(first, content));
    out
}

/// What a meta belongs to.
fn place(first: u64, content: &BlobHash) -> Vec<u8> {
    [&first.to_le_bytes(), content.as_bytes().as_slice()].concat()
}

/// Reads what [`write_meta`] wrote, given the records' lengths.
pub(super) fn read_meta(
    meta: &[u8],
    first: u64,
    content: &BlobHash,
    lengths: &[usize],
) -> Result<Vec<RecordMeta>, Malformed> {
    let mut reader = Reader::new(seal::remove(meta, &place(first, content))?);
    read_batches(&mut reader, 0)?;
    let kinds = read_runs(&mut reader, lengths.len())?;
    let sources = read_runs(&mut reader, lengths.len())?;
    let positions = read_runs(&mut reader, lengths.len())?;
    let times = read_runs(&mut reader, lengths.len())?;
    if !reader.is_at_end() {
        return Err(Malformed("something follows the meta of a group"));
    }
    let mut expected = Expected::default();
    let mut received = 0_i64;
    let mut records = Vec::with_capacity(lengths.len());
    for (index, &length) in lengths.iter().enumerate() {
        let kind = u8::try_from(kinds[index]).map_err(|_| Malformed("a kind is no kind"))?;
        let source =
            u32::try_from(sources[index]).map_err(|_| Malformed("a source is no source"))?;
        let position = expected.position(source).wrapping_add(positions[index] as u64);
        expected.learn(source, position, length);
        received = received.wrapping_add(times[index]);
        records.push(RecordMeta {
            kind: RecordKind::from_code(kind),
            source,
            position,
            received: Timestamp(received),
        });
    }
    Ok(records)
}

/// Returns the appends that begin in a group, from its meta.
pub(crate) fn batches(meta: &[u8], first: u64) -> Result<Vec<Batch>, Malformed> {
    read_batches(&mut Reader::new(meta), first)
}

/// Writes the appends that begin in records of which the first is `first`.
pub(super) fn write_batches(out: &mut Vec<u8>, first: u64, batches: &[Batch]) {
    write(out, batches.len() as u64);
    for batch in batches {
        write(out, batch.first - first);
        write(out, batch.count);
        out.extend(batch.id.0);
    }
}

/// Reads what [`write_batches`] wrote.
pub(super) fn read_batches(reader: &mut Reader<'_>, first: u64) -> Result<Vec<Batch>, Malformed> {
    let mut batches = Vec::new();
    for _ in 0..reader.number()? {
        let first = first.wrapping_add(reader.number()?);
        let count = reader.number()?;
        let mut id = [0; 16];
        id.copy_from_slice(reader.take(16)?);
        batches.push(Batch { id: BatchId(id), first, count });
    }
    Ok(batches)
}

/// Where the next record of each source is expected: behind the last.
#[derive(Default)]
struct Expected {
    ends: HashMap<u32, u64>,
}

impl Expected {
    fn position(&self, source: u32) -> u64 {
        self.ends.get(&source).copied().unwrap_or(0)
    }

    fn learn(&mut self, source: u32, position: u64, length: usize) {
        self.ends.insert(source, position.wrapping_add(length as u64));
    }
}

fn write_runs(out: &mut Vec<u8>, values: impl Iterator<Item = i64>) {
    let mut run: Option<(i64, u64)> = None;
    for value in values {
        match &mut run {
            Some((same, length)) if *same == value => *length += 1,
            _ => {
                if let Some((ended, length)) = run.replace((value, 1)) {
                    write(out, length);
                    write_signed(out, ended);
                }
            }
        }
    }
    if let Some((ended, length)) = run {
        write(out, length);
        write_signed(out, ended);
    }
}

fn read_runs(reader: &mut Reader<'_>, count: usize) -> Result<Vec<i64>, Malformed> {
    let mut values = Vec::with_capacity(count);
    while values.len() < count {
        let length = reader.length()?;
        let value = reader.signed()?;
        if length == 0 || length > count - values.len() {
            return Err(Malformed("a run is longer than its group"));
        }
        values.resize(values.len() + length, value);
    }
    Ok(values)
}
