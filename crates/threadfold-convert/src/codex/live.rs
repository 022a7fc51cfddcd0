//! Converts messages of `codex app-server`: notifications, requests and responses.
//!
//! One connection carries the thread that the client started and the threads of its subagents,
//! which the server does not announce. Other threads that it does announce are left out.

use std::sync::Arc;

use serde_json::value::RawValue;
use threadfold_core::work::visit;
use threadfold_core::{
    Block, BlockId, ContextChange, Json, Payload, PermissionRequested, PermissionResolved,
    SystemBlock,
};

use super::compaction;
use super::emitter::Emitter;
use super::items::{self, Stage};
use super::memory::OpenText;
use super::queries;
use super::texts::{self, MOST_PENDING, ReasoningReport};
use super::transcript::{TurnEnd, begin_turn, emit_usage, end_turn, roll_back};
use super::wire::{Item, ItemKind, Line, Object, Tokens};

/// The first version that writes the ids of messages to its files.
const WRITES_IDS: (u64, u64) = (0, 142);

/// Converts one message. Returns whether its kind is known.
pub(super) fn convert(emitter: &mut Emitter<'_>, line: &Line<'_>) -> bool {
    if let Some(inner) = line.msg {
        let Ok(message) = serde_json::from_str::<Line<'_>>(inner.get()) else { return false };
        if line.dir.as_deref() == Some("client") {
            convert_client(emitter, &message);
            return true;
        }
        return message.msg.is_none() && convert(emitter, &message);
    }
    match (line.method.as_deref(), line.params) {
        (Some(method), Some(params)) => convert_method(emitter, method, params, line.id),
        (Some(method), None) => method == "initialized",
        (None, _) if line.id.is_some() => {
            let id = line.id.map(RawValue::get).unwrap_or_default();
            if let Some((thread, turns)) = emitter.memory.rollbacks.remove(id)
                && line.result.is_some()
                && enter(emitter, &thread)
            {
                roll_back(emitter, turns);
            }
            if let Some(result) = line.result.and_then(Object::read) {
                convert_response(emitter, &result);
            }
            line.result.is_some() || line.error.is_some()
        }
        _ => false,
    }
}

/// Converts what the client sent: requests to go back, and answers to questions.
fn convert_client(emitter: &mut Emitter<'_>, message: &Line<'_>) {
    let params = message.params.and_then(Object::read).unwrap_or_default();
    let thread = params.text("thread_id");
    match (message.method.as_deref(), thread) {
        // It is done once the server has agreed.
        (Some("thread/rollback"), Some(thread)) => {
            let turns = params.number("num_turns").unwrap_or(1);
            let id = message.id.map(RawValue::get).unwrap_or_default().to_owned();
            emitter.memory.rollbacks.insert(id, ((*thread).into(), turns));
        }
        (Some("thread/revert"), Some(thread)) => {
            if let Some(turn) = params.text("before_turn_id") {
                emitter.memory.going_back.insert((*thread).into(), (*turn).into());
            }
        }
        (None, _) => {
            let id = message.id.map(RawValue::get).unwrap_or_default();
            if let (Some(thread), Some(answer)) =
                (emitter.memory.questions.remove(id), message.result)
            {
                enter(emitter, &thread);
                emit_resolved(emitter, id, Some(Json::from(answer)));
            }
        }
        _ => {}
    }
}

fn emit_resolved(emitter: &mut Emitter<'_>, id: &str, answer: Option<Json>) {
    let request_id = format!("request:{id}").as_str().into();
    emitter.emit(Payload::PermissionResolved(PermissionResolved { request_id, answer }));
}

/// Converts a response: it names the thread that the client asked for, and the version.
fn convert_response(emitter: &mut Emitter<'_>, result: &Object<'_>) {
    if let Some(agent) = result.text("user_agent") {
        let version = agent.split_once('/').and_then(|(_, rest)| rest.split([' ', '(']).next());
        if let Some(version) = version {
            let mut numbers = version.split('.').map(|it| it.parse::<u64>().unwrap_or(0));
            let number = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
            emitter.memory.has_no_ids = number < WRITES_IDS;
        }
    }
    if let Some(thread) = result.object("thread").and_then(|it| it.text("id")) {
        announce(emitter, &thread);
    }
}

