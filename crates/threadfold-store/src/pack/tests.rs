//! Whatever goes in comes out, and what two sessions share is the same bytes.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;

use threadfold_fold::{Record, RecordKind, StoredRecord, Timestamp};

use super::*;
use crate::blob::BlobHash;
use crate::log::BatchId;

/// Packs all that makes whole groups, and unpacks it again.
fn there_and_back(session: &str, records: &[Record]) -> (Vec<Group>, Vec<StoredRecord>) {
    let mut packer = Packer::new(session, 1);
    let groups: Vec<Group> = records.iter().filter_map(|record| packer.push(record)).collect();
    let mut blobs = HashMap::new();
    for extracts in groups.iter().flat_map(|group| &group.extracts) {
        blobs.insert(extracts.hash, extracts.bytes.clone());
    }
    let unpacked = groups.iter().flat_map(|group| {
        let packed = PackedGroup {
            session,
            first: group.first,
            count: group.count,
            meta: &group.meta,
            hash: &group.hash,
            content: &group.content,
        };
        unpack(&packed, |hash| blobs.get(hash).cloned().ok_or(PackError("missing"))).unwrap()
    });
    let unpacked = unpacked.collect();
    (groups, unpacked)
}

fn line(bytes: impl Into<Bytes>) -> Record {
    Record {
        kind: RecordKind::Line,
        source: 1,
        position: 0,
        received: Timestamp(0),
        bytes: bytes.into(),
    }
}

