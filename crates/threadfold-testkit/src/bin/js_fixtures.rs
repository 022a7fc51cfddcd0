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
use serde::Serialize;
use threadfold_core::{ConversationState, SessionEvent, SessionId};
use threadfold_fold::{Fold, SessionFile, Slices, parse_transcript, stream_records};
use threadfold_testkit::sessions::{hostile, interleave, plausible};
use threadfold_testkit::sessions_on_disk::{SessionOnDisk, read_sessions};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let folder = arguments.next().ok_or("a folder is missing")?;
    let streams: usize = arguments.next().ok_or("a number of streams is missing")?.parse()?;
    fs::create_dir_all(&folder)?;
    write_sessions(&Path::new(&folder).join("sessions.json"))?;
    write_streams(&Path::new(&folder).join("streams.jsonl"), streams)
}

/// A recorded session. Its state is written as it is: it may hold JSON that no `Value` can.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SessionLine<'a> {
    name: &'a str,
    agent: &'a str,
    session: &'a str,
    is_stream: bool,
    paths: Vec<&'a String>,
    hash: String,
    state: &'a ConversationState,
}

/// A state of a generated stream.
#[derive(Serialize)]
struct StepLine {
    hash: String,
    state: ConversationState,
}

/// A generated stream.
#[derive(Serialize)]
struct StreamLine {
    events: Vec<SessionEvent>,
    steps: Vec<StepLine>,
}

/// All recorded sessions: where their files are, and their states. Not lines: a state holds JSON of
/// its agent as it came, with line ends.
fn write_sessions(path: &Path) -> Result<(), Box<dyn Error>> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../threadfold-convert/tests/data");
    let mut out = BufWriter::new(File::create(path)?);
    for (index, session) in read_sessions(&data)?.iter().enumerate() {
        out.write_all(if index == 0 { b"[" } else { b"," })?;
        let state = fold(session);
        let paths: Vec<&String> = session.files.iter().map(|(path, _)| path).collect();
        let line = SessionLine {
            name: &session.name,
            agent: session.agent.name(),
            session: session.root.as_deref().unwrap_or_default(),
            is_stream: session.is_stream,
            paths,
            hash: state.hash().to_string(),
            state: &state,
        };
        serde_json::to_writer(&mut out, &line)?;
    }
    writeln!(out, "]")?;
    Ok(out.flush()?)
}

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
        let mut steps = Vec::new();
        for event in &events {
            state.extend([event]);
            steps.push(StepLine { hash: state.hash().to_string(), state: state.clone() });
        }
        serde_json::to_writer(&mut out, &StreamLine { events, steps })?;
        writeln!(out)?;
    }
    Ok(out.flush()?)
}
