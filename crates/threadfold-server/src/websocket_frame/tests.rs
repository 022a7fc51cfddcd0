//! Tests of the reader of client frames, among others with frames that a client library writes.

use tokio_tungstenite::tungstenite::protocol::frame::coding::{Control, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::frame::{Frame, FrameHeader};

use super::law::{any_bytes_are_read_or_refused, read};
use super::*;

/// Returns a masked frame, as a client library writes it.
fn masked(kind: OpCode, is_final: bool, content: &[u8]) -> Vec<u8> {
    let header =
        FrameHeader { is_final, opcode: kind, mask: Some([7, 99, 3, 255]), ..Default::default() };
    let frame = Frame::from_payload(header, content.to_vec().into());
    let mut bytes = Vec::new();
    frame.format(&mut bytes).unwrap();
    bytes
}

fn text(is_final: bool, content: &[u8]) -> Vec<u8> {
    masked(OpCode::Data(Data::Text), is_final, content)
}

fn more(is_final: bool, content: &[u8]) -> Vec<u8> {
    masked(OpCode::Data(Data::Continue), is_final, content)
}

#[test]
fn messages_are_read_wherever_they_are_cut() {
    let long = "ä".repeat(20_000);
    let sent = [
        text(true, b"one"),
        text(false, b"tw"),
        masked(OpCode::Control(Control::Ping), true, b"?"),
        more(false, "\u{f6}".as_bytes()),
        more(true, b""),
        text(true, long.as_bytes()),
        text(true, &[b'x'; 126]),
        masked(OpCode::Control(Control::Pong), true, b""),
        masked(OpCode::Control(Control::Close), true, &[3, 232]),
    ]
    .concat();
    let expected = [
        ClientMessage::Text("one".into()),
        ClientMessage::Ping(Bytes::from_static(b"?")),
        ClientMessage::Text("tw\u{f6}".into()),
        ClientMessage::Text(long),
        ClientMessage::Text("x".repeat(126)),
        ClientMessage::Pong,
        ClientMessage::Close(1000),
    ];
    for chunk in [1, 2, 3, 7, 64, 4096, sent.len()] {
        let (messages, violation) = read(&sent, chunk);
        assert_eq!((messages.as_slice(), violation), (&expected[..], None));
    }
}

#[test]
fn a_character_may_be_divided_between_two_frames() {
    let sent = [text(false, b"\xc3"), more(true, b"\xb6")].concat();
    assert_eq!(read(&sent, 1).0, [ClientMessage::Text("ö".into())]);
}

#[test]
fn what_the_protocol_forbids_closes_the_connection_with_its_code() {
    let mut unmasked = text(true, b"x");
    unmasked[1] &= 0x7f;
    let mut reserved = text(true, b"x");
    reserved[0] |= 0x40;
    let mut unknown = text(true, b"x");
    unknown[0] = 0x83;
    let mut divided = masked(OpCode::Control(Control::Ping), true, b"x");
    divided[0] &= 0x7f;
    let close = |content: &[u8]| masked(OpCode::Control(Control::Close), true, content);
    let cases: &[(&[u8], u16)] = &[
        (&unmasked, 1002),
        (&reserved, 1002),
        (&unknown, 1002),
        (&divided, 1002),
        (&masked(OpCode::Data(Data::Binary), true, b"x"), 1003),
        (&more(true, b"x"), 1002),
        (&[text(false, b"x"), text(true, b"y")].concat(), 1002),
        (&text(true, b"\xff"), 1007),
        (&text(true, b"\xed\xa0\x80"), 1007),
        (&[text(false, b"\xc3"), more(true, b"x")].concat(), 1007),
        (&masked(OpCode::Control(Control::Ping), true, &[0; 126]), 1002),
        (&text(true, &[b'x'; LONGEST_MESSAGE + 1]), 1009),
        (&[text(false, &[b'x'; LONGEST_MESSAGE]), more(true, b"x")].concat(), 1009),
        (&close(&[3]), 1002),
        (&close(&[3, 0]), 1002),
        (&close(&1005_u16.to_be_bytes()), 1002),
        (&close(&5000_u16.to_be_bytes()), 1002),
        (&close(&[3, 232, 0xff]), 1007),
        (b"\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff", 1009),
    ];
    for (sent, code) in cases {
        let (_, violation) = read(sent, sent.len());
        assert_eq!(violation.map(|it| it.code), Some(*code), "{:?}", &sent[..sent.len().min(16)]);
    }
}

#[test]
fn any_bytes_mean_the_same_wherever_they_are_cut() {
    let mut random = numbers(1);
    for _ in 0..20_000 {
        let length = (random() % 64) as usize;
        let bytes: Vec<u8> = (0..length).map(|_| random() as u8).collect();
        any_bytes_are_read_or_refused(&bytes);
    }
}

#[test]
fn what_the_fuzzer_found_holds() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/websocket_frame");
    let mut count = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        any_bytes_are_read_or_refused(&std::fs::read(file.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count > 0, "`{folder}` holds nothing");
}

/// Returns numbers that look random, the same in every run.
fn numbers(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[test]
fn frames_have_the_shortest_header() {
    for (length, header) in [(0, 2), (125, 2), (126, 4), (65_535, 4), (65_536, 10)] {
        let (frame, found) = text_frame(&"x".repeat(length));
        assert_eq!((found, frame.len()), (header, header + length));
    }
    assert_eq!(close_frame(1001, "ends")[..], *b"\x88\x06\x03\xe9ends");
    assert_eq!(close_frame(0, "")[..], *b"\x88\x00");
    assert_eq!(close_frame(1002, &"ä".repeat(100)).len(), 2 + 2 + 122);
}
