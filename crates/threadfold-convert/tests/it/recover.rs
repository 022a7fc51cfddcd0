//! Records recovered from corrupt lines.

use std::str;

use insta::assert_snapshot;
use proptest::prelude::*;
use serde_json::value::RawValue;
use threadfold_convert::lines::lines;
use threadfold_convert::recover::{Damage, Piece, as_text, records};

use crate::law;

/// Returns a line of text for each piece of each line: number, offset of a loss, what it is.
fn show(bytes: &[u8]) -> String {
    let mut shown = Vec::new();
    for line in lines(bytes) {
        law::pieces_cover_the_line(line.bytes);
        for piece in records(line.bytes) {
            shown.push(match piece {
                Piece::Record(text) => format!("{}: {text}", line.number),
                Piece::Lost { bytes, why, offset } => {
                    let bytes = bytes.escape_ascii().to_string().replace("\\\"", "\"");
                    format!("{}+{offset}: lost ({why}): {bytes}", line.number)
                }
            });
        }
    }
    shown.join("\n")
}

macro_rules! hostile {
    ($name:literal) => {
        show(include_bytes!(concat!("../data/hostile/", $name, ".jsonl")))
    };
}

#[test]
fn a_record_spliced_into_a_string_is_recovered() {
    assert_snapshot!(hostile!("spliced-in-a-string"), @r#"
    1+0: lost (not valid JSON): {"type":"assistant","uuid":"a1","message":{"content":[{"type":"text","text":"Hello,
    1: {"type":"user","uuid":"u1","message":{"role":"user","content":"Hi"}}
    2+0: lost (not valid JSON): there"}]},"timestamp":"t1"}
    3: {"type":"summary","summary":"Greetings"}
    "#);
}

#[test]
fn a_record_spliced_in_place_of_a_value_is_recovered() {
    assert_snapshot!(hostile!("spliced-at-a-value"), @r#"
    1+0: lost (not valid JSON): {"type":"assistant","uuid":"a1","message":
    1: {"type":"user","uuid":"u1","message":{"role":"user","content":"Hi"}}
    2+0: lost (not valid JSON): {"type":"assistant","uuid":"a2","message":{"content":[
    2: {"type":"user","uuid":"u1","message":{"role":"user","content":"Hi"}}
    "#);
}

#[test]
fn a_truncated_last_line_is_lost_with_all_its_content() {
    assert_snapshot!(hostile!("torn"), @r#"
    1: {"type":"user","uuid":"u1","message":{"role":"user","content":"Hi"}}
    2+0: lost (not valid JSON): {"type":"assistant","uuid":"a1","message":{"content":[{"type":"text","text":"Hello"}
    "#);
}

#[test]
fn records_around_zero_bytes_are_recovered() {
    assert_snapshot!(hostile!("nul"), @r#"
    1+0: lost (a run of zero bytes): \x00\x00\x00\x00\x00\x00\x00\x00
    1: {"type":"user","uuid":"u1","message":{"role":"user","content":"Hi"}}
    2+0: lost (not valid JSON): {"type":"assistant","uuid":"a1","mess
    2+37: lost (a run of zero bytes): \x00\x00\x00\x00\x00
    2: {"type":"summary","summary":"Greetings"}
    3: {"type":"user","uuid":"u1","message":{"role":"user","content":"Hi"}}
    3+68: lost (a run of zero bytes): \x00\x00\x00
    4+0: lost (a run of zero bytes): \x00\x00\x00\x00
    5+0: lost (not valid JSON): {"type":"user","message":{"content":[
    5+37: lost (a run of zero bytes): \x00\x00
    5+39: lost (not valid JSON): {"type":"text","text":"b"}]}}
    "#);
}

#[test]
fn a_record_with_invalid_utf8_loses_no_other_record() {
    assert_snapshot!(hostile!("bad-utf8"), @r#"
    1+0: lost (not UTF-8): {"type":"user","uuid":"u1","text":"caf\xe9"}
    2+0: lost (not UTF-8): {"type":"user","text":"\xf0\x9f"}
    2: {"type":"user","text":"é"}
    3+0: lost (not UTF-8): \xff\xfe
    3: {"type":"user","uuid":"u1","message":{"role":"user","content":"Hi"}}
    "#);
}

#[test]
fn lone_surrogates_pass() {
    assert_snapshot!(hostile!("lone-surrogates"), @r#"
    1: {"type":"user","text":"\ud83d"}
    2: {"type":"user","text":"\ude00 \u0000"}
    "#);
}

#[test]
fn duplicate_keys_and_numbers_beyond_floats_pass() {
    assert_snapshot!(hostile!("duplicate-keys"), @r#"1: {"type":"user","type":"assistant","uuid":"1","uuid":"2","n":1e400}"#);
}

#[test]
fn a_byte_order_mark_and_carriage_returns_are_not_part_of_a_record() {
    assert_snapshot!(hostile!("bom-and-crlf"), @r#"
    1: {"type":"user"}
    4: {"type":"assistant"}
    "#);
}

#[test]
fn every_record_of_a_line_is_found() {
    assert_snapshot!(hostile!("two-on-a-line"), @r#"
    1: {"type":"user"}
    1: {"type":"assistant"}
    2: {"a":1}
    2: {"b":2}
    2: {"c":3}
    3: {"type":"user"}
    3+15: lost (not valid JSON): {"type":"assi
    "#);
}

#[test]
fn values_that_are_not_objects_are_lost_and_reported() {
    assert_snapshot!(hostile!("not-objects"), @r#"
    1+0: lost (JSON, but not an object): [{"type":"user"},{"type":"assistant"}]
    2+0: lost (JSON, but not an object): "text"
    3+0: lost (JSON, but not an object): 12
    4+0: lost (not valid JSON): Warning: low disk space
    5+0: lost (JSON, but not an object): null
    5: {"type":"user"}
    "#);
}

/// Records as agents write them, with content that has a `type` of its own.
const RECORDS: [&str; 4] = [
    r#"{"parentUuid":null,"type":"user","message":{"role":"user","content":"say \"{\", [é]"},"uuid":"u1","timestamp":"2026-01-02T03:04:05Z","sessionId":"s"}"#,
    r#"{"parentUuid":"u1","message":{"id":"m1","type":"message","role":"assistant","content":[{"type":"thinking","thinking":"","signature":"x=="},{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"echo '{\"a\":1}'","n":-1.5e3}}],"usage":{"input_tokens":3}},"type":"assistant","uuid":"a1","timestamp":"2026-01-02T03:04:06Z"}"#,
    r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"{"}},"session_id":"s","parent_tool_use_id":null,"uuid":"e1"}"#,
    r#"{"timestamp":"2026-01-02T03:04:07Z","type":"response_item","payload":{"type":"message","content":[{"type":"input_text","text":"a\\"},{"type":"input_text","text":""}]}}"#,
];

fn recovered(line: &[u8]) -> Vec<&str> {
    law::pieces_cover_the_line(line);
    let found = records(line).filter_map(|it| match it {
        Piece::Record(text) => Some(text),
        Piece::Lost { .. } => None,
    });
    found.collect()
}

/// Calls `each` with every pair of records, and every way to cut the first in two.
fn every_cut(mut each: impl FnMut(&[u8], &[u8], &str)) {
    for broken in RECORDS {
        for whole in RECORDS {
            for cut in 1..broken.len() {
                let (head, tail) = broken.as_bytes().split_at(cut);
                each(head, tail, whole);
            }
        }
    }
}

#[test]
fn a_record_after_any_head_of_another_is_recovered() {
    every_cut(|head, _, whole| {
        assert_eq!(recovered(&[head, whole.as_bytes()].concat()), [whole]);
        assert_eq!(recovered(&[head, b"\0\0", whole.as_bytes()].concat()), [whole]);
        let two = [head, whole.as_bytes(), whole.as_bytes()].concat();
        assert_eq!(recovered(&two), [whole, whole]);
    });
}

#[test]
fn a_record_in_the_middle_of_another_is_recovered_unless_they_make_one() {
    every_cut(|head, tail, whole| {
        let line = [head, whole.as_bytes(), tail].concat();
        let both =
            str::from_utf8(&line).ok().filter(|it| serde_json::from_str::<&RawValue>(it).is_ok());
        assert_eq!(recovered(&line), [both.unwrap_or(whole)]);
    });
}

#[test]
fn a_record_after_any_tail_of_another_is_recovered() {
    every_cut(|_, tail, whole| {
        assert_eq!(recovered(&[tail, whole.as_bytes()].concat()), [whole]);
    });
}

#[test]
fn a_record_before_any_head_or_tail_of_another_is_recovered() {
    every_cut(|head, tail, whole| {
        assert_eq!(recovered(&[whole.as_bytes(), head].concat()), [whole]);
        assert_eq!(recovered(&[whole.as_bytes(), tail].concat()), [whole]);
    });
}

#[test]
fn no_head_and_no_tail_of_a_record_passes_for_one() {
    every_cut(|head, tail, _| {
        assert_eq!(recovered(head), [""; 0]);
        assert_eq!(recovered(tail), [""; 0]);
        assert_eq!(recovered(&[head, b"\0\0\0", tail].concat()), [""; 0]);
    });
}

#[test]
fn a_hundred_thousand_levels_pass() {
    let deep =
        format!(r#"{{"type":"user","deep":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(recovered(deep.as_bytes()), [&deep]);
    let torn = &deep.as_bytes()[..deep.len() - 1];
    assert_eq!(recovered(torn), [""; 0]);
    let spliced = [torn, RECORDS[0].as_bytes()].concat();
    assert_eq!(recovered(&spliced), [RECORDS[0]]);
}

#[test]
fn lines_with_very_many_record_starts_take_linear_time() {
    // With a scan from each beginning to the end of the line, each would take minutes.
    for part in [r#"{""#, r#"{"a":"#, r#"x{"a":"#, r#"{"type":"","uuid":{"#, r#"{",":[",",":"#] {
        let line = part.repeat(200_000);
        let pieces: Vec<_> = records(line.as_bytes()).collect();
        assert_eq!(
            pieces,
            [Piece::Lost { bytes: line.as_bytes(), why: Damage::NotJson, offset: 0 }]
        );
    }
    let empty = "{}".repeat(200_000);
    assert_eq!(records(empty.as_bytes()).filter(|it| *it == Piece::Record("{}")).count(), 200_000);
    let closed = r#"{"a":{"type":1,"uuid":2}"#.repeat(20_000);
    assert_eq!(recovered(closed.as_bytes()).len(), 20_000);
}

#[test]
fn a_good_line_is_text() {
    assert_eq!(as_text("{\"é\":1}".as_bytes()), Some("{\"é\":1}"));
    assert_eq!(as_text(b"{\"\xe9\":1}"), None);
}

/// Lines of whole records and pieces of them, in which some bytes were replaced.
fn damaged_line() -> impl Strategy<Value = Vec<u8>> {
    let index = any::<prop::sample::Index>;
    let part = (index(), index(), index()).prop_map(|(which, one, other)| {
        let record = which.get(&RECORDS).as_bytes();
        let (one, other) = (one.index(record.len() + 1), other.index(record.len() + 1));
        record[one.min(other)..one.max(other)].to_vec()
    });
    let whole = index().prop_map(|it| it.get(&RECORDS).as_bytes().to_vec());
    let parts = prop::collection::vec(prop_oneof![part, whole], 0..5);
    let byte = prop_oneof![Just(0), Just(b'"'), Just(b'{'), Just(b','), Just(0xff), any::<u8>()];
    let flips = prop::collection::vec((index(), byte), 0..4);
    (parts, flips).prop_map(|(parts, flips)| {
        let mut line = parts.concat();
        for (index, byte) in flips.iter().filter(|_| !line.is_empty()).collect::<Vec<_>>() {
            let at = index.index(line.len());
            line[at] = *byte;
        }
        line
    })
}

proptest! {
    #[test]
    fn no_byte_of_any_line_is_dropped(line in prop::collection::vec(any::<u8>(), 0..64)) {
        law::pieces_cover_the_line(&line);
    }

    #[test]
    fn no_byte_of_a_corrupt_line_is_dropped(line in damaged_line()) {
        law::pieces_cover_the_line(&line);
    }
}
