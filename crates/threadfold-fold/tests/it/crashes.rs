//! Regression inputs found by fuzzing.
//!
//! `cargo xtask fuzz` writes them into a folder for each target beside the recordings.

use crate::law;
use crate::recorded::recordings;

#[expect(clippy::disallowed_methods, reason = "a test may read its data")]
fn replay(target: &str, law: impl Fn(&[u8])) {
    let folder = recordings().join("crashes").join(target);
    let files = std::fs::read_dir(&folder).expect("there is a folder for each target");
    let mut count = 0;
    for file in files {
        let path = file.expect("the folder can be listed").path();
        law(&std::fs::read(&path).expect("the file can be read"));
        count += 1;
    }
    assert!(count > 0, "`{}` holds nothing", folder.display());
}

#[test]
fn lines_hold() {
    replay("lines", law::lines_of_any_input);
}

#[test]
fn claude_streams_hold() {
    replay("claude_stream", law::a_claude_stream_folds);
}

#[test]
fn claude_transcripts_hold() {
    replay("claude_transcript", law::a_claude_transcript_folds);
}

#[test]
fn opencode_holds() {
    replay("opencode", law::opencode_folds);
}

#[test]
fn codex_holds() {
    replay("codex", law::codex_folds);
}
