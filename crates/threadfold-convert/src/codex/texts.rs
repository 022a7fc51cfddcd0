//! Texts and reasoning of the model, and what a person sent.

use std::sync::Arc;

use threadfold_core::work::visit;
use threadfold_core::{AssistantTextBlock, Block, BlockId, Json, SystemBlock, ThinkingBlock};

use super::emitter::Emitter;
use super::memory::HeldItem;
use super::names;
use super::wire::{Item, Object, content_text, joined, part_texts};

/// The most texts that wait for another record of theirs: a file has that record a few lines further.
pub(super) const MOST_PENDING: usize = 64;

/// Emits a text of the model.
pub(super) fn emit_text(emitter: &mut Emitter<'_>, own: Option<&str>, text: &str) -> BlockId {
    let id = emitter.thread().name("text", own);
    let replaces = names::store(emitter, "text", text, id.as_str());
    emitter.thread().last_text = Some(text.into());
    emitter.emit_renamed(text_block(&id, text), replaces);
    id
}

/// Returns the block of a text.
pub(super) fn text_block(id: &BlockId, text: &str) -> Block {
    Block::new(id.clone(), AssistantTextBlock { content: text.into(), model: None })
}

/// Reasoning, as one view reports it.
#[derive(Clone, Debug, Default)]
pub(super) struct ReasoningReport {
    /// The parts of the summary, if it has several.
    pub(super) parts: Vec<String>,
    pub(super) summary: String,
    pub(super) raw: Option<String>,
    pub(super) encrypted: Option<Arc<str>>,
}

impl ReasoningReport {
    pub(super) fn of_item(item: &Item<'_>) -> Self {
        let summary = item.summary();
        Self { parts: Vec::new(), summary, raw: item.raw_reasoning(), encrypted: None }
    }

    /// Reads a response item, which has the provider's encrypted form as well.
    pub(super) fn of_response(item: &Object<'_>) -> Self {
        let texts = |name| item.get(name).and_then(part_texts).unwrap_or_default();
        let raw = texts("content");
        let parts = texts("summary");
        // One part is the whole, and has no copy of its own.
        let own = if parts.len() < 2 { &[][..] } else { &parts };
        Self {
            parts: own.iter().map(|it| it.to_string()).collect(),
            summary: joined(parts, names::PART_END),
            raw: (!raw.is_empty()).then(|| joined(raw, "\n")),
            encrypted: item.text("encrypted_content").map(|it| (&*it).into()),
        }
    }

    /// Returns the kind by which reasoning without an id is counted.
    pub(super) fn kind(&self) -> &'static str {
        if self.summary.is_empty() { "hidden" } else { "reasoning" }
    }

    pub(super) fn block(&self, id: BlockId) -> Block {
        let raw = self.raw.as_deref();
        let content = if self.summary.is_empty() { raw.unwrap_or("") } else { &self.summary };
        let mut block = Block::new(
            id,
            ThinkingBlock {
                content: content.into(),
                signature: self.encrypted.clone(),
                redacted: content.is_empty(),
            },
        );
        if let Some(raw) = raw.filter(|_| !self.summary.is_empty()) {
            block.metadata.insert("raw", Json::string(raw));
        } else if raw.is_some() {
            // `codex exec` prints the summary alone, so that it lacks such a block.
            block.metadata.insert("unsummarized", Json::of(&true));
        }
        block
    }
}

/// Emits reasoning of the model.
pub(super) fn emit_reasoning(
    emitter: &mut Emitter<'_>,
    own: Option<&str>,
    reasoning: &ReasoningReport,
) -> BlockId {
    let id = emitter.thread().name(reasoning.kind(), own);
    let parts = store_reasoning(emitter, &id, reasoning);
    emit_joined(emitter, &id, reasoning, parts);
    id
}

/// Emits reasoning that replaces the parts of it that another source has as blocks.
pub(super) fn emit_joined(
    emitter: &mut Emitter<'_>,
    id: &BlockId,
    reasoning: &ReasoningReport,
    mut parts: Vec<BlockId>,
) {
    let last = parts.pop();
    // Only the last event has the text: the whole text for each part would be quadratic.
    let empty = || ReasoningReport::default().block(id.clone());
    let is_whole = parts.is_empty();
    for (number, part) in parts.into_iter().enumerate() {
        match number {
            0 => emitter.emit_renamed(empty(), Some(part)),
            _ => emitter.emit_again_as(empty(), part),
        }
    }
    let block = reasoning.block(id.clone());
    match last {
        Some(last) if !is_whole => emitter.emit_again_as(block, last),
        last => emitter.emit_renamed(block, last),
    }
}

/// Notes the name of reasoning, for a stream without names. Returns the names that the stream gave it.
///
/// Versions whose files have no turns print each part of a summary as an item.
fn store_reasoning(
    emitter: &mut Emitter<'_>,
    id: &BlockId,
    reasoning: &ReasoningReport,
) -> Vec<BlockId> {
    if reasoning.summary.is_empty() {
        return Vec::new();
    }
    let is_whole = reasoning.parts.len() < 2 || emitter.thread().turn.is_some();
    if is_whole {
        let name = names::store(emitter, "reasoning", &reasoning.summary, id.as_str());
        return name.into_iter().collect();
    }
    let parts = (0..).zip(&reasoning.parts);
    parts
        .filter_map(|(number, part)| {
            names::store_part(emitter, "reasoning", part, id.as_str(), Some(number))
        })
        .collect()
}

