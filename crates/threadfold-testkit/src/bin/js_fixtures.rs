//! Writes what the tests of the npm package compare with: recorded sessions and generated streams,
//! each with the state that the native crates fold it to.
//!
//! Usage: `js_fixtures FOLDER STREAMS`

use std::env;
use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};
use threadfold_core::{ConversationState, SessionEvent, SessionId};
use threadfold_fold::{Fold, SessionFile, Slices, fold_files, stream_records};
use threadfold_testkit::sessions::{hostile, interleave, plausible};
use threadfold_testkit::sessions_on_disk::{SessionOnDisk, read_sessions};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let folder = arguments.next().ok_or("a folder is missing")?;
    let streams: usize = arguments.next().ok_or("a number of streams is missing")?.parse()?;
    fs::create_dir_all(&folder)?;
    write_sessions(&Path::new(&folder).join("sessions.jsonl"))?;
    write_streams(&Path::new(&folder).join("streams.jsonl"), streams)
}

/// One recorded session per line: where its files are, and its state.
fn write_sessions(path: &Path) -> Result<(), Box<dyn Error>> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../threadfold-convert/tests/data");
    let mut out = BufWriter::new(File::create(path)?);
    for session in read_sessions(&data)? {
        let state = fold(&session);
        let paths: Vec<&String> = session.files.iter().map(|(path, _)| path).collect();
        let line = json!({
            "name": session.name,
            "agent": session.agent.name(),
            "session": session.root.clone().unwrap_or_default(),
            "isStream": session.is_stream,
            "paths": paths,
            "hash": state.hash().to_string(),
            "state": state,
        });
        writeln!(out, "{line}")?;
    }
    Ok(out.flush()?)
}

fn fold(session: &SessionOnDisk) -> ConversationState {
    let id = SessionId::from(session.root.as_deref().unwrap_or_default());
    let mut fold = Fold::new(id, Slices::default());
    if session.is_stream {
        for (_, bytes) in &session.files {
            for record in stream_records(session.agent, fold.next_source(), bytes) {
                let seq = fold.seq() + 1;
                fold.push(&record.at(seq));
            }
        }
    } else {
        let files: Vec<_> =
            session.files.iter().map(|(path, bytes)| SessionFile { path, bytes }).collect();
        fold_files(&mut fold, session.agent, &files, |_| {});
    }
    fold.settled()
}

/// One stream per line: its events, and the hash and the state after each.
fn write_streams(path: &Path, count: usize) -> Result<(), Box<dyn Error>> {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[16; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let turns = proptest::collection::vec(proptest::bool::ANY, 0..40);
    let plausible = (plausible(), turns).prop_map(|(it, turns)| interleave(&it, &turns));
    let hostile = hostile();
    let mut out = BufWriter::new(File::create(path)?);
    for index in 0..count {
        let events: Vec<SessionEvent> = match index % 2 {
            0 => hostile.new_tree(&mut runner).map_err(|it| it.to_string())?.current(),
            _ => plausible.new_tree(&mut runner).map_err(|it| it.to_string())?.current(),
        };
        let mut state = ConversationState::default();
        let mut steps: Vec<Value> = Vec::new();
        for event in &events {
            state.extend([event]);
            steps.push(json!({ "hash": state.hash().to_string(), "state": state }));
        }
        writeln!(out, "{}", json!({ "events": events, "steps": steps }))?;
    }
    Ok(out.flush()?)
}
