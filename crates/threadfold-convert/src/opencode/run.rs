//! Converts lines of `opencode run --format json`: parts that have ended, and errors.
//!
//! The parts are those of the bus, with the same ids. Prompts, deltas and child sessions are
//! missing.

use serde_json::value::RawValue;

use super::emitter::{Emitter, LAST, key};
use super::memory::Message;
use super::messages::{emit_usage, error_block};
use super::parts::convert_part;
use super::time::iso;
use super::wire::{Part, RunLine};

/// Converts one line. Returns whether it is a line of `opencode run`.
pub(super) fn convert(emitter: &mut Emitter<'_>, kind: Option<&str>, text: &str) -> bool {
    let is_part = match kind {
        Some("step_start" | "step_finish" | "text" | "reasoning" | "tool_use") => true,
        Some("error") => false,
        _ => return false,
    };
    let Ok(line) = serde_json::from_str::<RunLine<'_>>(text) else { return false };
    match (line.part, line.error) {
        (Some(raw), _) if is_part => convert_ended_part(emitter, &line, raw),
        (_, Some(error)) if !is_part => {
            convert_error(emitter, &line, error);
            true
        }
        _ => false,
    }
}

fn convert_ended_part(emitter: &mut Emitter<'_>, line: &RunLine<'_>, raw: &RawValue) -> bool {
    let session = &line.session_id;
    let Ok(mut read) = serde_json::from_str::<Part<'_>>(raw.get()) else { return false };
    read.session_id.get_or_insert(session.clone());
    // Older versions omit the end of some parts, although they report only ended ones.
    read.time.get_or_insert_default().end.get_or_insert(milliseconds(line).unwrap_or_default());
    if let Some(message) = read.message_id.as_deref() {
        let unknown = || Message { session: (**session).into(), ..Message::default() };
        let model =
            emitter.memory.messages.entry(message.into()).or_insert_with(unknown).model.clone();
        if let (Some(tokens), Some(conversation)) = (read.tokens, emitter.conversation_of(session))
        {
            emit_usage(emitter, &conversation, message, model.as_deref(), tokens);
        }
    }
    convert_part(emitter, &read, raw)
}

/// Converts an error, which does not name its message: that is the one with an open step.
///
/// An error outside of any step gets its id from the session and the time.
fn convert_error(emitter: &mut Emitter<'_>, line: &RunLine<'_>, error: &RawValue) {
    let session = &line.session_id;
    let Some(conversation) = emitter.conversation_of(session) else { return };
    let messages = &emitter.memory.messages;
    let is_here = |id: &&std::sync::Arc<str>| {
        messages.get(*id).is_some_and(|message| *message.session == **session)
    };
    let side = if emitter.is_stream { &emitter.memory.stream } else { &emitter.memory.files };
    let message = side.steps.keys().rfind(is_here).cloned();
    let time = milliseconds(line);
    let (name, place) = match message {
        Some(message) => (message.to_string(), key(&message, LAST)),
        None => {
            let name = format!("{}:{}", &**session, time.unwrap_or_default());
            let place = key(LAST, &name);
            (name, place)
        }
    };
    let mut block = error_block(&name, error);
    block.timestamp = time.and_then(iso);
    emitter.emit_block(&conversation, place, block);
}

fn milliseconds(line: &RunLine<'_>) -> Option<f64> {
    serde_json::from_str(line.timestamp?.get()).ok()
}