/// Notes a thread that the server announces.
fn announce(emitter: &mut Emitter<'_>, thread: &str) {
    let memory = &mut *emitter.memory;
    if memory.root.is_none() {
        memory.root = Some(thread.into());
    }
    if memory.root.as_deref() != Some(thread) && !memory.stream.contains_key(thread) {
        memory.early_warnings.remove(thread);
        memory.strangers.insert(thread.into());
    }
}

/// Lets events be about a thread. Returns whether it is part of the session.
fn enter(emitter: &mut Emitter<'_>, thread: &str) -> bool {
    if emitter.memory.root.is_none() {
        emitter.memory.root = Some(thread.into());
    }
    emitter.thread = "".into();
    emitter.turn_to(thread);
    !emitter.memory.strangers.contains(thread)
}

/// Converts a notification or a request. Returns whether its method is known.
fn convert_method(
    emitter: &mut Emitter<'_>,
    method: &str,
    params: &RawValue,
    id: Option<&RawValue>,
) -> bool {
    // One version sends every event twice.
    if method.starts_with("codex/event/") {
        return true;
    }
    let Some(params) = Object::read(params) else { return false };
    if method == "thread/started" {
        if let Some(thread) = params.object("thread").and_then(|it| it.text("id")) {
            announce(emitter, &thread);
        }
        return true;
    }
    let Some(thread) = params.text("thread_id") else { return is_about_server(method) };
    if !enter(emitter, &thread) {
        return true;
    }
    if method != "warning" {
        emit_early_warnings(emitter);
    }
    match method {
        "turn/started" => {
            let turn = params.object("turn").and_then(|it| it.text("id"));
            begin_turn(emitter, turn.as_deref().filter(|it| is_lasting(it)), None);
            queries::start(emitter);
        }
        "turn/completed" => {
            let Some(turn) = params.object("turn") else { return false };
            let error = turn.object("error");
            let error = error.as_ref().and_then(|it| it.text("message"));
            let id = turn.text("id");
            let end = TurnEnd {
                turn: id.as_deref().filter(|it| is_lasting(it)),
                error: error.as_deref(),
                is_interrupted: turn.text("status").as_deref() == Some("interrupted"),
            };
            queries::end(emitter, &turn);
            end_turn(emitter, &end);
        }
        "item/started" | "item/completed" => {
            let stage = if method == "item/started" { Stage::Started } else { Stage::Completed };
            let Some(item) = params.get("item").and_then(Item::read) else { return false };
            return convert_item(emitter, &item, stage);
        }
        "item/agentMessage/delta" => convert_delta(emitter, &params, false),
        "item/reasoning/summaryTextDelta" => convert_delta(emitter, &params, true),
        "item/reasoning/summaryPartAdded" => begin_part(emitter, &params),
        "thread/tokenUsage/updated" => {
            let usage = params.object("token_usage");
            if let Some(tokens) = usage.and_then(|it| Tokens::read(it.get("total")?)) {
                emit_usage(emitter, tokens);
            }
        }
        "thread/name/updated" => {
            if let Some(name) = params.text("thread_name") {
                emitter.emit_metadata("title", Json::string(&name));
            }
        }
        "thread/settings/updated" => {
            let settings = params.object("thread_settings").unwrap_or_default();
            for name in ["cwd", "model"] {
                if let Some(value) = settings.text(name) {
                    emitter.emit_setting(name, &value);
                }
            }
        }
        "thread/reverted" => go_back(emitter, &thread),
        "turn/plan/updated" => {
            if let Some(plan) = params.get("plan") {
                emitter.emit_metadata("todos", Json::from(plan));
            }
        }
        "error" => {
            if params.is_true("will_retry") {
                emitter.abandon_texts();
                let error = params.object("error");
                let message = error.as_ref().and_then(|it| it.text("message"));
                texts::emit_note(emitter, "retry", None, &message.unwrap_or_default());
            }
        }
        "warning" => {
            let message = params.text("message").unwrap_or_default();
            // A fork is warned about before it is announced, and is no part of the session.
            let memory = &mut *emitter.memory;
            let is_root = memory.root.as_deref() == Some(&*thread);
            match is_root || memory.stream.contains_key(&*thread) {
                true => texts::emit_note(emitter, "warning", None, &message),
                false => {
                    let early = memory.early_warnings.entry((*thread).into()).or_default();
                    early.push((&*message).into());
                }
            }
        }
        "item/commandExecution/requestApproval"
        | "item/fileChange/requestApproval"
        | "item/tool/requestUserInput"
        | "item/permissions/requestApproval" => {
            let Some(id) = id else { return false };
            ask(emitter, id, &params);
        }
        "serverRequest/resolved" => {
            let id = params.get("request_id").map(RawValue::get).unwrap_or_default();
            if emitter.memory.questions.remove(id).is_some() {
                emit_resolved(emitter, id, None);
            }
        }
        // What an item repeats when it ends, and what is no part of the conversation.
        "item/reasoning/textDelta"
        | "item/plan/delta"
        | "item/commandExecution/outputDelta"
        | "item/commandExecution/terminalInteraction"
        | "item/fileChange/outputDelta"
        | "item/fileChange/patchUpdated"
        | "item/mcpToolCall/progress"
        | "item/tool/call"
        | "turn/diff/updated"
        | "thread/status/changed"
        | "thread/archived"
        | "thread/unarchived"
        | "thread/closed"
        | "thread/readState/changed"
        | "thread/goal/updated"
        | "thread/goal/cleared"
        | "thread/compacted"
        | "mcpServer/startupStatus/updated" => {}
        _ => return false,
    }
    true
}

