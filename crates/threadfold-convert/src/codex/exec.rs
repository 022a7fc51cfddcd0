//! Converts lines of `codex exec --json`: items that have started or ended.
//!
//! The lines name nothing that a rollout names; [`Names`](super::memory::Names) finds the names.

use std::sync::Arc;

use threadfold_core::{Block, BlockId, BlockStatus, Json, Placement, SystemBlock};

use super::emitter::Emitter;
use super::files;
use super::items::{self, Stage};
use super::memory::StoredName;
use super::names::PART_END;
use super::queries;
use super::subagents::{self, SpawnReport};
use super::texts::{self, ReasoningReport};
use super::tools;
use super::transcript::{TurnEnd, emit_usage, end_turn, error_block};
use super::wire::{Item, ItemKind, Line, Object, Tokens};

/// Converts one line. Returns whether its kind is known.
pub(super) fn convert(emitter: &mut Emitter<'_>, line: &Line<'_>) -> bool {
    let Some(kind) = line.kind.as_deref() else { return false };
    adopt_names(emitter);
    match kind {
        "thread.started" => {
            let Some(thread) = line.thread_id.as_deref() else { return false };
            emitter.memory.root.get_or_insert_with(|| thread.into());
            emitter.turn_to(thread);
            emitter.memory.names.is_needed = true;
            // Every process counts its items from 0.
            emitter.memory.names.items.clear();
        }
        "turn.started" => {
            let thread = emitter.thread();
            // One version mixes the turns of subagents into the stream.
            if !thread.is_open {
                thread.begin_turn(None, None);
                queries::start(emitter);
            }
        }
        "turn.completed" => {
            if let Some(tokens) = line.usage.and_then(Tokens::read) {
                emit_usage(emitter, tokens);
            }
            queries::complete(emitter, None);
            emitter.emit_idle();
        }
        "turn.failed" => {
            let error = line.error.and_then(Object::read);
            let message = error.as_ref().and_then(|it| it.text("message")).unwrap_or_default();
            queries::fail(emitter, Json::string(&message));
            end_failed(emitter, &message);
        }
        "item.started" | "item.updated" | "item.completed" => {
            let stage = if kind == "item.completed" { Stage::Completed } else { Stage::Started };
            let Some(item) = line.item.and_then(Item::read) else { return false };
            return convert_item(emitter, &item, stage);
        }
        "error" => {
            let Some(message) = line.message else { return false };
            let message: String = serde_json::from_str(message.get()).unwrap_or_default();
            // The last error is repeated by `turn.failed`.
            if message.starts_with("Reconnecting") {
                let id = emitter.thread().name("retry", None);
                let (subtype, message) = ("retry".into(), Some(message.into()));
                emitter.emit_block(Block::new(id, SystemBlock { subtype, message }));
            }
        }
        _ => return false,
    }
    true
}

/// Adopts the names that files gave to blocks of the stream since the last line.
fn adopt_names(emitter: &mut Emitter<'_>) {
    let main = emitter.thread.clone();
    for (own, stored) in std::mem::take(&mut emitter.memory.names.renamings) {
        let result = |id: &str| BlockId::from(format!("result:{id}"));
        let name = stored.name;
        let last = emitter.memory.names.last_placed();
        let thread = emitter.thread();
        let call = thread.calls.remove(&own);
        let tail = match &thread.tail {
            Some(tail) if tail.as_str() == &*own => Some(BlockId::from(&*name)),
            Some(tail) if *tail == result(&own) => Some(result(&name)),
            _ => None,
        };
        match (&stored.thread, tail) {
            (None, Some(tail)) => thread.tail = Some(tail),
            // The block is in the conversation of a subagent now.
            (Some(_), Some(_)) => thread.tail = last,
            (_, None) => {}
        }
        let of = stored.thread.unwrap_or_default();
        if !of.is_empty() {
            emitter.turn_to(&of);
        }
        if let Some(call) = call {
            emitter.thread().calls.insert(name.clone(), call);
        }
        // The block has a place now.
        emitter.memory.names.place(&of, &name);
        emitter.turn_to(&main);
    }
}

fn end_failed(emitter: &mut Emitter<'_>, message: &str) {
    let key = emitter.memory.names.next_key("error", message);
    let name = emitter.memory.names.resolve(&key);
    emit_placed(emitter, error_block(BlockId::from(&*name.name), message));
    end_turn(emitter, &TurnEnd { turn: None, error: None, is_interrupted: false });
}

/// Emits a block in the place that the files give it.
fn emit_placed(emitter: &mut Emitter<'_>, block: Block) {
    let is_main = emitter.conversation.is_main();
    let order = if is_main { "".into() } else { emitter.thread.clone() };
    match emitter.memory.names.place(&order, block.id.as_str()) {
        Some(before) => {
            let thread = emitter.thread();
            // The result of a call stands right after it.
            let before = before.map(|call| match thread.calls.get(call.as_str()) {
                Some(known) if known.has_item => BlockId::from(format!("result:{call}")),
                _ => call,
            });
            if thread.tail == before || thread.tail.is_none() {
                thread.tail = Some(block.id.clone());
            }
            emitter.emit_at(block, before.map_or(Placement::First, Placement::After));
        }
        None => emitter.emit_block(block),
    }
}

