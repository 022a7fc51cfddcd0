//! Unpacks what is left of damaged rows and groups.
//!
//! Their checksums no longer match, so each record is judged by itself: it must be text, and JSON
//! where it should be. Noise is neither. What cannot be judged is left out.

use std::io::Read;

use bytes::Bytes;
use memchr::{memchr, memmem};
use serde::de::IgnoredAny;
use threadfold_fold::{Record, RecordKind, StoredRecord, Timestamp};

use super::escape::unescape;
use super::meta::{RecordMeta, read_batches, read_meta};
use super::number::Reader;
use super::packer::PackedGroup;
use super::row::{COMPRESSED, FRAME, FRAME_MAGIC};
use super::{PackError, unpack_row};
use crate::blob::BlobHash;

/// Returns the records of a row that can still be read; its end may be missing.
///
/// Where records are lost, at least one number is left out.
pub fn salvage_row(first: u64, count: u64, row: &[u8]) -> Vec<StoredRecord> {
    if let Ok((_, records)) = unpack_row(first, count, row) {
        return records;
    }
    let is_compressed = row.starts_with(&COMPRESSED) || memmem::find(row, &FRAME_MAGIC).is_some();
    let found = match is_compressed {
        true => find_in_frames(row),
        false => find_records(after_batches(row), false),
    };
    number_found(first, count, found)
}

/// Returns the records in a part of a row whose beginning is missing, numbered from 1.
pub fn carve_records(part: &[u8]) -> Vec<StoredRecord> {
    let (framed, plain) = (find_in_frames(part), find_records(part, false));
    number_found(1, u64::MAX, if framed.len() > plain.len() { framed } else { plain })
}

/// Returns the body of a row without the appends at its beginning.
fn after_batches(body: &[u8]) -> &[u8] {
    let mut reader = Reader::new(body);
    if read_batches(&mut reader, 0).is_ok() { reader.rest() } else { body }
}

/// Finds the records of a compressed row, or of a part of one: in its intact frames, and between
/// them, where frames that hold plain text may be damaged.
fn find_in_frames(row: &[u8]) -> Vec<FoundRecord> {
    let mut reader = Reader::new(row.strip_prefix(&COMPRESSED).unwrap_or_default());
    let header = reader.length().ok().map(|_| row.len() - reader.rest().len());
    let (mut found, mut body, mut is_lost) = (Vec::new(), Vec::new(), header.is_none());
    let mut flush = |body: &mut Vec<u8>, is_lost: bool| {
        let body = std::mem::take(body);
        let rest = if is_lost { &body } else { after_batches(&body) };
        found.extend(find_records(rest, is_lost));
    };
    let (mut at, mut end) = (0, header.unwrap_or(0));
    while let Some(magic) = row.get(at..).and_then(|rest| memmem::find(rest, &FRAME_MAGIC)) {
        let start = at + magic;
        let Some((content, length)) = frame_at(&row[start..]) else {
            at = start + 1;
            continue;
        };
        if start > end {
            flush(&mut body, is_lost);
            is_lost = true;
            flush(&mut row[end..start].to_vec(), is_lost);
        }
        body.extend(content);
        at = start + length;
        end = at;
    }
    flush(&mut body, is_lost);
    flush(&mut row[end..].to_vec(), true);
    found
}

/// Decompresses the frame at the start of some bytes, and returns its content and its length;
/// nothing if its checksum does not match.
fn frame_at(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let length = zstd::zstd_safe::find_frame_compressed_size(bytes).ok()?;
    let content = zstd::bulk::decompress(bytes.get(..length)?, FRAME).ok()?;
    Some((content, length))
}

/// A record, and whether something before it is lost.
type FoundRecord = (Record, bool);

fn number_found(first: u64, count: u64, found: Vec<FoundRecord>) -> Vec<StoredRecord> {
    let mut seq = first;
    let mut records = Vec::new();
    // Damage before a record may have hit none, such as that of a header.
    let mut missing = count.saturating_sub(found.len() as u64);
    for (record, is_after_gap) in found {
        if is_after_gap && missing > 0 {
            missing -= 1;
            seq += 1;
        }
        if seq - first >= count {
            break;
        }
        records.push(record.at(seq));
        seq += 1;
    }
    records
}

/// Finds records one after another, and searches for the next one where one is damaged.
///
/// If `is_lost`, the bytes before these are damaged, and the first record may begin anywhere.
fn find_records(bytes: &[u8], mut is_lost: bool) -> Vec<FoundRecord> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        match record_at(&bytes[at..], is_lost) {
            Some((record, length)) => {
                found.push((record, is_lost));
                (at, is_lost) = (at + length, false);
            }
            None => (at, is_lost) = (at + 1, true),
        }
    }
    found
}

