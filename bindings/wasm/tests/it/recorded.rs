//! Every recorded session, from raw lines, gives the same state in the module as natively.

use std::fs;
use std::path::{Path, PathBuf};

use threadfold_core::{ConversationState, SessionId};
use threadfold_fold::{Fold, SessionFile, Slices, parse_transcript, stream_records};
use threadfold_testkit::sessions_on_disk::{SessionOnDisk, read_sessions};

use crate::engine::{Wasm, length};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/threadfold-convert/tests/data")
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files_below(&path)) } else { found.push(path) }
    }
    found
}

fn hash_and_json(state: &ConversationState) -> (String, String) {
    (state.hash().to_string(), serde_json::to_string(state).unwrap())
}

/// Folds a session natively.
fn fold(session: &SessionOnDisk) -> ConversationState {
    if !session.is_stream {
        let files: Vec<_> =
            session.files.iter().map(|(path, bytes)| SessionFile { path, bytes }).collect();
        return parse_transcript(session.agent, &files);
    }
    let id = SessionId::from(session.root.as_deref().unwrap_or_default());
    let mut fold = Fold::new(id, Slices::default());
    for (_, bytes) in &session.files {
        for record in stream_records(session.agent, fold.next_source(), bytes) {
            let seq = fold.seq() + 1;
            fold.push(&record.at(seq));
        }
    }
    fold.settled()
}

/// Folds a session in the module: streams in pieces that are cut anywhere, files at once.
fn fold_in(wasm: &mut Wasm, session: &SessionOnDisk) -> (String, String) {
    let agent = session.agent.name();
    let state = if session.is_stream {
        let root = session.root.as_deref().unwrap_or_default();
        let options = format!(r#"{{"agent":"{agent}","session":"{root}"}}"#);
        let size = wasm.write(&[options.as_bytes()]);
        let fold = wasm.expect("fold_new", &[size]);
        for (_, bytes) in &session.files {
            let size = wasm.write(&[br#"{"kind":"stream"}"#]);
            let source = wasm.expect("fold_source", &[fold, size]);
            for chunk in bytes.chunks(1009) {
                let size = wasm.write(&[chunk]);
                wasm.expect("fold_push", &[fold, source, size]);
            }
            wasm.expect("fold_finish", &[fold, source]);
        }
        let state = wasm.expect("fold_settled", &[fold]);
        wasm.call("fold_free", &[fold]);
        state
    } else {
        let mut input = agent.as_bytes().to_vec();
        input.extend(length(session.files.len()));
        for (path, bytes) in &session.files {
            input.extend([length(path.len()), length(bytes.len())].concat());
            input.extend(path.as_bytes());
            input.extend(bytes);
        }
        let size = wasm.write(&[&input]);
        wasm.expect("parse_files", &[size, agent.len()])
    };
    let found = wasm.hash_and_json(state);
    wasm.call("state_free", &[state]);
    found
}

#[test]
fn every_recorded_session_has_the_native_state() {
    let mut wasm = Wasm::full();
    let sessions = read_sessions(&data()).unwrap();
    let mut blocks = 0;
    for session in &sessions {
        let native = fold(session);
        blocks += native.blocks().len();
        assert_eq!(fold_in(&mut wasm, session), hash_and_json(&native), "{}", session.name);
    }
    // Nothing was compared if nothing was found.
    assert!(sessions.len() > 300 && blocks > 3000, "{} sessions, {blocks} blocks", sessions.len());
    assert_eq!(wasm.call("state_count", &[]), 0);
}

#[test]
fn every_hostile_file_has_the_native_state_whatever_agent_reads_it() {
    let mut wasm = Wasm::full();
    let mut count = 0;
    for folder in ["hostile", "crashes"] {
        for path in files_below(&data().join(folder)) {
            let bytes = fs::read(&path).unwrap();
            for agent in threadfold_convert::Agent::all() {
                for is_stream in [true, false] {
                    let name = path.display().to_string();
                    let files = vec![("session.jsonl".to_owned(), bytes.clone())];
                    let session = SessionOnDisk { agent, name, files, is_stream, root: None };
                    let native = hash_and_json(&fold(&session));
                    assert_eq!(fold_in(&mut wasm, &session), native, "{}", session.name);
                    count += 1;
                }
            }
        }
    }
    assert!(count >= 80, "{count}");
}

#[test]
fn a_format_is_detected() {
    let mut wasm = Wasm::full();
    let size = wasm.write(&[br#"{"type":"user","sessionId":"s1"}"#]);
    wasm.expect("detect_format", &[size]);
    assert_eq!(wasm.output(), r#"{"agent":"claude","format":"claude-transcript"}"#);
    let size = wasm.write(&[b"7\n"]);
    assert_eq!(wasm.call("detect_format", &[size]), 1);
}

#[test]
fn a_stream_is_compared_with_its_transcript() {
    let mut wasm = Wasm::verify();
    let folder = data().join("claude/subagent");
    let pairs = threadfold_testkit::parity_pairs::read_pairs(&folder).unwrap();
    let pair = &pairs[0];
    let mut input = pair.agent.name().as_bytes().to_vec();
    input.extend(length(pair.session.as_str().len()));
    input.extend(pair.session.as_str().as_bytes());
    input.extend(length(pair.stream.len()));
    input.extend(&pair.stream);
    input.extend(length(pair.files.len()));
    for (path, bytes) in &pair.files {
        input.extend([length(path.len()), length(bytes.len())].concat());
        input.extend(path.as_bytes());
        input.extend(bytes);
    }
    let size = wasm.write(&[&input]);
    wasm.expect("verify", &[size, pair.agent.name().len()]);
    let found: serde_json::Value = serde_json::from_str(&wasm.output()).unwrap();
    let native = pair.compare();
    assert_eq!(found["verdict"], serde_json::to_value(native.verdict()).unwrap());
    assert_eq!(found["fields"], native.fields);
}

#[test]
fn a_fold_continues_from_its_snapshot_in_the_middle_of_a_line() {
    let mut wasm = Wasm::full();
    let bytes = fs::read(data().join("claude/subagent/stream.jsonl")).unwrap();
    let size = wasm.write(&[br#"{"agent":"claude"}"#]);
    let fold = wasm.expect("fold_new", &[size]);
    let size = wasm.write(&[br#"{"kind":"stream"}"#]);
    let source = wasm.expect("fold_source", &[fold, size]);
    let (one, other) = bytes.split_at(bytes.len() / 2 + 7);
    let size = wasm.write(&[one]);
    wasm.expect("fold_push", &[fold, source, size]);
    let snapshot = wasm.read("fold_snapshot", fold);
    let size = wasm.write(&[snapshot.as_bytes()]);
    let restored = wasm.expect("fold_restore", &[size]);
    let mut hashes = Vec::new();
    for fold in [fold, restored] {
        let size = wasm.write(&[other]);
        wasm.expect("fold_push", &[fold, source, size]);
        wasm.expect("fold_finish", &[fold, source]);
        let state = wasm.expect("fold_state", &[fold]);
        hashes.push(wasm.hash_and_json(state));
    }
    assert_eq!(hashes[0], hashes[1]);
    assert!(hashes[0].1.contains("subagent"));
}
