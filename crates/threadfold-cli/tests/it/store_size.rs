//! An import compresses each byte once and writes it about once, whatever the size of a session.
#![cfg(target_os = "linux")]

use std::fs;

use crate::env::TestEnv;
use crate::reads::work;
use threadfold_testkit::big_session::{TranscriptFile, write_transcript_file};

/// The sizes of the sessions: short ones, ones of a single append, and ones of several.
const SIZES: [u64; 8] =
    [30_000, 90_000, 240_000, 300_000, 600_000, 1_000_000, 2_000_000, 3_000_000];

/// Returns a home with sessions of all sizes, and what `zstd -3` makes of their files.
fn home() -> (TestEnv, u64) {
    let env = TestEnv::new();
    let mut packed = 0;
    for (index, size) in SIZES.into_iter().enumerate() {
        let session = format!("5e551014-0000-4000-8000-{index:012}");
        let file = TranscriptFile { seed: index as u64 + 1, session: &session, subagent: None };
        let mut bytes = Vec::new();
        write_transcript_file(&file, size, &mut bytes).unwrap();
        packed += zstd::bulk::compress(&bytes, 3).unwrap().len() as u64;
        env.write(&format!("claude/projects/p/{session}.jsonl"), bytes);
    }
    (env, packed)
}

#[test]
fn a_store_takes_little_more_than_zstd_of_the_same_files() {
    let (env, packed) = home();
    let import = work(&env.command(&["import", "--store", "store.db"]));
    let size = fs::metadata(env.path("store.db")).unwrap().len();
    // An empty store has a page for each table.
    let empty = 16 * 4096;
    assert!(size - empty <= packed * 13 / 10, "{size} bytes, and zstd takes {packed}");
    // Each page is written to the write-ahead log and to the file, some of them more than once.
    let written = import.written;
    assert!(written <= size * 3, "{written} bytes were written for a store of {size}");
    env.done(&["doctor", "--store", "store.db"]);
}

#[test]
fn a_fork_with_another_beginning_takes_little_room() {
    let env = TestEnv::new();
    let [session, fork] =
        [1, 2].map(|number| format!("5e551014-0000-4000-8000-00000000000{number}"));
    let file = TranscriptFile { seed: 7, session: &session, subagent: None };
    let mut bytes = Vec::new();
    write_transcript_file(&file, 3_000_000, &mut bytes).unwrap();
    let lines = String::from_utf8(bytes).unwrap();
    let size = || fs::metadata(env.path("store.db")).unwrap().len();
    env.write(&format!("claude/projects/p/{session}.jsonl"), &lines);
    env.done(&["import", "--store", "store.db"]);
    let before = size();

    let line = format!(r#"{{"type":"summary","summary":"a fork","sessionId":"{fork}"}}"#);
    let forked = lines.replace(&session, &fork);
    env.write(&format!("claude/projects/p/{fork}.jsonl"), format!("{line}\n{line}\n{forked}"));
    env.done(&["import", "--store", "store.db"]);
    let added = size() - before;
    assert!(added * 3 < before, "{added} bytes were added to {before}");
}
