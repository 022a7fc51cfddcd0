//! Records of one append, or of several that follow each other, as one run of bytes: quick to
//! write and quick to read.

use bytes::Bytes;

use threadfold_fold::{Record, RecordKind, StoredRecord, Timestamp};

use super::Malformed;
use super::meta::{Batch, read_batches, write_batches};
use super::number::{Reader, write, write_signed};
use super::seal;

/// Packs records, the first of which is `first`, with the appends that begin in them.
pub(crate) fn pack_row(first: u64, batches: &[Batch], records: &[Record]) -> Vec<u8> {
    let bytes: usize = records.iter().map(|record| record.bytes.len() + 24).sum();
    let mut out = Vec::with_capacity(bytes + 24 * batches.len() + 9);
    write_batches(&mut out, first, batches);
    for record in records {
        out.push(record.kind.code());
        write(&mut out, u64::from(record.source));
        write(&mut out, record.position);
        write_signed(&mut out, record.received.0);
        write(&mut out, record.bytes.len() as u64);
        out.extend_from_slice(&record.bytes);
    }
    seal::add(&mut out, &first.to_le_bytes());
    out
}

/// Returns the appends that begin in a row, and its records.
pub(crate) fn unpack_row(
    first: u64,
    count: u64,
    row: &[u8],
) -> Result<(Vec<Batch>, Vec<StoredRecord>), Malformed> {
    let mut reader = Reader::new(seal::remove(row, &first.to_le_bytes())?);
    let batches = read_batches(&mut reader, first)?;
    let mut records = Vec::new();
    for index in 0..count {
        let kind = RecordKind::from_code(reader.byte()?);
        let source =
            u32::try_from(reader.number()?).map_err(|_| Malformed("a source is no source"))?;
        let position = reader.number()?;
        let received = Timestamp(reader.signed()?);
        let length = reader.length()?;
        let bytes = Bytes::copy_from_slice(reader.take(length)?);
        records.push(Record { kind, source, position, received, bytes }.at(first + index));
    }
    if !reader.is_at_end() {
        return Err(Malformed("something follows the records of an append"));
    }
    Ok((batches, records))
}

/// Makes one row of several that follow each other; each is given with its first record.
pub(crate) fn merge_rows(rows: &[(u64, &[u8])]) -> Result<Vec<u8>, Malformed> {
    let first = rows.first().map_or(0, |(first, _)| *first);
    let mut all = Vec::new();
    let mut records = Vec::new();
    for (row_first, row) in rows {
        let mut reader = Reader::new(seal::remove(row, &row_first.to_le_bytes())?);
        all.extend(read_batches(&mut reader, *row_first)?);
        records.extend_from_slice(reader.rest());
    }
    let mut out = Vec::with_capacity(records.len() + 24 * all.len());
    write_batches(&mut out, first, &all);
    out.append(&mut records);
    seal::add(&mut out, &first.to_le_bytes());
    Ok(out)
}
