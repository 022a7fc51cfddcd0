//! Rows: the records of one append, or of consecutive appends, as one run of bytes that is fast to
//! write and to read.
//!
//! A row that is long is compressed, in frames of their own, so that damage costs the records of one
//! frame. Text that compression does not reduce to two fifths is stored as it is, because then
//! damage costs only the records it hits.
//!
//! ```text
//! plain        number of appends ≥ 0 │ appends │ records │ checksum
//! compressed   80 00 │ length        │ zstd frames       │ checksum
//! ```
//!
//! `80 00` is a zero that [`write`] never writes, so both forms can be told apart.

use std::borrow::Cow;

use bytes::Bytes;

use threadfold_fold::{Record, RecordKind, StoredRecord, Timestamp};

use super::PackError;
use super::checksum;
use super::compress::{compress_frame, decompress};
use super::meta::{Batch, read_batches, write_batches};
use super::number::{Reader, write, write_signed};

/// The first bytes of a compressed row.
pub(super) const COMPRESSED: [u8; 2] = [0x80, 0];
/// A shorter row takes no more than a page, and most appends of a live session are shorter.
const LONG_ROW: usize = 4 << 10;
/// The first bytes of a zstd frame.
pub(super) const FRAME_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// How many bytes of a row are compressed together.
pub(super) const FRAME: usize = 128 << 10;
/// How many bytes are judged together where not all of a frame compresses well.
const SMALL_FRAME: usize = 64 << 10;

/// Packs the records from `first` on, with the appends that begin in them.
pub fn pack_row(first: u64, batches: &[Batch], records: &[Record]) -> Vec<u8> {
    let bytes: usize = records.iter().map(|record| record.bytes.len() + 24).sum();
    let mut body = Vec::with_capacity(bytes + 24 * batches.len() + 9);
    write_batches(&mut body, first, batches);
    for record in records {
        body.push(record.kind.code());
        write(&mut body, u64::from(record.source));
        write(&mut body, record.position);
        write_signed(&mut body, record.received.0);
        write(&mut body, record.bytes.len() as u64);
        body.extend_from_slice(&record.bytes);
    }
    finish(first, body)
}

/// Makes a row of its body: compressed if that pays, with a checksum.
fn finish(first: u64, body: Vec<u8>) -> Vec<u8> {
    let mut row = compressed(&body).unwrap_or(body);
    checksum::add(&mut row, &first.to_le_bytes());
    row
}

/// Returns the compressed form of a body, unless that is no shorter.
fn compressed(body: &[u8]) -> Option<Vec<u8>> {
    if body.len() < LONG_ROW {
        return None;
    }
    let mut row = COMPRESSED.to_vec();
    write(&mut row, body.len() as u64);
    for part in body.chunks(FRAME) {
        match reduced(part) {
            Some(frame) => row.extend(frame),
            None => write_small_frames(&mut row, part),
        }
    }
    (row.len() < body.len()).then_some(row)
}

/// Returns the compressed form of some bytes, if it is much shorter: two fifths are less than what
/// random digits become, and more than most text.
fn reduced(part: &[u8]) -> Option<Vec<u8>> {
    compress_frame(part).filter(|frame| frame.len() <= part.len() * 2 / 5)
}

/// Writes text of which some, such as an image, does not compress well.
fn write_small_frames(row: &mut Vec<u8>, part: &[u8]) {
    for part in part.chunks(SMALL_FRAME) {
        match reduced(part) {
            Some(frame) => row.extend(frame),
            None => write_plain_frame(row, part),
        }
    }
}

/// Writes a zstd frame that holds its content as it is, in one raw block.
fn write_plain_frame(out: &mut Vec<u8>, content: &[u8]) {
    out.extend(FRAME_MAGIC);
    // One segment, so no window follows; the size takes one byte, or two from which 256 is missing.
    match u8::try_from(content.len()) {
        Ok(length) => out.extend([0b0010_0000, length]),
        Err(_) => {
            out.push(0b0110_0000);
            out.extend(((content.len() - 256) as u16).to_le_bytes());
        }
    }
    let last_raw_block = (content.len() as u32) << 3 | 1;
    out.extend(&last_raw_block.to_le_bytes()[..3]);
    out.extend(content);
}

/// Returns the body of a row, after verifying its checksum.
fn open(first: u64, row: &[u8]) -> Result<Cow<'_, [u8]>, PackError> {
    let row = checksum::remove(row, &first.to_le_bytes())?;
    match row.strip_prefix(&COMPRESSED) {
        Some(rest) => {
            let mut reader = Reader::new(rest);
            let length = reader.length()?;
            Ok(Cow::Owned(decompress(reader.rest().to_vec(), length)?))
        }
        None => Ok(Cow::Borrowed(row)),
    }
}

/// Unpacks a row: the appends that begin in it, and its records.
pub fn unpack_row(
    first: u64,
    count: u64,
    row: &[u8],
) -> Result<(Vec<Batch>, Vec<StoredRecord>), PackError> {
    let body = open(first, row)?;
    let mut reader = Reader::new(&body);
    let batches = read_batches(&mut reader, first)?;
    let mut records = Vec::new();
    for index in 0..count {
        let kind = RecordKind::from_code(reader.byte()?);
        let source = u32::try_from(reader.number()?)
            .map_err(|_| PackError("a source number is out of range"))?;
        let position = reader.number()?;
        let received = Timestamp(reader.signed()?);
        let length = reader.length()?;
        let bytes = Bytes::copy_from_slice(reader.take(length)?);
        records.push(Record { kind, source, position, received, bytes }.at(first + index));
    }
    if !reader.is_at_end() {
        return Err(PackError("bytes follow the last record of a row"));
    }
    Ok((batches, records))
}

/// Merges consecutive rows, each given with its first record, into one.
pub fn merge_rows(rows: &[(u64, &[u8])]) -> Result<Vec<u8>, PackError> {
    let first = rows.first().map_or(0, |(first, _)| *first);
    let mut all = Vec::new();
    let mut records = Vec::new();
    for (row_first, row) in rows {
        let body = open(*row_first, row)?;
        let mut reader = Reader::new(&body);
        all.extend(read_batches(&mut reader, *row_first)?);
        records.extend_from_slice(reader.rest());
    }
    let mut body = Vec::with_capacity(records.len() + 24 * all.len());
    write_batches(&mut body, first, &all);
    body.append(&mut records);
    Ok(finish(first, body))
}
