//! The columns of a group that belong to one session, in less than a byte a record.
//!
//! Each column is run-length encoded as differences from a prediction. When a file is read from
//! start to end, each record starts where the one before it ended, so its positions are one run.

use std::collections::HashMap;

use threadfold_fold::{RecordKind, Timestamp};

use super::PackError;
use super::checksum;
use super::number::{Reader, write, write_signed};
use crate::blob::BlobHash;
use crate::log::BatchId;

/// An append whose first record is in a group or a row; its last record may be in a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The id that the writer gave it.
    pub id: BatchId,
    /// Its first record.
    pub first: u64,
    /// How many records it has.
    pub count: u64,
}

/// A record without its bytes.
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
    let mut expected = MetaPrediction::default();
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
    checksum::add(&mut out, &place(first, content));
    out
}

/// What a meta is bound to: its place in the log, and its content.
fn place(first: u64, content: &BlobHash) -> Vec<u8> {
    [&first.to_le_bytes(), content.as_bytes().as_slice()].concat()
}

/// Reverses [`write_meta`], given the lengths of the records' bytes.
pub(super) fn read_meta(
    meta: &[u8],
    first: u64,
    content: &BlobHash,
    lengths: &[usize],
) -> Result<Vec<RecordMeta>, PackError> {
    let mut reader = Reader::new(checksum::remove(meta, &place(first, content))?);
    read_batches(&mut reader, 0)?;
    let kinds = read_runs(&mut reader, lengths.len())?;
    let sources = read_runs(&mut reader, lengths.len())?;
    let positions = read_runs(&mut reader, lengths.len())?;
    let times = read_runs(&mut reader, lengths.len())?;
    if !reader.is_at_end() {
        return Err(PackError("bytes follow the meta of a group"));
    }
    let mut expected = MetaPrediction::default();
    let mut received = 0_i64;
    let mut records = Vec::with_capacity(lengths.len());
    for (index, &length) in lengths.iter().enumerate() {
        let kind =
            u8::try_from(kinds[index]).map_err(|_| PackError("a record kind is out of range"))?;
        let source = u32::try_from(sources[index])
            .map_err(|_| PackError("a source number is out of range"))?;
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
pub fn batches(meta: &[u8], first: u64) -> Result<Vec<Batch>, PackError> {
    read_batches(&mut Reader::new(meta), first)
}

/// Writes the appends that begin in records from `first` on.
pub(super) fn write_batches(out: &mut Vec<u8>, first: u64, batches: &[Batch]) {
    write(out, batches.len() as u64);
    for batch in batches {
        write(out, batch.first - first);
        write(out, batch.count);
        out.extend(batch.id.0);
    }
}

/// Reverses [`write_batches`].
pub(super) fn read_batches(reader: &mut Reader<'_>, first: u64) -> Result<Vec<Batch>, PackError> {
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

/// Predicts where the next record of each source starts: where the last one ended.
#[derive(Default)]
struct MetaPrediction {
    ends: HashMap<u32, u64>,
}

impl MetaPrediction {
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

fn read_runs(reader: &mut Reader<'_>, count: usize) -> Result<Vec<i64>, PackError> {
    let mut values = Vec::with_capacity(count);
    while values.len() < count {
        let length = reader.length()?;
        let value = reader.signed()?;
        if length == 0 || length > count - values.len() {
            return Err(PackError("a run is longer than its group"));
        }
        values.resize(values.len() + length, value);
    }
    Ok(values)
}
