//! `threadfold watch FOLDER --json`: frames of every session that changes.

use std::collections::BTreeMap;
use std::fs;

use insta::assert_snapshot;
use threadfold_engine::Frame;

use crate::env::TestEnv;
use crate::watch::{WatchProcess, append, find, line};

fn frame(line: &str) -> Frame {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// Returns a line of another session.
fn line_of(session: &str, number: usize, text: &str) -> String {
    line(number, "user", text).replace("\"s1\"", &format!("\"{session}\""))
}

#[test]
fn every_line_is_a_frame_of_a_session_that_changes() {
    let env = TestEnv::new();
    env.write("p/quiet.jsonl", line_of("quiet", 1, "is there already"));
    env.write("p/s1.jsonl", line_of("s1", 1, "first"));
    let watching = WatchProcess::new(&env, &["p", "--json"]);
    find(&watching.said, "watching `p`");
    append(&env, "p/s1.jsonl", &line_of("s1", 2, "grown"));
    let snapshot = watching.wait_for("grown");
    assert!(
        matches!(frame(&snapshot), Frame::Snapshot { session_id, .. } if session_id.as_str() == "s1")
    );
    env.write("p/s2.jsonl", line_of("s2", 1, "appeared"));
    let snapshot = watching.wait_for("appeared");
    assert!(
        matches!(frame(&snapshot), Frame::Snapshot { session_id, .. } if session_id.as_str() == "s2")
    );
    append(&env, "p/s1.jsonl", &line_of("s1", 3, "again"));
    let changes = watching.wait_for("again");
    let Frame::Changes { cursor, .. } = frame(&changes) else { panic!("{changes}") };
    // Ctrl-C ends both streams.
    let (code, rest, said) = watching.end_with_lines();
    assert_eq!((code, said.as_str()), (Some(0), ""));
    let mut ends = BTreeMap::new();
    for line in &rest {
        if let Frame::End { session_id, .. } = frame(line) {
            ends.insert(session_id.to_string(), line.clone());
        }
    }
    assert_eq!(ends.keys().collect::<Vec<_>>(), ["s1", "s2"], "{rest:?}");
    assert!(!rest.iter().any(|it| it.contains("quiet")), "{rest:?}");

    // Each stream is resumed by its cursor.
    append(&env, "p/s1.jsonl", &line_of("s1", 4, "while nobody watched"));
    let resumed = WatchProcess::new(&env, &["p/s1.jsonl", "--json", "--after", &cursor]);
    let first = resumed.wait_for("\"s1\"");
    assert!(
        matches!(frame(&first), Frame::Resume { protocol: 1, reducer: 1, .. }),
        "a resumed stream has no versions: {first}"
    );
    // That the transcript changed was recorded after the line, and so after its cursor.
    let missed = resumed.wait_for("\"s1\"");
    assert!(missed.contains("transcript:changed"), "{missed}");
    let next = resumed.wait_for("\"s1\"");
    assert!(matches!(frame(&next), Frame::Changes { .. }), "{next}");
    assert!(next.contains("while nobody watched"), "{next}");
    assert_eq!(resumed.end().0, Some(0));
}

#[test]
fn a_cursor_with_a_folder_is_refused() {
    let env = TestEnv::new();
    fs::create_dir_all(env.path("p")).unwrap();
    let cursor = "7d1f0c2b-7a51-4ad5-9f3a-9d5c3a1b2c3d.3.2";
    assert_snapshot!(env.run(&["watch", "p", "--json", "--after", cursor]), @"
    exit 2
    --- stdout
    --- stderr
    error: a cursor is a position in one session, and `p` is a folder
    hint: give the session's file or its id with `--after`
    ");
}

#[test]
fn a_file_of_a_folder_that_is_refused_is_no_frame_and_no_session() {
    let env = TestEnv::new();
    fs::create_dir_all(env.path("p")).unwrap();
    let watching = WatchProcess::new(&env, &["p", "--json"]);
    find(&watching.said, "watching `p`");
    let packed =
        zstd::encode_all(line(1, "user", "of an agent that does not compress").as_bytes(), 3);
    env.write("p/packed.jsonl", packed.unwrap());
    env.write("p/s1.jsonl", line(1, "user", "hello"));
    let shown = watching.wait_for("hello");
    assert!(matches!(frame(&shown), Frame::Snapshot { .. }), "{shown}");
    assert_eq!(watching.end().0, Some(0));
    assert_eq!(env.done(&["list", "--json"]).lines().count(), 1, "nothing is stored of it");
}