/// Returns the name of an item: the same one each time that it is reported. What follows is about
/// the thread that the item belongs to.
fn name_of(emitter: &mut Emitter<'_>, item: &Item<'_>, kind: &str, content: &str) -> StoredName {
    let own: Arc<str> = item.id().unwrap_or_default().as_ref().into();
    let names = &mut emitter.memory.names;
    let key = match names.items.get(&own) {
        Some(key) => key.clone(),
        None => {
            let key = names.next_key(kind, content);
            names.items.insert(own, key.clone());
            key
        }
    };
    let stored = names.resolve(&key);
    if let Some(thread) = &stored.thread {
        emitter.turn_to(thread);
    }
    stored
}

/// Converts an item. Returns whether its kind is known.
fn convert_item(emitter: &mut Emitter<'_>, item: &Item<'_>, stage: Stage) -> bool {
    match item.kind {
        ItemKind::AgentMessage => {
            let text = item.words();
            let name = name_of(emitter, item, "text", &text).name;
            emitter.thread().last_text = Some(text.as_str().into());
            emit_placed(emitter, texts::text_block(&BlockId::from(&*name), &text));
        }
        ItemKind::Reasoning => {
            let reasoning = ReasoningReport::of_item(item);
            let stored = name_of(emitter, item, "reasoning", &reasoning.summary);
            let id = BlockId::from(&*stored.name);
            // A part is appended: the whole text again with each part would be quadratic.
            let begin = stored.part.and_then(|_| {
                let block = format!("{} {}", emitter.thread, stored.name);
                emitter.memory.names.add_part(&block, &reasoning.summary)
            });
            match begin {
                Some(begin) => {
                    let text = format!("{PART_END}{}", reasoning.summary);
                    emitter.emit_delta(id, begin, &text);
                }
                None => emit_placed(emitter, reasoning.block(id)),
            }
        }
        ItemKind::TodoList => {
            if let Some(list) = item.get("items") {
                emitter.emit_metadata("todos", Json::from(list));
            }
        }
        ItemKind::Error => {
            let message = item.text("message").unwrap_or_default();
            let name = name_of(emitter, item, "warning", &message).name;
            let (subtype, message) = ("warning".into(), Some((&*message).into()));
            emitter.emit_block(Block::new(&*name, SystemBlock { subtype, message }));
        }
        _ => return convert_call(emitter, item, stage),
    }
    true
}

fn convert_call(emitter: &mut Emitter<'_>, item: &Item<'_>, stage: Stage) -> bool {
    // What is searched for is known when the search ends.
    if item.kind == ItemKind::WebSearch && stage == Stage::Started {
        return true;
    }
    let Some(tool) = items::tool_name(item) else { return false };
    let call = items::call_of(item, "", &tool);
    let Some(content) = items::content_of(item, &call) else { return false };
    let id = name_of(emitter, item, &tool, &content).name;
    let call = tools::CallReport { id: id.clone(), ..call };
    let is_new = !emitter.thread().calls.contains_key(&id);
    if is_new {
        let remembered = super::memory::Call { name: call.name.clone(), ..Default::default() };
        emitter.thread().calls.insert(id.clone(), remembered);
        emit_placed(emitter, tools::call_block(&call));
    }
    if stage == Stage::Started || is_unfinished(item) {
        return true;
    }
    if item.kind == ItemKind::Collaboration {
        subagents::emit_states(emitter, &item.agent_states().unwrap_or_default());
        if tool == "spawn_agent" {
            emit_spawn(emitter, item, &call);
            return true;
        }
    }
    if let Some(call) = emitter.thread().calls.get_mut(&id) {
        call.has_item = true;
    }
    let result = items::result_of(item);
    if id.starts_with("exec:") {
        emitter.memory.names.keep_result(&id, &result);
    }
    tools::emit_result(emitter, &id, result);
    files::emit_of_item(emitter, &id, item);
    true
}

/// Returns whether a command was still running when its process ended: the end of the stream completes
/// it without an exit code.
fn is_unfinished(item: &Item<'_>) -> bool {
    let has_no_code = item.fields().signed("exit_code").is_none();
    let is_completed = item.text("status").as_deref() == Some("completed");
    item.kind == ItemKind::Command && has_no_code && is_completed
}

/// Emits that a call started a subagent, once files have named the call: only then do they agree on
/// which call it is.
fn emit_spawn(emitter: &mut Emitter<'_>, item: &Item<'_>, call: &tools::CallReport) {
    let thread = item.fields().texts("receiver_thread_ids").into_iter().next();
    match thread.filter(|_| !call.id.starts_with("exec:")) {
        Some(thread) => {
            let prompt = item.text("prompt");
            let prompt = prompt.as_deref();
            let spawn = SpawnReport { call: &call.id, thread: &thread, prompt, role: None };
            subagents::emit_spawned(emitter, &spawn);
        }
        None => {
            let mut block = tools::call_block(call);
            block.status = BlockStatus::Complete;
            emitter.emit_again(block);
        }
    }
}