/// Ends every group: a record of more bytes than a group may have, none of them in one text.
fn stopper() -> Record {
    line(br#""a","b","#.repeat(150_000)).tap_long_text()
}

trait TapLongText {
    fn tap_long_text(self) -> Self;
}

impl TapLongText for Record {
    /// Adds one long text, so that the rest stays in the group.
    fn tap_long_text(mut self) -> Self {
        let mut bytes = self.bytes.to_vec();
        bytes.push(b'"');
        bytes.extend(b"x".repeat(20 << 10));
        bytes.push(b'"');
        self.bytes = bytes.into();
        self
    }
}

fn any_record(session: &'static str) -> impl Strategy<Value = Record> {
    let piece = prop_oneof![
        vec(any::<u8>(), 0..20),
        Just(session.as_bytes().to_vec()),
        Just(vec![0xff]),
        Just(vec![0xff, 1]),
        Just(b"\"".to_vec()),
        Just(b"\\".to_vec()),
        vec(prop_oneof![Just(b'x'), Just(0xff), Just(b'\\')], (16 << 10)..(17 << 10)),
        Just(vec![b'y'; 70 << 10]),
    ];
    let bytes = vec(piece, 0..6).prop_map(|pieces| pieces.concat());
    (any::<u8>(), any::<u32>(), any::<u64>(), any::<i64>(), bytes).prop_map(
        |(kind, source, position, received, bytes)| Record {
            kind: RecordKind::from_code(kind),
            source,
            position,
            received: Timestamp(received),
            bytes: bytes.into(),
        },
    )
}

fn any_records() -> impl Strategy<Value = (&'static str, Vec<Record>)> {
    let ids = ["", "a", "\"", "\\", "7f3a9c1e-44d2", "x\"y", "\u{0}id\u{ff}"];
    prop::sample::select(ids.to_vec()).prop_flat_map(|id| (Just(id), vec(any_record(id), 0..8)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_records_come_back_exactly((session, mut records) in any_records()) {
        records.push(stopper());
        let (_, unpacked) = there_and_back(session, &records);
        let expected: Vec<StoredRecord> =
            records.into_iter().zip(1..).map(|(record, seq)| record.at(seq)).collect();
        prop_assert!(unpacked == expected);
    }

    #[test]
    fn any_append_comes_back_exactly((_, records) in any_records(), first in 1_u64..1 << 40) {
        let unpacked = unpack_row(first, records.len() as u64, &pack_row(first, &[], &records));
        let expected: Vec<StoredRecord> =
            records.into_iter().zip(first..).map(|(record, seq)| record.at(seq)).collect();
        prop_assert_eq!(unpacked, Ok((Vec::new(), expected)));
    }

    #[test]
    fn bytes_that_are_not_a_group_are_refused_without_a_panic(
        meta in vec(any::<u8>(), 0..60),
        content in vec(any::<u8>(), 0..60),
        count in 0_u64..20,
    ) {
        let (mut meta, mut row, hash) = (meta, content.clone(), BlobHash::of(&content));
        checksum::add(&mut meta, &[&1_u64.to_le_bytes(), hash.as_bytes().as_slice()].concat());
        checksum::add(&mut row, &1_u64.to_le_bytes());
        let packed =
            PackedGroup { session: "s", first: 1, count, meta: &meta, hash: &hash, content: &content };
        let unpacked = unpack(&packed, |_| Ok::<_, PackError>(Vec::new()));
        prop_assert!(unpacked.is_err() || unpacked.is_ok_and(|it| it.len() as u64 == count));
        prop_assert!(batches(&meta, 1).is_ok() || batches(&meta, 1).is_err());
        prop_assert!(unpack_row(1, count, &row).is_err() || count as usize <= content.len());
    }

    #[test]
    fn compressed_bytes_round_trip(bytes in vec(any::<u8>(), 0..2000), repeat in 1_usize..9) {
        let bytes = bytes.repeat(repeat);
        prop_assert_eq!(decompress(compress(&bytes), bytes.len()), Ok(bytes));
    }
}

fn lines_of(session: &str, numbers: Range<usize>) -> Vec<Record> {
    let mut position = 0;
    numbers
        .map(|number| {
            let text = "lorem ipsum ".repeat(number % 97);
            let bytes =
                format!("{{\"sessionId\":\"{session}\",\"n\":{number},\"text\":\"{text}\"}}\n");
            let record = Record { position, ..line(bytes) };
            position += record.bytes.len() as u64;
            record
        })
        .collect()
}

#[test]
fn a_fork_makes_the_same_groups() {
    let (original, _) = there_and_back("11111111-aaaa", &lines_of("11111111-aaaa", 0..4000));
    let (fork, _) = there_and_back("22222222-bbbb", &lines_of("22222222-bbbb", 0..4000));
    assert!(original.len() > 10);
    assert!(original.iter().zip(&fork).all(|(one, other)| one.content == other.content));
}

#[test]
fn groups_of_logs_with_different_beginnings_become_equal() {
    let names = |records: &[Record]| -> BTreeSet<BlobHash> {
        there_and_back("id-of-session", records)
            .0
            .iter()
            .map(|group| BlobHash::of(&group.content))
            .collect()
    };
    let whole = names(&lines_of("id-of-session", 0..4000));
    let later = names(&lines_of("id-of-session", 900..4000));
    assert!(later.intersection(&whole).count() + 3 >= later.len(), "of {}", later.len());
}

#[test]
fn the_metadata_of_a_file_takes_less_than_a_byte_per_record() {
    let (groups, _) = there_and_back("id", &lines_of("id", 0..4000));
    let records: u64 = groups.iter().map(|group| group.count).sum();
    let meta: usize = groups.iter().map(|group| group.meta.len()).sum();
    assert!(meta < records as usize / 4, "{meta} bytes for {records} records");
}

#[test]
fn long_texts_are_stored_separately_and_referenced() {
    let text = "t".repeat(20 << 10);
    let other = "u".repeat(20 << 10);
    let record = line(format!("{{\"a\":\"{text}\",\"b\":\"short\",\"c\":\"{other}\"}}"));
    let twice = line(format!("[\"{text}\",\"{text}\"]"));
    let (groups, unpacked) = there_and_back("id", &[twice.clone(), stopper()]);
    assert_eq!(
        (groups[0].extracts.len(), &unpacked[0].bytes),
        (2, &twice.bytes),
        "it is stored once"
    );
    let (groups, _) = there_and_back("id", &[record, stopper()]);
    let taken: Vec<usize> = groups[0].extracts.iter().map(|it| it.bytes.len()).collect();
    assert_eq!(taken, [20 << 10; 3]);
    let named = named_blobs(&groups[0].content, groups[0].count).unwrap();
    assert!(named.iter().eq(groups[0].extracts.iter().map(|it| &it.hash)));
}

#[test]
fn a_quote_within_a_text_does_not_end_it() {
    let text = "\\\"".repeat(10 << 10);
    let (groups, _) = there_and_back("id", &[line(format!("[\"{text}\"]")), stopper()]);
    assert_eq!(groups[0].extracts[0].bytes, text.into_bytes());
}

#[test]
fn a_flipped_bit_is_detected() {
    let row = pack_row(5, &[], &[line("some bytes"), line("more")]);
    let (groups, _) = there_and_back("id", &[line("some bytes"), stopper()]);
    let group = &groups[0];
    let unpack_with = |meta: &[u8]| {
        let (first, count, hash, content) = (group.first, group.count, &group.hash, &group.content);
        let packed = PackedGroup { session: "id", first, count, meta, hash, content };
        unpack(&packed, |_| Ok::<_, PackError>(Vec::new()))
    };
    for bit in 0..row.len() * 8 {
        let mut flipped = row.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(unpack_row(5, 2, &flipped).is_err());
    }
    for bit in 0..group.meta.len() * 8 {
        let mut flipped = group.meta.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(unpack_with(&flipped).is_err());
    }
    assert!(unpack_row(5, 2, &row).is_ok() && unpack_with(&group.meta).is_ok());
}

#[test]
fn an_append_is_found_in_the_group_where_it_begins() {
    let batch = Batch { id: BatchId([7; 16]), first: 12, count: 900 };
    let mut packer = Packer::new("id", 11);
    assert!(packer.push(&line("before")).is_none());
    packer.begin(batch);
    let group = packer.push(&stopper()).unwrap();
    assert_eq!(batches(&group.meta, group.first), Ok(vec![batch]));
}

#[test]
fn rows_that_follow_each_other_make_one() {
    let batch = |first, count| Batch { id: BatchId([first as u8; 16]), first, count };
    let one = pack_row(5, &[batch(5, 2)], &[line("a"), line("b")]);
    let other = pack_row(7, &[batch(7, 1)], &[line("c")]);
    let merged = merge_rows(&[(5, &one), (7, &other)]).unwrap();
    let records = [line("a").at(5), line("b").at(6), line("c").at(7)].to_vec();
    assert_eq!(unpack_row(5, 3, &merged), Ok((vec![batch(5, 2), batch(7, 1)], records)));
}

/// Returns records as they come back from a log.
fn stored(records: &[Record], first: u64) -> Vec<StoredRecord> {
    records.iter().cloned().zip(first..).map(|(record, seq)| record.at(seq)).collect()
}

#[test]
fn a_long_row_is_compressed_where_that_saves_much() {
    let lines = lines_of("id", 0..300);
    let size: usize = lines.iter().map(|it| it.bytes.len()).sum();
    let row = pack_row(5, &[], &lines);
    assert!(size > 100_000 && row.len() < size / 4, "{} of {size} bytes", row.len());
    assert_eq!(unpack_row(5, 300, &row), Ok((Vec::new(), stored(&lines, 5))));

    // One of a live session, and one whose text hardly compresses: damage costs only what it hits.
    let mut number = 1_u64;
    let mut digits = || {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        format!("{number:016x}").into_bytes()
    };
    let noise: Vec<u8> = std::iter::repeat_with(&mut digits).take(10_000).flatten().collect();
    for text in [b"x".repeat(1000), noise.clone()] {
        let row = pack_row(5, &[], &[line(text.clone())]);
        assert!(row.windows(text.len()).any(|it| it == text), "{} bytes", text.len());
    }
    // Of one that is partly so, the rest is compressed.
    let mixed = [lines, vec![line(noise.clone())]].concat();
    let row = pack_row(5, &[], &mixed);
    assert!(row.len() < noise.len() + size / 4, "{} of {} bytes", row.len(), noise.len() + size);
    let is_plain = |part: &[u8]| row.windows(part.len()).any(|it| it == part);
    // At most one of them is cut by the end of a frame.
    assert!(is_plain(&noise[140_000..141_000]) || is_plain(&noise[150_000..151_000]));
    assert_eq!(unpack_row(5, 301, &row), Ok((Vec::new(), stored(&mixed, 5))));
}

#[test]
fn long_rows_of_earlier_versions_are_read() {
    let lines = lines_of("id", 0..300);
    let batch = Batch { id: BatchId([7; 16]), first: 5, count: 300 };
    let mut earlier = Vec::new();
    meta::write_batches(&mut earlier, 5, &[batch]);
    for record in &lines {
        earlier.push(record.kind.code());
        number::write(&mut earlier, u64::from(record.source));
        number::write(&mut earlier, record.position);
        number::write_signed(&mut earlier, record.received.0);
        number::write(&mut earlier, record.bytes.len() as u64);
        earlier.extend_from_slice(&record.bytes);
    }
    checksum::add(&mut earlier, &5_u64.to_le_bytes());
    assert_eq!(unpack_row(5, 300, &earlier), Ok((vec![batch], stored(&lines, 5))));

    let later = lines_of("id", 300..600);
    let merged = merge_rows(&[(5, &earlier), (305, &pack_row(305, &[], &later))]).unwrap();
    let all = [stored(&lines, 5), stored(&later, 305)].concat();
    assert_eq!(unpack_row(5, 600, &merged), Ok((vec![batch], all)));
    assert!(merged.len() < earlier.len() / 2, "{} of {} bytes", merged.len(), earlier.len());
}

#[test]
fn a_group_can_be_ended_before_its_size_ends_it() {
    let mut packer = Packer::new("id", 1);
    let lines = lines_of("id", 0..10);
    assert!(lines.iter().all(|it| packer.push(it).is_none()));
    let group = packer.finish().unwrap();
    assert_eq!((group.first, group.count, group.last()), (1, 10, 10));
    assert!(Packer::new("id", 1).finish().is_none());
}

#[test]
fn a_directory_survives_a_round_trip() {
    let entry = |session, range: Range<usize>| DirectoryEntry {
        session,
        first: 900,
        count: 3,
        latest: Timestamp(-5),
        range,
    };
    let entries = [entry(1, 0..10), entry(u64::MAX, 10..10), entry(7, 10..5000)];
    assert_eq!(unpack_directory(&pack_directory(&entries)), Ok(entries.to_vec()));
}

#[test]
fn pieces_are_the_same_after_an_insertion() {
    let mut numbers = 1_u64;
    let mut bytes: Vec<u8> = Vec::new();
    while bytes.len() < 2 << 20 {
        numbers = numbers.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        bytes.extend(numbers.to_le_bytes());
    }
    let pieces = |bytes: &[u8]| -> BTreeSet<BlobHash> {
        chunks(bytes).map(|piece| BlobHash::of(&bytes[piece])).collect()
    };
    let before = pieces(&bytes);
    bytes.splice(5..5, *b"inserted");
    let shared = pieces(&bytes).intersection(&before).count();
    assert!(shared + 3 >= before.len(), "{shared} of {}", before.len());
}