/// Emits the warnings that preceded everything else about a thread.
pub(super) fn emit_early_warnings(emitter: &mut Emitter<'_>) {
    if emitter.memory.early_warnings.is_empty() {
        return;
    }
    let thread = emitter.thread.clone();
    for message in emitter.memory.early_warnings.remove(&thread).unwrap_or_default() {
        texts::emit_note(emitter, "warning", None, &message);
    }
}

/// Returns whether a turn's id is one that files have, and not a number of the process.
fn is_lasting(turn: &str) -> bool {
    turn.contains('-')
}

/// Returns whether a notification is about the server and not about a thread.
fn is_about_server(method: &str) -> bool {
    let families =
        ["account/", "remoteControl/", "mcpServer/", "app/", "skills/", "fs/", "windows"];
    families.iter().any(|it| method.starts_with(it))
        || matches!(method, "configWarning" | "deprecationNotice" | "warning" | "initialize")
}

/// Converts an item. Returns whether its kind is known.
fn convert_item(emitter: &mut Emitter<'_>, item: &Item<'_>, stage: Stage) -> bool {
    let is_completed = stage == Stage::Completed;
    match item.kind {
        ItemKind::UserMessage if is_completed => items::convert_user(emitter, item),
        ItemKind::AgentMessage if is_completed => {
            let text = item.words();
            let id = close_text(emitter, item, "text");
            emitter.thread().last_text = Some(text.as_str().into());
            finish_text(emitter, id, |id| texts::text_block(&id, &text));
        }
        ItemKind::Reasoning if is_completed => {
            let reasoning = ReasoningReport::of_item(item);
            let id = close_text(emitter, item, reasoning.kind());
            finish_text(emitter, id, |id| reasoning.block(id));
        }
        ItemKind::UserMessage | ItemKind::AgentMessage | ItemKind::Reasoning => {}
        ItemKind::SubagentActivity => {
            return !is_completed || items::convert_activity(emitter, item);
        }
        ItemKind::Plan
        | ItemKind::ReviewEntered
        | ItemKind::ReviewExited
        | ItemKind::Compaction => {
            return !is_completed || items::convert_notice(emitter, item);
        }
        _ => return items::convert_call(emitter, item, stage),
    }
    true
}

/// A text whose item ended.
enum ClosedText {
    /// It was streamed after another block.
    Streamed(BlockId, Option<BlockId>),
    /// It was not streamed.
    New(BlockId),
}

/// Closes the text of an item.
fn close_text(emitter: &mut Emitter<'_>, item: &Item<'_>, kind: &str) -> ClosedText {
    let own = item.id();
    let own = own.as_deref().filter(|_| !emitter.memory.has_no_ids);
    let id = item.id().unwrap_or_default();
    let thread = emitter.thread();
    let at = thread.open.iter().position(|it| *it.item == *id);
    let open = at.map(|at| thread.open.remove(at));
    let name = thread.name(kind, own);
    match open {
        Some(open) => ClosedText::Streamed(open.block, open.before),
        None => ClosedText::New(name),
    }
}