/// Reads the record at the start of some bytes, and returns it with its length. During a search,
/// only a complete line or a source is recognized.
fn record_at(bytes: &[u8], is_search: bool) -> Option<(Record, usize)> {
    let mut reader = Reader::new(bytes);
    let kind = RecordKind::from_code(reader.byte().ok()?);
    if is_search && !matches!(kind, RecordKind::Line | RecordKind::Source) {
        return None;
    }
    let source = u32::try_from(reader.number().ok()?).ok()?;
    let position = reader.number().ok()?;
    let received = Timestamp(reader.signed().ok()?);
    let length = reader.length().ok()?;
    let content = reader.take(length).ok()?;
    let is_found = match (is_search, kind) {
        (true, RecordKind::Line) => content.first() == Some(&b'{') && is_intact(kind, content),
        _ => is_intact(kind, content),
    };
    let record =
        Record { kind, source, position, received, bytes: Bytes::copy_from_slice(content) };
    is_found.then(|| (record, bytes.len() - reader.rest().len()))
}

/// Returns whether a record looks as it was written.
fn is_intact(kind: RecordKind, content: &[u8]) -> bool {
    let is_json = || serde_json::from_slice::<IgnoredAny>(content).is_ok();
    match kind {
        RecordKind::Line => {
            let is_one_line = memchr(b'\n', content).is_none_or(|at| at + 1 == content.len());
            let is_object = content.first() == Some(&b'{');
            is_one_line && is_text(content) && (!is_object || is_json())
        }
        RecordKind::Document | RecordKind::Partial | RecordKind::Piece | RecordKind::LastPiece => {
            is_text(content)
        }
        RecordKind::End => content.is_empty(),
        RecordKind::Source | RecordKind::Event | RecordKind::Slice | RecordKind::Observation => {
            is_json()
        }
        // A mark follows the JSON of a loop's record, and it is checked by whoever relies on it.
        RecordKind::Loop | RecordKind::Trust => content.first() == Some(&b'{'),
        _ => false,
    }
}

/// Returns whether bytes are text: UTF-8, without the control characters that noise has.
fn is_text(bytes: &[u8]) -> bool {
    let is_control = |byte: &u8| *byte < b' ' && !matches!(byte, b'\n' | b'\r' | b'\t');
    std::str::from_utf8(bytes).is_ok() && !bytes.iter().any(is_control)
}

/// Returns the records of a group that can still be read; `packed.content` may be damaged, and may
/// lack its end.
pub fn salvage_group(
    packed: &PackedGroup<'_>,
    mut blob: impl FnMut(&BlobHash) -> Option<Vec<u8>>,
) -> Vec<StoredRecord> {
    let mut reader = Reader::new(packed.content);
    let mut lengths = Vec::new();
    for _ in 0..packed.count {
        match reader.length() {
            Ok(length) => lengths.push(length),
            Err(_) => return Vec::new(),
        }
    }
    let mut contents = Vec::new();
    for length in &lengths {
        let escaped = reader.take(*length).ok();
        contents.push(escaped.and_then(|escaped| {
            let mut find = |hash: &BlobHash| blob(hash).ok_or(PackError("a blob is missing"));
            unescape(escaped, packed.session, &mut find).ok()
        }));
    }
    // The length of a lost record is not known. A guess that is too large leaves a gap in its file;
    // one that is too small would make the next record overwrite the one before.
    let guess = |escaped: usize| escaped * packed.session.len().max(1);
    let whole: Vec<usize> = contents
        .iter()
        .zip(&lengths)
        .map(|(content, escaped)| content.as_ref().map_or(guess(*escaped), Vec::len))
        .collect();
    let Ok(metas) = read_meta(packed.meta, packed.first, packed.hash, &whole) else {
        return Vec::new();
    };
    let records = metas.into_iter().zip(contents).zip(packed.first..);
    records
        .filter_map(|((meta, content), seq)| {
            let RecordMeta { kind, source, position, received } = meta;
            let bytes = Bytes::from(content.filter(|it| is_intact(kind, it))?);
            Some(Record { kind, source, position, received, bytes }.at(seq))
        })
        .collect()
}

