//! Sessions read from a pipe.

use std::fs;
use std::future::{pending, ready};
use std::io::{self, Write};
use std::sync::Arc;
use std::thread;

use threadfold_convert::claude;
use threadfold_convert::{Feed, FeedKind, FeedLine, lines::lines};
use threadfold_core::{StateHash, fold};
use threadfold_engine::{IdOrigin, InputOptions, Pipe, Session, follow_pipe};
use threadfold_fold::detection_named;
use threadfold_store::{MemoryStore, Store};

use crate::recordings::{Dice, claude_recordings, open};

#[tokio::test]
async fn a_stream_through_a_pipe_is_the_stream() {
    for (seed, recording) in claude_recordings().into_iter().enumerate() {
        let Some(stream) = &recording.stream else { continue };
        let bytes = fs::read(stream).unwrap();
        let (read, mut write) = io::pipe().unwrap();
        let said = bytes.clone();
        let speaking = thread::spawn(move || {
            let mut dice = Dice::new(seed as u64 + 3);
            let mut rest = &said[..];
            while !rest.is_empty() {
                let (now, later) = rest.split_at((1 + dice.below(2_000)).min(rest.len()));
                write.write_all(now).unwrap();
                rest = later;
            }
        });
        let mut pipe = Pipe::new(read);
        let input = pipe.recognize(&InputOptions::default()).await.unwrap();
        assert_eq!(input.naming, IdOrigin::Agent, "{}", recording.name);
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let mut session = open(&store, &recording.id).await;
        follow_pipe(&mut session, &input, pipe, pending()).await.unwrap();
        speaking.join().unwrap();

        let hash = session.fold().conversation().hash();
        assert_eq!(hash, converted_hash(&bytes), "{}", recording.name);
    }
}

/// Returns the hash of what the converter makes of a stream's lines, without a log.
fn converted_hash(bytes: &[u8]) -> StateHash {
    let feed = Feed::new(claude::AGENT, FeedKind::Stream, "stream");
    let (mut converter, mut events) = (claude::AGENT.converter(), Vec::new());
    for line in lines(bytes) {
        let line = FeedLine { feed: &feed, number: line.number, bytes: line.bytes };
        converter.push(&line, &mut events);
    }
    converter.finish(&feed, &mut events);
    fold(&events).hash()
}

async fn follow_stream(session: &mut Session, text: &'static [u8]) {
    let mut pipe = Pipe::new(text);
    let input = pipe.recognize(&InputOptions::default()).await.unwrap();
    assert_eq!(input.input.format.name, "claude-stream");
    follow_pipe(session, &input, pipe, pending()).await.unwrap();
}

#[tokio::test]
async fn a_second_stream_is_another_part_and_a_last_line_without_an_end_counts() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let mut session = open(&store, &"s1".into()).await;
    follow_stream(&mut session, br#"{"type":"assistant","uuid":"a","session_id":"s1","message":{"id":"m1","role":"assistant","content":[{"type":"text","text":"one"}]}}"#).await;
    follow_stream(&mut session, br#"{"type":"assistant","uuid":"b","session_id":"s1","message":{"id":"m2","role":"assistant","content":[{"type":"text","text":"two"}]}}"#).await;
    let parts: Vec<u32> = session.fold().sources().map(|it| it.spec.part).collect();
    assert_eq!(parts, [1, 2]);
    assert!(session.fold().sources().all(|it| it.ended));
    assert_eq!(session.fold().conversation().blocks().len(), 2);
}

#[tokio::test]
async fn a_stopped_pipe_stores_everything_it_read() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let mut session = open(&store, &"s1".into()).await;
    let (read, mut write) = io::pipe().unwrap();
    // More than waits while it is written, and a line without an end.
    let lines = format!("{{\"type\":\"x\",\"y\":\"{}\"}}\n", "z".repeat(1 << 20)).repeat(8);
    let said = lines.clone() + "{\"type\":";
    let speaking = thread::spawn(move || {
        write.write_all(said.as_bytes()).unwrap();
        write
    });
    let mut pipe = Pipe::new(read);
    // It reads on for the session's id, so that all of it can be written into the pipe.
    let format = detection_named("claude-stream");
    let options = InputOptions { format, ..InputOptions::default() };
    let input = pipe.recognize(&options).await.unwrap();
    assert_eq!(input.naming, IdOrigin::Content, "no line names a session");
    let _open = speaking.join().unwrap();
    follow_pipe(&mut session, &input, pipe, ready(())).await.unwrap();
    let source = session.fold().sources().next().unwrap();
    assert_eq!(source.position.offset, lines.len() as u64);
    assert_eq!(source.partial().unwrap(), "{\"type\":");
    assert!(!source.ended, "it was left, and is not at its end");
}