fn finish_text(emitter: &mut Emitter<'_>, text: ClosedText, block: impl FnOnce(BlockId) -> Block) {
    match text {
        ClosedText::Streamed(id, before) => emitter.emit_ended(block(id), before),
        ClosedText::New(id) => emitter.emit_block(block(id)),
    }
}

/// Returns the text that an item streams, and begins it if it is new.
fn open_text(emitter: &mut Emitter<'_>, item: &str, is_reasoning: bool) -> usize {
    let has_no_ids = emitter.memory.has_no_ids;
    let thread = emitter.thread();
    if let Some(at) = thread.open.iter().inspect(|_| visit()).position(|it| *it.item == *item) {
        return at;
    }
    // No agent writes so many texts at once: nobody will complete these.
    if thread.open.len() == MOST_PENDING {
        emitter.abandon_texts();
    }
    let thread = emitter.thread();
    let kind = if is_reasoning { "reasoning" } else { "text" };
    let others = thread.open.iter().filter(|it| it.is_reasoning == is_reasoning).count() as u32;
    let number = thread.counts.get(kind).copied().unwrap_or(0) + others + 1;
    let block: BlockId = match has_no_ids {
        true => format!("{}:{kind}:{number}", thread.turn_name()).as_str().into(),
        false => item.into(),
    };
    let before = thread.tail.clone();
    let item: Arc<str> = item.into();
    thread.open.push(OpenText { item, block: block.clone(), is_reasoning, before, length: 0 });
    let at = thread.open.len() - 1;
    let preview = match is_reasoning {
        true => ReasoningReport::default().block(block),
        false => texts::text_block(&block, ""),
    };
    emitter.emit_preview(preview);
    at
}

fn convert_delta(emitter: &mut Emitter<'_>, params: &Object<'_>, is_reasoning: bool) {
    let (Some(item), Some(delta)) = (params.text("item_id"), params.text("delta")) else { return };
    let at = open_text(emitter, &item, is_reasoning);
    append(emitter, at, &delta);
}

fn append(emitter: &mut Emitter<'_>, at: usize, text: &str) {
    let open = &mut emitter.thread().open[at];
    let (block, offset) = (open.block.clone(), open.length);
    open.length += text.len() as u64;
    emitter.emit_delta(block, offset, text);
}

/// Begins a further part of a summary, on a new line.
fn begin_part(emitter: &mut Emitter<'_>, params: &Object<'_>) {
    let Some(item) = params.text("item_id") else { return };
    if params.number("summary_index").unwrap_or(0) > 0 {
        let at = open_text(emitter, &item, true);
        append(emitter, at, "\n");
    }
}

/// Converts a question to a person.
fn ask(emitter: &mut Emitter<'_>, id: &RawValue, params: &Object<'_>) {
    emitter.memory.questions.insert(id.get().to_owned(), emitter.thread.clone());
    let question =
        ["questions", "command", "reason", "changes"].iter().find_map(|it| params.get(it));
    emitter.emit(Payload::PermissionRequested(PermissionRequested {
        request_id: format!("request:{}", id.get()).as_str().into(),
        tool_use_id: params.text("item_id").map(|it| (&*it).into()),
        question: question.map(Json::from),
        options: params.get("available_decisions").map(Json::from),
    }));
}

/// Goes back to before the turn that the client named.
fn go_back(emitter: &mut Emitter<'_>, thread: &str) {
    let turn = emitter.memory.going_back.remove(thread);
    let starts = &mut emitter.thread().starts;
    let at = turn.and_then(|turn| starts.iter().position(|it| it.turn.as_ref() == Some(&turn)));
    match at {
        Some(at) => {
            let head = starts[at].before.clone();
            starts.truncate(at);
            compaction::emit_back(emitter, ContextChange::Revert, head);
        }
        None => {
            let id = emitter.thread().name("reverted", None);
            let (subtype, message) = ("reverted".into(), None);
            emitter.emit_block(Block::new(id, SystemBlock { subtype, message }));
        }
    }
}