/// Reverses [`compress`](super::compress) as far as possible: up to the first damaged block.
pub fn decompress_partly(compressed: &[u8], length: usize) -> Vec<u8> {
    if compressed.len() >= length {
        return compressed[..length].to_vec();
    }
    let mut out = Vec::new();
    if let Ok(decoder) = zstd::stream::read::Decoder::new(compressed) {
        // What was read before an error stays.
        decoder.take(length as u64).read_to_end(&mut out).ok();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::BatchId;
    use crate::pack::{Batch, Group, Packer, compress, pack_row};

    /// Returns lines of text that hardly compresses.
    fn lines(count: usize) -> Vec<Record> {
        const LETTERS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut position = 0;
        let mut number = 7_u64;
        let mut letter = || {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from(LETTERS[(number >> 58) as usize])
        };
        (0..count)
            .map(|line| {
                let text: String = (0..128).map(|_| letter()).collect();
                let bytes = Bytes::from(format!("{{\"n\":{line},\"text\":\"{text}\"}}\n"));
                let record = Record::new(RecordKind::Line, 1, position, bytes);
                position += record.bytes.len() as u64;
                record
            })
            .collect()
    }

    fn noise(bytes: &mut [u8]) {
        bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at * 167 + 13) as u8);
    }

    /// Checks that nothing is made up, and returns how many records were found. The position of a
    /// record behind a damaged one may be a guess, which is never too small.
    fn count(found: &[StoredRecord], all: &[Record]) -> usize {
        let is_known = |it: &StoredRecord| {
            let is_same = |known: &&Record| known.bytes == it.record.bytes;
            all.iter().find(is_same).is_some_and(|known| known.position <= it.record.position)
        };
        assert!(found.iter().all(is_known));
        assert!(found.is_sorted_by_key(|it| it.seq));
        found.len()
    }

    #[test]
    fn a_damaged_row_loses_the_records_at_the_damage() {
        let all = lines(200);
        let batch = Batch { id: BatchId([7; 16]), first: 5, count: 200 };
        let row = pack_row(5, &[batch], &all);
        for start in [0, 3, 30, 5_000, 20_000, row.len() - 4_096] {
            let mut damaged = row.clone();
            noise(&mut damaged[start..start + 4_096]);
            let found = count(&salvage_row(5, 200, &damaged), &all);
            assert!(found >= 160, "{found} with noise at {start}");
            let cut = count(&salvage_row(5, 200, &row[..start]), &all);
            assert!(cut + 1 >= 200 * start / row.len(), "{cut} of the first {start} bytes");
            let carved = count(&carve_records(&row[start..]), &all);
            assert!(carved + 2 >= 200 - 200 * start / row.len(), "{carved} from {start} on");
        }
    }

    #[test]
    fn a_damaged_compressed_row_loses_the_records_of_the_damaged_frame() {
        let text = "the same words again and again, ".repeat(20);
        let line = |number: usize| Bytes::from(format!("{{\"n\":{number},\"text\":\"{text}\"}}\n"));
        let all: Vec<Record> =
            (0..800).map(|it| Record::new(RecordKind::Line, 1, it as u64, line(it))).collect();
        let size: usize = all.iter().map(|it| it.bytes.len()).sum();
        let batch = Batch { id: BatchId([7; 16]), first: 5, count: 800 };
        let row = pack_row(5, &[batch], &all);
        assert!(row.len() < size / 10, "{} of {size} bytes", row.len());
        // A frame has about two hundred, and cuts one at each end.
        for start in (0..row.len()).step_by(97) {
            let mut damaged = row.clone();
            let end = (start + 50).min(row.len());
            noise(&mut damaged[start..end]);
            let found = count(&salvage_row(5, 800, &damaged), &all);
            assert!(found >= 380, "{found} with noise at {start} of {}", row.len());
            assert!(found < 800 || start + 50 >= row.len() - 8 || start < 8, "{start}");
            let carved = count(&carve_records(&row[start..]), &all);
            let rest = 800 - 800 * start / row.len();
            assert!(carved + 400 >= rest, "{carved} from {start} on, of {rest}");
        }
        assert!(salvage_row(5, 800, &row[..row.len() - 1]).iter().eq(&{
            let numbered = all.iter().cloned().zip(5..);
            numbered.map(|(it, seq)| it.at(seq)).collect::<Vec<_>>()
        }));
    }

    fn group(all: &[Record]) -> Group {
        let mut packer = Packer::new("session", 1);
        all.iter().find_map(|record| packer.push(record)).expect("there are enough for a group")
    }

    #[test]
    fn a_damaged_group_loses_the_records_at_the_damage() {
        let all = lines(6_000);
        let Group { first, count: records, meta, hash, content, .. } = group(&all);
        let compressed = compress(&content);
        let found = |content: &[u8]| {
            let packed = PackedGroup {
                session: "session",
                first,
                count: records,
                meta: &meta,
                hash: &hash,
                content,
            };
            count(&salvage_group(&packed, |_| None), &all)
        };
        assert_eq!(found(&content), records as usize);
        assert!(found(&content[..content.len() * 3 / 4]) > records as usize / 2);
        let mut damaged = content.clone();
        let middle = content.len() / 2;
        noise(&mut damaged[middle..middle + 4_096]);
        let left = found(&damaged);
        assert!(left > 10 && left < records as usize, "{left} of {records}");
        assert_eq!(decompress_partly(&compressed, content.len()), content);
        let half = decompress_partly(&compressed[..compressed.len() / 2], content.len());
        assert!(content.starts_with(&half));
    }
}
