//! `threadfold verify` on real recordings of Claude Code, whole and tampered with.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the folder of a recording and its main transcript.
fn recording(name: &str) -> (PathBuf, PathBuf) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = root.join("../threadfold-convert/tests/data/claude").join(name);
    let project = fs::read_dir(folder.join("transcript")).unwrap().next().unwrap().unwrap().path();
    let is_main = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.ends_with(".jsonl") && !name.starts_with("agent-")
    };
    let files = fs::read_dir(project).unwrap().map(|entry| entry.unwrap().path());
    (folder, files.into_iter().find(is_main).unwrap())
}

/// Runs `verify`, and returns the exit code and the first line of what it says.
fn verify(stream: &Path, transcript: &Path, more: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_threadfold"))
        .arg("verify")
        .arg("--stream")
        .arg(stream)
        .arg("--transcript")
        .arg(transcript)
        .args(more)
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    let first = String::from_utf8(said).unwrap().lines().next().unwrap_or("").to_owned();
    (output.status.code().unwrap(), first)
}

#[test]
fn a_whole_recording_is_equal_and_its_merge_holds() {
    let (folder, transcript) = recording("tools");
    assert_eq!(
        verify(&folder.join("stream.jsonl"), &transcript, &["--replay"]),
        (0, "equal: 15 blocks, 0 subagents, 128 fields compared".to_owned())
    );
}

#[test]
fn what_a_run_must_lack_is_partial_and_a_failure_only_if_asked_for() {
    let (folder, transcript) = recording("nested");
    let stream = folder.join("stream.jsonl");
    let partial = "partial: 5 blocks, 2 subagents, 62 fields compared".to_owned();
    assert_eq!(verify(&stream, &transcript, &[]), (0, partial.clone()));
    assert_eq!(verify(&stream, &transcript, &["--strict"]), (1, partial));
}

#[test]
fn a_file_that_lost_its_end_though_the_run_came_to_its_own_is_different() {
    let (folder, transcript) = recording("tools");
    let temporary = tempfile::tempdir().unwrap();
    let cut = temporary.path().join(transcript.file_name().unwrap());
    let text = fs::read_to_string(&transcript).unwrap();
    let last = text.rfind("\"type\":\"assistant\"").unwrap();
    fs::write(&cut, &text[..text[..last].rfind('\n').unwrap() + 1]).unwrap();
    let (code, said) = verify(&folder.join("stream.jsonl"), &cut, &[]);
    assert_eq!((code, said.split(':').next()), (1, Some("different")), "{said}");
}

#[test]
fn a_kill_is_told_from_a_loss_by_the_stream() {
    let (folder, transcript) = recording("kill_between_tools@2.1.197");
    let (code, said) = verify(&folder.join("stream.jsonl"), &transcript, &[]);
    assert_eq!((code, said.split(':').next()), (0, Some("partial")), "{said}");
}

#[test]
fn two_sessions_are_not_compared() {
    let (folder, _) = recording("tools");
    let (_, transcript) = recording("text");
    let (code, said) = verify(&folder.join("stream.jsonl"), &transcript, &[]);
    assert_eq!(code, 2);
    assert!(said.starts_with("error: the stream is of session `02e5a9e4-"), "{said}");
}
