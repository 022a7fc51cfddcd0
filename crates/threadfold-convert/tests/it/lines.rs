//! Splits a slice into lines.

use insta::assert_snapshot;
use threadfold_convert::lines::lines;

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
fn blank_lines_are_counted_and_not_returned() {
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
