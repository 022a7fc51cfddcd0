//! Generated sessions are reproducible and have no anomalies.

use std::collections::BTreeMap;

use threadfold_convert::lines::lines;
use threadfold_convert::{Agent, claude, codex, opencode};
use threadfold_core::{BlockBody, ConversationState, Json, Payload, SessionEvent, SessionId};
use threadfold_fold::{
    Fold, Record, SessionFile, Slices, file_records, parse_transcript, stream_records,
};
use threadfold_testkit::big_session::{
    TranscriptCounts, write_bus, write_newer_bus, write_rollout, write_stream, write_transcript,
};
use threadfold_testkit::naive_load;
use threadfold_testkit::typed_load::TypedSession;

const SIZE: u64 = 3_000_000;

fn transcript() -> (TranscriptCounts, Vec<u8>) {
    let mut bytes = Vec::new();
    let written = write_transcript(SIZE, &mut bytes).expect("memory can be written to");
    (written, bytes)
}

fn stream() -> (TranscriptCounts, Vec<u8>) {
    let mut bytes = Vec::new();
    let written = write_stream(SIZE, &mut bytes).expect("memory can be written to");
    (written, bytes)
}

fn bus() -> (TranscriptCounts, Vec<u8>) {
    let mut bytes = Vec::new();
    let written = write_bus(SIZE, &mut bytes).expect("memory can be written to");
    (written, bytes)
}

fn newer_bus() -> (TranscriptCounts, Vec<u8>) {
    let mut bytes = Vec::new();
    let written = write_newer_bus(SIZE, &mut bytes).expect("memory can be written to");
    (written, bytes)
}

fn rollout() -> (TranscriptCounts, Vec<u8>) {
    let mut bytes = Vec::new();
    let written = write_rollout(SIZE, &mut bytes).expect("memory can be written to");
    (written, bytes)
}

/// Folds events that must all be in order.
fn fold(events: &[SessionEvent]) -> ConversationState {
    let mut state = ConversationState::default();
    for event in events {
        assert!(!matches!(event.payload, Payload::Log(_)), "something was lost: {event:?}");
        assert_eq!(state.apply(event).anomaly(), None);
    }
    state
}

fn transcript_events(bytes: &[u8]) -> Vec<SessionEvent> {
    events(file_records(claude::AGENT, 1, &[SessionFile { path: "s.jsonl", bytes }]))
}

fn stream_events(agent: Agent, bytes: &[u8]) -> Vec<SessionEvent> {
    events(stream_records(agent, 1, bytes))
}

fn events(records: Vec<Record>) -> Vec<SessionEvent> {
    let mut fold = Fold::new(SessionId::from(""), Slices::default()).once();
    (1..).zip(records).flat_map(|(seq, record)| fold.push(&record.at(seq)).events).collect()
}

fn kinds(state: &ConversationState) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for block in state.blocks().iter() {
        *kinds.entry(block.body.kind().to_owned()).or_default() += 1;
    }
    kinds
}

fn written_kinds(written: &TranscriptCounts) -> BTreeMap<String, usize> {
    [
        ("user_message", written.prompts),
        ("assistant_text", written.texts),
        ("thinking", written.thoughts),
        ("tool_use", written.calls),
        ("tool_result", written.calls),
    ]
    .into_iter()
    .filter(|(_, count)| *count > 0)
    .map(|(kind, count)| (kind.to_owned(), count))
    .collect()
}

#[test]
fn the_same_size_generates_the_same_bytes() {
    assert!(transcript() == transcript());
    assert!(stream() == stream());
    assert!(bus() == bus());
    assert!(rollout() == rollout());
}

#[test]
fn the_size_is_near_what_was_asked() {
    for (written, bytes) in [transcript(), stream(), bus(), newer_bus(), rollout()] {
        assert_eq!(written.bytes, bytes.len() as u64);
        assert_eq!(written.lines, bytes.iter().filter(|byte| **byte == b'\n').count() as u64);
        assert!(written.bytes >= SIZE && written.bytes < SIZE * 3 / 2, "{written:?}");
    }
}

#[test]
fn line_lengths_match_real_sessions() {
    let (_, bytes) = transcript();
    let mut lengths: Vec<_> = lines(&bytes).map(|line| line.bytes.len()).collect();
    lengths.sort_unstable();
    let median = lengths[lengths.len() / 2];
    assert!((900..1_600).contains(&median), "half of the lines are shorter than {median}");
    assert!(lengths[lengths.len() - 1] > 50_000);
}

#[test]
fn a_transcript_folds_to_what_was_written() {
    let (written, bytes) = transcript();
    let state = fold(&transcript_events(&bytes));
    assert_eq!(kinds(&state), written_kinds(&written));
    assert_eq!(state.blocks().len(), written.blocks());
    let whole = parse_transcript(claude::AGENT, &[SessionFile { path: "s.jsonl", bytes: &bytes }]);
    assert_eq!(whole.hash(), state.hash());
}

#[test]
fn a_stream_folds_to_what_was_written() {
    let (written, bytes) = stream();
    assert_eq!(kinds(&fold(&stream_events(claude::AGENT, &bytes))), written_kinds(&written));
}

#[test]
fn a_bus_folds_to_what_was_written() {
    for (written, bytes) in [bus(), newer_bus()] {
        assert_eq!(kinds(&fold(&stream_events(opencode::AGENT, &bytes))), written_kinds(&written));
    }
}

#[test]
fn a_rollout_folds_to_what_was_written() {
    let (written, bytes) = rollout();
    let state = parse_transcript(codex::AGENT, &[SessionFile { path: "s.jsonl", bytes: &bytes }]);
    assert_eq!(kinds(&state), written_kinds(&written));
    assert_eq!(naive_load::load_rollout(&bytes), state);
}

#[test]
fn the_naive_loader_builds_the_same_state() {
    let (_, bytes) = transcript();
    assert_eq!(naive_load::load(&bytes), fold(&transcript_events(&bytes)));
    assert_eq!(naive_load::parse_only(&bytes), lines(&bytes).count());
    let (_, bytes) = bus();
    assert_eq!(naive_load::load_bus(&bytes), fold(&stream_events(opencode::AGENT, &bytes)));
    let (_, bytes) = newer_bus();
    assert_eq!(naive_load::load_newer_bus(&bytes), fold(&stream_events(opencode::AGENT, &bytes)));
}

#[test]
fn the_typed_loader_holds_the_same_contents() {
    let (written, bytes) = transcript();
    let session = TypedSession::load(&bytes);
    assert_eq!(session.count(), written_kinds(&written));
    let state = fold(&transcript_events(&bytes));
    let held: usize = state.blocks().iter().map(|block| text_length(&block.body)).sum();
    assert!(session.content_length() >= held, "{} < {held}", session.content_length());
}

/// Returns how many bytes of text a block has.
fn text_length(body: &BlockBody) -> usize {
    let json = |it: &Option<Json>| it.as_ref().map_or(0, |it| it.as_str().len());
    match body {
        BlockBody::AssistantText(body) => body.content.len(),
        BlockBody::Thinking(body) => body.content.len(),
        BlockBody::ToolUse(body) => json(&body.input),
        BlockBody::ToolResult(body) => json(&body.output),
        _ => 0,
    }
}
