//! `threadfold verify` on real recordings of Claude Code, complete and tampered with.

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

/// Runs `verify`, and returns the exit code and the first line of its output.
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
    let said = String::from_utf8(said).unwrap();
    // How many fields were compared depends on the fields that the agent writes.
    let first = said.lines().next().unwrap_or("").split(" subagents, ").next().unwrap().to_owned();
    (output.status.code().unwrap(), first)
}

#[test]
fn a_complete_recording_is_equal_and_its_merge_too() {
    let (folder, transcript) = recording("tools");
    assert_eq!(
        verify(&folder.join("stream.jsonl"), &transcript, &["--replay"]),
        (0, "equal: 15 blocks, 0".to_owned())
    );
}

/// Returns how many fields `verify` compared.
fn compared_fields(name: &str) -> usize {
    let (folder, transcript) = recording(name);
    let output = Command::new(env!("CARGO_BIN_EXE_threadfold"))
        .args(["verify", "--json", "--stream"])
        .arg(folder.join("stream.jsonl"))
        .arg("--transcript")
        .arg(&transcript)
        .output()
        .unwrap();
    let comparison: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    usize::try_from(comparison["fields"].as_u64().unwrap()).unwrap()
}

#[test]
fn the_fields_of_records_are_compared_beside_those_of_blocks() {
    // The states alone have 128 and 62 fields.
    for (name, least) in [("tools", 500), ("nested", 200)] {
        let fields = compared_fields(name);
        assert!(fields >= least, "{name}: {fields}");
    }
}

#[test]
fn a_known_gap_is_partial_and_fails_only_with_strict() {
    let (folder, transcript) = recording("nested");
    let stream = folder.join("stream.jsonl");
    let partial = "partial: 5 blocks, 2".to_owned();
    assert_eq!(verify(&stream, &transcript, &[]), (0, partial.clone()));
    assert_eq!(verify(&stream, &transcript, &["--strict"]), (1, partial));
}

#[test]
fn a_truncated_file_of_a_finished_run_is_different() {
    let (folder, transcript) = recording("tools");
    let temporary = tempfile::tempdir().unwrap();
    let cut = temporary.path().join(transcript.file_name().unwrap());
    let text = fs::read_to_string(&transcript).unwrap();
    let last = text.rfind("\"type\":\"assistant\"").unwrap();
    fs::write(&cut, &text[..text[..last].rfind('\n').unwrap() + 1]).unwrap();
    let (code, said) = verify(&folder.join("stream.jsonl"), &cut, &[]);
    assert_eq!((code, said.split(':').next()), (1, Some("different")), "{said}");
}

/// What is left of a pair may have nothing in common: that shows nothing about the run.
#[test]
fn a_pair_that_is_cut_to_nothing_in_common_is_an_error() {
    let (folder, transcript) = recording("tools");
    let temporary = tempfile::tempdir().unwrap();
    let keep = |path: &Path, kind: &str| {
        let text = fs::read_to_string(path).unwrap();
        let kept = temporary.path().join(path.file_name().unwrap());
        let mut lines = text.lines();
        fs::write(&kept, lines.find(|line| line.contains(kind)).unwrap()).unwrap();
        kept
    };
    // A stream does not repeat the prompt that the file begins with.
    let stream = keep(&folder.join("stream.jsonl"), r#""subtype":"init""#);
    let file = keep(&transcript, r#""type":"user""#);
    let (code, said) = verify(&stream, &file, &[]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("nothing was compared"), "{said}");
}

#[test]
fn files_of_subagents_may_be_given_beside_their_main_file() {
    for name in ["subagent_taskname@2.0.76", "interrupt_text@2.0.76"] {
        let (folder, transcript) = recording(name);
        let alone = verify(&folder.join("stream.jsonl"), &transcript, &[]);
        let files = fs::read_dir(transcript.parent().unwrap()).unwrap();
        let mut files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert!(files.len() > 1, "{name}");
        let mut more = Vec::new();
        for file in files[1..].iter().filter(|it| it.is_file()) {
            more.extend(["--transcript", file.to_str().unwrap()]);
        }
        let all = verify(&folder.join("stream.jsonl"), &files[0], &more);
        assert_eq!(all, alone, "{name}");
        assert_eq!(all.0, 0, "{name}");
    }
}

#[test]
fn the_stream_distinguishes_a_kill_from_a_loss() {
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

/// With `set -o pipefail`, a reader that stops early must not hide a difference.
#[test]
fn a_reader_that_goes_away_does_not_change_the_verdict() {
    let (folder, transcript) = recording("tools");
    let temporary = tempfile::tempdir().unwrap();
    let changed = temporary.path().join(transcript.file_name().unwrap());
    let text = fs::read_to_string(&transcript).unwrap();
    fs::write(&changed, text.lines().take(15).map(|it| format!("{it}\n")).collect::<String>())
        .unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_threadfold"));
    command.arg("verify").arg("--stream").arg(folder.join("stream.jsonl"));
    command.arg("--transcript").arg(&changed).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(1));
}
