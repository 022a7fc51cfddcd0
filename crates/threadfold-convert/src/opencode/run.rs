//! The lines of `opencode run --format json`: parts that have ended, and what went wrong.
//!
//! They are the bus's parts by the same names. Prompts, deltas and children are not told.

use serde_json::value::RawValue;

use super::emitter::{Emitter, key};
use super::memory::Message;
use super::parts::{error_block, part, usage};
use super::time::iso;
use super::wire::{Part, RunLine};

/// Converts one line. Says whether it is one that is understood.
pub(super) fn convert(emitter: &mut Emitter<'_>, kind: Option<&str>, text: &str) -> bool {
    let tells_part = match kind {
        Some("step_start" | "step_finish" | "text" | "reasoning" | "tool_use") => true,
        Some("error") => false,
        _ => return false,
    };
    let Ok(line) = serde_json::from_str::<RunLine<'_>>(text) else { return false };
    match (line.part, line.error) {
        (Some(raw), _) if tells_part => ended(emitter, &line, raw),
        (_, Some(error)) if !tells_part => {
            failed(emitter, &line, error);
            true
        }
        _ => false,
    }
}

fn ended(emitter: &mut Emitter<'_>, line: &RunLine<'_>, raw: &RawValue) -> bool {
    let session = &line.session_id;
    let Ok(mut read) = serde_json::from_str::<Part<'_>>(raw.get()) else { return false };
    read.session_id.get_or_insert(session.clone());
    // Older versions put no end on some parts, and yet told them only when they had ended.
    read.time.get_or_insert_default().end.get_or_insert(milliseconds(line).unwrap_or_default());
    if let Some(message) = read.message_id.as_deref() {
        let heard = || Message { session: (**session).into(), ..Message::default() };
        let model =
            emitter.memory.messages.entry(message.into()).or_insert_with(heard).model.clone();
        if let (Some(tokens), Some(conversation)) = (read.tokens, emitter.conversation_of(session))
        {
            usage(emitter, &conversation, message, model.as_deref(), tokens);
        }
    }
    part(emitter, &read, raw)
}

/// The message that failed is not named: it is the one whose step is open. An error outside of
/// a step is named by its session and its time.
fn failed(emitter: &mut Emitter<'_>, line: &RunLine<'_>, error: &RawValue) {
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

/// Sorts behind all names.
const LAST: &str = "\u{10ffff}";

fn milliseconds(line: &RunLine<'_>) -> Option<f64> {
    serde_json::from_str(line.timestamp?.get()).ok()
}