/// Converts a message among the response items.
pub(super) fn convert_message(emitter: &mut Emitter<'_>, item: &Object<'_>) {
    let role = item.text("role").unwrap_or_default();
    let text = || item.get("content").map(content_text).unwrap_or_default();
    let id = item.text("id");
    match &*role {
        // The item has the text already, which is most of what a file has twice.
        "assistant" if id.is_some() && is_itemized(emitter, id.as_deref()) => {
            emitter.thread().itemized = None;
        }
        "assistant" => convert_answer(emitter, id.as_deref(), &text()),
        "user" => convert_words(emitter, id.as_deref(), item, &text()),
        // The instructions of the agent's maker.
        _ => {}
    }
}

/// Returns whether the last item has this id.
fn is_itemized(emitter: &mut Emitter<'_>, id: Option<&str>) -> bool {
    emitter.thread().itemized.as_ref().map(BlockId::as_str) == id
}

/// Converts a text of the model, of which an event or an item may have reported the same before.
fn convert_answer(emitter: &mut Emitter<'_>, id: Option<&str>, text: &str) {
    let thread = emitter.thread();
    // Items that a migration added have ids that the response items lack.
    let is_migrated = thread.itemized.is_some() && id.is_none();
    if is_migrated && thread.last_text.as_deref() == Some(text) {
        thread.itemized = None;
        return;
    }
    if let Some(at) = thread.announced.iter().inspect(|_| visit()).position(|it| **it == *text) {
        thread.announced.drain(..=at);
        emit_text(emitter, id, text);
        return;
    }
    hold(emitter, id, text, false);
}

/// Texts in the user role that no person wrote, by their beginning.
const HARNESS: [(&str, Option<&str>); 9] = [
    ("<environment_context>", None),
    ("<turn_aborted>", None),
    ("<permissions", None),
    ("<user_instructions>", Some("notice")),
    ("# AGENTS.md", Some("notice")),
    ("<user_shell_command>", Some("command")),
    ("<subagent_notification>", Some("task_notification")),
    ("<user_action>", Some("notice")),
    ("<skill>", Some("notice")),
];

fn convert_words(emitter: &mut Emitter<'_>, id: Option<&str>, item: &Object<'_>, text: &str) {
    let harness = HARNESS.iter().find(|(start, _)| text.trim_start().starts_with(start));
    match harness {
        Some((_, None)) => {}
        Some((_, Some(subtype))) => emit_note(emitter, subtype, id, text),
        None => {
            // An image stands between two tags that only the model needs.
            let parts = item.objects("content");
            let is_text = |it: &&Object<'_>| it.text("type").as_deref() == Some("input_text");
            let words: Vec<_> =
                parts.iter().filter(is_text).filter_map(|it| it.text("text")).collect();
            hold(emitter, id, words.first().map_or(text, |it| &**it), true);
        }
    }
}

/// Emits a text that the harness sent to the model.
pub(super) fn emit_note(emitter: &mut Emitter<'_>, subtype: &str, id: Option<&str>, text: &str) {
    let id = emitter.thread().name(subtype, id);
    let message = Some(text.into());
    emitter.emit_block(Block::new(id, SystemBlock { subtype: subtype.into(), message }));
}

/// Holds a response item back until the next record shows what it is: the event of the same text, or
/// the compaction that it summarizes.
fn hold(emitter: &mut Emitter<'_>, id: Option<&str>, text: &str, is_user: bool) {
    flush(emitter);
    let timestamp = emitter.timestamp.clone();
    let held = HeldItem { id: id.map(Into::into), text: text.into(), is_user, timestamp };
    emitter.thread().held = Some(held);
}

/// Emits what was held back.
pub(super) fn flush(emitter: &mut Emitter<'_>) {
    let Some(held) = emitter.thread().held.take() else { return };
    let now = std::mem::replace(&mut emitter.timestamp, held.timestamp);
    match held.is_user {
        true => emit_note(emitter, "notice", held.id.as_deref(), &held.text),
        false => {
            let id = emit_text(emitter, held.id.as_deref(), &held.text);
            let mut block = text_block(&id, &held.text);
            block.metadata.insert("unlisted", Json::of(&true));
            emitter.emit_again(block);
            let unannounced = &mut emitter.thread().unannounced;
            if unannounced.len() == MOST_PENDING {
                unannounced.remove(0);
            }
            unannounced.push(held.text);
        }
    }
    emitter.timestamp = now;
}

/// Forgets what was held back, if it is a text of a person: its event follows.
pub(super) fn take_held_words(emitter: &mut Emitter<'_>) {
    let thread = emitter.thread();
    thread.held.take_if(|held| held.is_user);
    flush(emitter);
}

/// Converts the event of a text, whose response item precedes or follows it.
pub(super) fn announce(emitter: &mut Emitter<'_>, text: &str) {
    let thread = emitter.thread();
    match thread.held.take_if(|held| !held.is_user && *held.text == *text) {
        Some(held) => {
            emit_text(emitter, held.id.as_deref(), text);
        }
        None => {
            flush(emitter);
            if emitter.thread().announced.len() == MOST_PENDING {
                flush_announced(emitter);
            }
            let thread = emitter.thread();
            match thread.unannounced.iter().inspect(|_| visit()).position(|it| **it == *text) {
                Some(at) => {
                    thread.unannounced.remove(at);
                }
                None => thread.announced.push(text.into()),
            }
        }
    }
}

/// Emits texts and reasoning that events announced and no response item followed.
pub(super) fn flush_announced(emitter: &mut Emitter<'_>) {
    for text in std::mem::take(&mut emitter.thread().announced) {
        emit_text(emitter, None, &text);
    }
    let parts = std::mem::take(&mut emitter.thread().announced_reasoning);
    if !parts.is_empty() {
        let parts: Vec<String> = parts.iter().map(|it| it.to_string()).collect();
        let summary = parts.join("\n");
        let reasoning = ReasoningReport { parts, summary, ..ReasoningReport::default() };
        emit_reasoning(emitter, None, &reasoning);
    }
}
