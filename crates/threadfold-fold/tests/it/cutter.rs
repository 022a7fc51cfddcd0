//! Cuts bytes that arrive in chunks into records.

use insta::assert_snapshot;
use proptest::prelude::*;
use threadfold_convert::Agent;
use threadfold_core::{BlockBody, SessionId};
use threadfold_fold::{Cutter, Fold, Record, RecordKind, Slices, SourceRole, SourceSpec};

use crate::law;

/// Returns a line of text for each record: kind, position, bytes.
fn show(records: &[Record]) -> String {
    let shown = records
        .iter()
        .map(|it| format!("{} @{} {}", it.kind.name(), it.position, it.bytes.escape_ascii()));
    shown.collect::<Vec<_>>().join("\n")
}

const LIMITED: [&[u8]; 3] = [b"\xef\xbb\xbfabcd\r", b"\n12345\r\n123456\r\n\n12", b"34567"];

#[test]
fn a_line_over_the_limit_comes_in_pieces() {
    let mut records = Vec::new();
    let mut cutter = Cutter::new(1).with_limit(6);
    for chunk in LIMITED {
        cutter.push(chunk, &mut records);
    }
    assert_eq!((cutter.position(), cutter.end()), (31, 32));
    cutter.finish(&mut records);
    assert_snapshot!(show(&records), @r"
    piece @0 \xef\xbb\xbfabc
    last piece @6 d\r\n
    line @9 12345\r\n
    piece @16 123456
    last piece @22 \r\n
    line @24 \n
    piece @25 123456
    last piece @31 7
    ");
}

/// The head of a line is its first 4 KiB, and so all of these.
#[test]
fn a_line_over_the_limit_is_reported_with_its_length_and_first_bytes() {
    for is_finished in [true, false] {
        let spec = SourceSpec::new(Agent::unknown(), SourceRole::Main, "file");
        let mut records = vec![Record::new(RecordKind::Source, 1, 0, spec.to_json())];
        let mut cutter = Cutter::new(1).with_limit(6);
        for chunk in LIMITED {
            cutter.push(chunk, &mut records);
        }
        if is_finished {
            cutter.finish(&mut records);
        } else {
            records.extend(cutter.unfinished());
        }
        records.push(Record::new(RecordKind::End, 1, cutter.end(), ""));
        let mut fold = Fold::new(SessionId::from(""), Slices::default());
        for (seq, record) in (1..).zip(records) {
            fold.push(&record.at(seq));
        }
        let blocks = fold.conversation().blocks();
        let shown = blocks.iter().map(|block| match &block.body {
            BlockBody::Unknown(unknown) => format!("{} {}", block.id, unknown.record.as_str()),
            other => panic!("a block of type `{}` was not expected", other.kind()),
        });
        insta::allow_duplicates! {
            assert_snapshot!(shown.collect::<Vec<_>>().join("\n"), @r#"
            line:main:1:1 {"bytes":4,"head":"abcd"}
            line:main:2:0 12345
            line:main:3:1 {"bytes":6,"head":"123456"}
            line:main:5:1 {"bytes":7,"head":"1234567"}
            "#);
        }
    }
}

#[test]
fn a_position_is_where_the_unfinished_line_begins() {
    let mut records = Vec::new();
    let mut cutter = Cutter::new(1);
    cutter.push(b"{}\n\n{\"half", &mut records);
    assert_eq!((cutter.position(), records.len()), (4, 2));
    cutter.finish(&mut records);
    assert_eq!((cutter.position(), records.len()), (10, 3));
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
    fn chunk_boundaries_do_not_change_the_lines(
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
