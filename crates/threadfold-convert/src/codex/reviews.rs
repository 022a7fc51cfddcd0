//! Reviews: threads of their own, whose calls live views report in the conversation that asked for them.
//!
//! From 0.157 on, the file of that conversation has those calls as items. Before, only the review's own
//! file has them; from 0.142 on it names the thread that asked, and its calls are repeated there.
//! Files before 0.157 also have the review's prompts and reasoning, each twice, and its texts, all as
//! events without ids and without their place among the calls.

use threadfold_core::{BlockId, ConversationId};

use super::calls;
use super::emitter::Emitter;
use super::names;
use super::texts::{self, ReasoningReport};
use super::wire::{ItemKind, Object};

/// Notes that a review begins or ends in the current thread.
pub(super) fn note(emitter: &mut Emitter<'_>, kind: ItemKind) {
    match kind {
        ItemKind::ReviewEntered => emitter.thread().review_prompt = Some("".into()),
        ItemKind::ReviewExited => {
            let thread = emitter.thread();
            (thread.review_prompt, thread.review_reasoning) = (None, None);
        }
        _ => {}
    }
}

/// Converts the event of a text, if a review that is running wrote it. Returns whether it did.
///
/// Live views do not complete such a text, so it is not counted among those that they have.
pub(super) fn convert_text(emitter: &mut Emitter<'_>, text: &str) -> bool {
    if emitter.thread().review_prompt.is_none() {
        return false;
    }
    texts::flush(emitter);
    let id = emitter.thread().name("review_text", None);
    let replaces = names::store(emitter, "text", text, id.as_str());
    emitter.emit_renamed(texts::text_block(&id, text), replaces);
    true
}

/// Converts the event of reasoning, if a review that is running reasoned. Returns whether it did.
pub(super) fn convert_reasoning(emitter: &mut Emitter<'_>, text: &str) -> bool {
    let thread = emitter.thread();
    if thread.review_prompt.is_none() {
        return false;
    }
    // The thread that asked for the review writes it, and the review does.
    if thread.review_reasoning.take().is_some_and(|known| *known == *text) {
        return true;
    }
    thread.review_reasoning = Some(text.into());
    let (parts, summary) = (vec![text.to_owned()], text.to_owned());
    let reasoning = ReasoningReport { parts, summary, ..ReasoningReport::default() };
    texts::emit_reasoning(emitter, None, &reasoning);
    true
}

/// Returns whether a prompt of a review is in the file for the second time: the thread that asked for
/// the review writes it, and the review does.
pub(super) fn is_repeated_prompt(emitter: &mut Emitter<'_>, text: &str) -> bool {
    let Some(known) = &mut emitter.thread().review_prompt else { return false };
    let is_repeated = **known == *text;
    *known = if is_repeated { "" } else { text }.into();
    is_repeated
}

/// Converts a call of a review, its result, or reasoning, for the conversation that asked for the
/// review.
pub(super) fn repeat(emitter: &mut Emitter<'_>, file: &str, item: &Object<'_>) {
    let review = emitter.memory.open_files.get(file).and_then(|it| it.review.clone());
    let (Some(mut review), Some(root)) = (review, emitter.memory.root.clone()) else { return };
    let kind = item.text("type").unwrap_or_default();
    let reasoning = (kind == "reasoning").then(|| ReasoningReport::of_response(item));
    let reasoning = reasoning.filter(|it| !it.summary.is_empty()).zip(item.text("id"));
    let call =
        item.text("call_id").filter(|_| kind.ends_with("_output") || kind.ends_with("_call"));
    if reasoning.is_none() && call.is_none() {
        return;
    }
    // Both threads have the turn of the review.
    let turn = emitter.thread().turn_name().to_owned();
    let before = review.tail.unwrap_or_else(|| BlockId::from(format!("{turn}:user:1")));
    let own = std::mem::replace(&mut emitter.thread, root);
    let conversation = std::mem::replace(&mut emitter.conversation, ConversationId::main());
    let tail = emitter.thread().tail.replace(before.clone());
    match (reasoning, call) {
        (Some((reasoning, id)), _) => {
            // The other file has each part of it without an id.
            let parts = (0..reasoning.parts.len().max(1)).map(|_| {
                review.reasonings += 1;
                BlockId::from(format!("{turn}:reasoning:{}", review.reasonings))
            });
            let parts = parts.collect();
            texts::emit_joined(emitter, &BlockId::from(&*id), &reasoning, parts);
        }
        (None, Some(_)) if kind.ends_with("_output") => {
            calls::convert_output(emitter, item);
        }
        (None, Some(call)) => {
            let before = before.as_str();
            let names = &mut emitter.memory.names;
            names.note_place_after(before.strip_prefix("result:").unwrap_or(before), &call);
            calls::convert_call(emitter, &kind, item);
        }
        (None, None) => {}
    }
    review.tail = std::mem::replace(&mut emitter.thread().tail, tail);
    (emitter.thread, emitter.conversation) = (own, conversation);
    if let Some(file) = emitter.memory.open_files.get_mut(file) {
        file.review = Some(review);
    }
}
