//! The records of one append as one run of bytes, quick to write and quick to read.

use bytes::Bytes;

use super::Malformed;
use super::number::{Reader, write, write_signed};
use super::seal;
use crate::record::{NewRecord, RecordKind, StoredRecord, Timestamp};

/// Packs the records of an append, the first of which is `first`.
pub(crate) fn pack_row(first: u64, records: &[NewRecord]) -> Vec<u8> {
    let bytes: usize = records.iter().map(|record| record.bytes.len() + 24).sum();
    let mut out = Vec::with_capacity(bytes + 8);
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

/// Returns the records of an append, the first of which is `first`.
pub(crate) fn unpack_row(
    first: u64,
    count: u64,
    row: &[u8],
) -> Result<Vec<StoredRecord>, Malformed> {
    let mut reader = Reader::new(seal::remove(row, &first.to_le_bytes())?);
    let mut records = Vec::new();
    for index in 0..count {
        let kind = RecordKind::from_code(reader.byte()?);
        let source =
            u32::try_from(reader.number()?).map_err(|_| Malformed("a source is no source"))?;
        let position = reader.number()?;
        let received = Timestamp(reader.signed()?);
        let length = reader.length()?;
        let bytes = Bytes::copy_from_slice(reader.take(length)?);
        records.push(StoredRecord { seq: first + index, kind, source, position, received, bytes });
    }
    if !reader.is_at_end() {
        return Err(Malformed("something follows the records of an append"));
    }
    Ok(records)
}
