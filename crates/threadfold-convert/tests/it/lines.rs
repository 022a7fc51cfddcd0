//! Lines out of a slice, and out of chunks.

use insta::assert_snapshot;
use proptest::prelude::*;
use threadfold_convert::lines::{LineBuffer, LineOrLoss, Position, lines};

use crate::law;

/// Returns a line of text for each line of `bytes`: number, offset, content.
fn show(bytes: &[u8]) -> String {
    let shown =
        lines(bytes).map(|it| format!("{} @{} {}", it.number, it.offset, it.bytes.escape_ascii()));
    shown.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_line_ends_with_a_newline_a_return_and_a_newline_or_the_end() {
    assert_snapshot!(show(b"a\nb\r\nc\r\r\nd\re\n\rf"), @r"
    1 @0 a
    2 @2 b
    3 @5 c\r
    4 @9 d\re
    5 @13 \rf
    ");
}

#[test]
fn lines_of_white_space_are_counted_and_not_given() {
    assert_snapshot!(show(b"\n \t\na\n\r\n\n  b\n   "), @"
    3 @4 a
    6 @9   b
    ");
    assert_snapshot!(show(b""), @"");
}

#[test]
fn a_byte_order_mark_is_stripped_at_the_beginning_only() {
    assert_snapshot!(show(b"\xef\xbb\xbfa\n\xef\xbb\xbfb"), @r"
    1 @3 a
    2 @5 \xef\xbb\xbfb
    ");
    assert_snapshot!(show(b"\xef\xbb\xbf\n\xef\xbb"), @r"2 @4 \xef\xbb");
}

#[test]
fn a_line_over_the_limit_is_told_with_its_length_and_how_it_begins() {
    let mut shown = Vec::new();
    let mut buffer = LineBuffer::with_limit(6);
    for chunk in [&b"\xef\xbb\xbfabcd\r"[..], b"\n12345\r\n123456\r\n\n12", b"34567"] {
        buffer.push(chunk, |it| shown.push(format!("{it:?}")));
    }
    shown.push(format!("{:?}", buffer.position()));
    buffer.finish(|it| shown.push(format!("{it:?}")));
    assert_snapshot!(shown.join("\n"), @"
    TooLong { number: 1, offset: 3, length: 4, head: [97, 98, 99] }
    Line(Line { number: 2, offset: 9, bytes: [49, 50, 51, 52, 53] })
    TooLong { number: 3, offset: 16, length: 6, head: [49, 50, 51, 52, 53, 54] }
    Position { offset: 25, number: 5 }
    TooLong { number: 5, offset: 25, length: 7, head: [49, 50, 51, 52, 53, 54] }
    ");
}

#[test]
fn a_position_is_where_the_unfinished_line_begins() {
    let mut buffer = LineBuffer::default();
    buffer.push(b"{}\n\n{\"half", |_| {});
    assert_eq!(buffer.position(), Position { offset: 4, number: 3 });
    buffer.finish(|_| {});
    assert_eq!(buffer.position(), Position { offset: 10, number: 4 });
}

#[test]
fn a_line_of_a_gigabyte_never_takes_more_than_the_limit() {
    const LIMIT: usize = 8 << 20;
    let chunk = vec![b'x'; 1 << 20];
    let mut given = Vec::new();
    let mut most = 0;
    let mut buffer = LineBuffer::with_limit(LIMIT);
    buffer.push(b"{}\n", |it| given.push(law::Given::from(it)));
    for _ in 0..1024 {
        buffer.push(&chunk, |it| given.push(law::Given::from(it)));
        most = most.max(buffer.capacity());
    }
    buffer.push(b"\r\n[]\n", |it| given.push(law::Given::from(it)));

    assert_eq!(most, LIMIT);
    assert_eq!(
        given,
        [
            law::Given::Line(1, 0, b"{}".to_vec()),
            law::Given::TooLong(2, 3, 1 << 30, vec![b'x'; 4 << 10]),
            law::Given::Line(3, (1 << 30) + 5, b"[]".to_vec()),
        ]
    );
}

#[test]
fn a_long_line_that_was_given_does_not_keep_its_memory() {
    let mut length = 0;
    let mut buffer = LineBuffer::default();
    buffer.push(&vec![b'x'; 20 << 20], |_| {});
    assert!(buffer.capacity() >= 20 << 20);
    buffer.push(b"\n", |it| match it {
        LineOrLoss::Line(line) => length = line.bytes.len(),
        LineOrLoss::TooLong { .. } => panic!("it is below the limit"),
    });
    assert_eq!(length, 20 << 20);
    assert!(buffer.capacity() <= 1 << 20);
}

/// Bytes in which line ends and marks are frequent.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        Just(b"\n".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"\r".to_vec()),
        Just(b" ".to_vec()),
        Just(b"\xef\xbb\xbf".to_vec()),
        Just("é😀".as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..12),
    ];
    prop::collection::vec(part, 0..24).prop_map(|it| it.concat())
}

proptest! {
    #[test]
    fn however_the_bytes_are_cut_the_same_lines_come(
        bytes in bytes(),
        cuts in prop::collection::vec(0u8..9, 0..8),
        limit in 0usize..40,
    ) {
        law::lines_are_the_same_however_cut(&bytes, &cuts, limit);
    }

    #[test]
    fn a_restart_at_any_byte_changes_nothing(bytes in bytes(), stop in any::<prop::sample::Index>()) {
        let stop = stop.index(bytes.len() + 1);
        law::lines_are_the_same_after_a_restart(&bytes, stop);
    }
}
