//! Reviews: threads of their own, whose calls live views report in the conversation that asked for them.
//!
//! From 0.157 on, the file of that conversation has those calls as items. Before, only the review's own
//! file has them; from 0.142 on it names the thread that asked, and its calls are repeated there.

use std::sync::Arc;

use serde_json::value::RawValue;
use threadfold_core::{BlockId, ConversationId};

use super::calls;
use super::emitter::Emitter;
use super::memory::Review;
use super::wire::{ItemKind, Object};

/// Notes that a review begins or ends in the current thread.
pub(super) fn note(emitter: &mut Emitter<'_>, kind: ItemKind) {
    match kind {
        ItemKind::ReviewEntered => emitter.thread().review_prompt = Some("".into()),
        ItemKind::ReviewExited => emitter.thread().review_prompt = None,
        _ => {}
    }
}

/// Returns whether a prompt of a review is in the file for the second time: the thread that asked for
/// the review writes it, and the review does.
pub(super) fn is_repeated_prompt(emitter: &mut Emitter<'_>, text: &str) -> bool {
    let Some(known) = &mut emitter.thread().review_prompt else { return false };
    let is_repeated = **known == *text;
    *known = text.into();
    is_repeated
}

/// Converts a call of a review, or its result, for the conversation that asked for the review.
pub(super) fn repeat_call(emitter: &mut Emitter<'_>, file: &Arc<str>, payload: &RawValue) {
    let review = emitter.memory.open_files.get(file).and_then(|it| it.review.clone());
    let (Some(review), Some(root)) = (review, emitter.memory.root.clone()) else { return };
    let Some(item) = Object::read(payload) else { return };
    let kind = item.text("type").unwrap_or_default();
    let is_output = kind.ends_with("_output");
    let (Some(call), true) = (item.text("call_id"), is_output || kind.ends_with("_call")) else {
        return;
    };
    // Both threads have the turn of the review.
    let turn = emitter.thread().turn_name().to_owned();
    let before = review.tail.unwrap_or_else(|| BlockId::from(format!("{turn}:user:1")));
    let own = std::mem::replace(&mut emitter.thread, root);
    let conversation = std::mem::replace(&mut emitter.conversation, ConversationId::main());
    let tail = emitter.thread().tail.replace(before.clone());
    match is_output {
        true => calls::convert_output(emitter, &item),
        false => {
            let before = before.as_str();
            let names = &mut emitter.memory.names;
            names.note_place_after(before.strip_prefix("result:").unwrap_or(before), &call);
            calls::convert_call(emitter, &kind, &item)
        }
    };
    let tail = std::mem::replace(&mut emitter.thread().tail, tail);
    (emitter.thread, emitter.conversation) = (own, conversation);
    if let Some(file) = emitter.memory.open_files.get_mut(file) {
        file.review = Some(Review { tail });
    }
}
