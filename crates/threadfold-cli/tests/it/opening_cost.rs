//! Opening a stored session costs the same, however long it is.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::BufWriter;

use threadfold_testkit::big_session::{TranscriptFile, write_transcript_file};

use crate::env::TestEnv;
use crate::reads::{Work, work_of_screen};

const SESSION: &str = "5e551014-0000-4000-8000-000000000001";

/// Returns a home with a stored session of so many bytes.
fn stored(bytes: u64) -> TestEnv {
    let env = TestEnv::new();
    let name = format!("claude/projects/p/{SESSION}.jsonl");
    env.write(&name, "");
    let file = TranscriptFile { seed: 7, session: SESSION, subagent: None };
    let out = BufWriter::new(File::create(env.path(&name)).unwrap());
    write_transcript_file(&file, bytes, out).unwrap();
    env.done(&["import"]);
    // Only the store is left.
    std::fs::remove_file(env.path(&name)).unwrap();
    env
}

/// Returns the costs of the first screen at the end, and of the first screen at a record that has a
/// snapshot, which is the last one here.
fn costs(env: &TestEnv) -> [Work; 2] {
    let list = env.done(&["list", "--json"]);
    let row: serde_json::Value = serde_json::from_str(list.lines().next().unwrap()).unwrap();
    let last = row["records"].to_string();
    let view = |more: &[&str]| {
        let arguments = [&["view", SESSION, "--no-pager", "--width", "100"], more].concat();
        let work = work_of_screen(&env.command(&arguments));
        assert!(work.stdout.lines().count() == 50, "{}", work.stdout);
        work
    };
    [view(&[]), view(&["--at", &last])]
}

#[test]
fn a_screen_of_a_stored_session_costs_the_same_if_the_session_is_ten_times_as_long() {
    let (small, large) = (costs(&stored(24_000_000)), costs(&stored(240_000_000)));
    for (one, ten) in small.iter().zip(&large) {
        assert!(ten.read * 2 <= one.read * 3, "{} and {} bytes", one.read, ten.read);
        assert!(ten.reads * 2 <= one.reads * 3, "{} and {} reads", one.reads, ten.reads);
        assert!(ten.read < 1_000_000, "{} bytes", ten.read);
    }
}
