//! Deltas are parsed by types of their own, and mean the same as by the types of all other lines.

use std::fs;
use std::path::{Path, PathBuf};

use threadfold_convert::{Agent, claude, opencode};
use threadfold_core::{SessionEvent, SessionId};
use threadfold_fold::{Fold, Slices, stream_records};

/// Returns the streams of all recordings of an agent.
fn streams(agent: Agent, names: &[&str]) -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(agent.name());
    let folders = fs::read_dir(root).expect("the recordings are part of the tests");
    let folders = folders.map(|entry| entry.expect("a folder can be listed").path());
    let files = folders.flat_map(|folder| names.iter().map(move |name| folder.join(name)));
    files.filter_map(|path| fs::read_to_string(&path).ok().map(|text| (path, text))).collect()
}

fn events(agent: Agent, stream: &str) -> (Vec<SessionEvent>, String) {
    let mut fold = Fold::new(SessionId::from(""), Slices::default());
    let mut events = Vec::new();
    for (seq, record) in (1..).zip(stream_records(agent, 1, stream.as_bytes())) {
        events.extend(fold.push(&record.at(seq)).events);
    }
    (events, fold.settled().hash().to_string())
}

/// A field that nobody knows makes a delta an ordinary line.
fn an_unknown_field_changes_nothing(agent: Agent, names: &[&str], kinds: &[&str]) {
    let mut deltas = 0;
    for (path, stream) in streams(agent, names) {
        let mut ordinary = stream.clone();
        for kind in kinds {
            deltas += stream.matches(kind).count();
            ordinary = ordinary.replace(kind, &format!(r#""unknown":1,{kind}"#));
        }
        assert_eq!(events(agent, &stream), events(agent, &ordinary), "{}", path.display());
    }
    assert!(deltas > 500, "only {deltas} deltas were compared");
}

#[test]
fn a_delta_of_claude_means_the_same_with_an_unknown_field() {
    an_unknown_field_changes_nothing(
        claude::AGENT,
        &["stream.jsonl"],
        &[r#""type":"stream_event","event":{"type":"content_block_delta""#],
    );
}

#[test]
fn a_delta_of_opencode_means_the_same_with_an_unknown_field() {
    an_unknown_field_changes_nothing(
        opencode::AGENT,
        &["events.sse.jsonl"],
        &[
            r#""type": "message.part.delta""#,
            r#""type": "session.text.delta""#,
            r#""type": "session.reasoning.delta""#,
        ],
    );
}
