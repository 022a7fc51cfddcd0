//! The events that are published: both servers send the same bytes, as far as they can.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use threadfold_core::{BlockId, Payload, SessionEvent};

/// What a client looks for to learn when an event was published.
pub(crate) const STAMP: &[u8] = b"at=";
/// How many digits follow.
pub(crate) const DIGITS: usize = 19;

/// Events up to this size are deltas of one block; larger ones are blocks.
const LONGEST_DELTA: usize = 1024;

/// Returns the nanoseconds since 1970, which all processes of a machine agree on.
pub(crate) fn now() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns a text of about this length, with the time.
pub(crate) fn text(bytes: usize) -> String {
    let mut text = format!("at={:0DIGITS$} ", now());
    text.extend(std::iter::repeat_n('x', bytes.saturating_sub(text.len())));
    text
}

/// Returns the block that deltas are appended to.
pub(crate) fn first() -> SessionEvent {
    let json = r#"{"type":"block:upsert","payload":{"block":{"id":"answer","type":"assistant_text","content":"","status":"pending"}}}"#;
    SessionEvent::from_json(json).expect("the event is valid")
}

/// Returns an event with a text of about this length.
pub(crate) fn event(number: u64, bytes: usize) -> SessionEvent {
    if bytes > LONGEST_DELTA {
        return SessionEvent::from_json(&json(number, bytes)).expect("the event is valid");
    }
    let delta = threadfold_core::BlockDelta {
        block_id: BlockId::from("answer"),
        delta: Arc::from(text(bytes)),
        field: threadfold_core::TextField::Content,
        offset: None,
    };
    SessionEvent::new(Payload::BlockDelta(delta))
}

/// Returns the frame of an event as our server sends it, for a server that has only its text.
pub(crate) fn frame(session: &str, number: u64, bytes: usize) -> String {
    format!(
        r#"{{"type":"events","sessionId":"{session}","cursor":"{:0>32}.1.{number}","events":[{}]}}"#,
        session,
        json(number, bytes)
    )
}

fn json(number: u64, bytes: usize) -> String {
    let text = text(bytes);
    match bytes > LONGEST_DELTA {
        true => format!(
            r#"{{"type":"block:upsert","payload":{{"block":{{"id":"b{number}","type":"assistant_text","content":"{text}","status":"complete"}}}}}}"#
        ),
        false => {
            format!(r#"{{"type":"block:delta","payload":{{"blockId":"answer","delta":"{text}"}}}}"#)
        }
    }
}
