//! Converts lines of a rollout, of any version.
//!
//! What a line means is decided by the line and not by the version: a thread that a newer version
//! resumes continues in the same file.

use serde::Serialize;
use threadfold_core::{Block, ContextChange, ErrorBlock, Json, SystemBlock};

use super::calls;
use super::compaction;
use super::emitter::{Emitter, conversation_of};
use super::items::{self, Stage};
use super::memory::{CopiedRecords, End, FileState, Review};
use super::names;
use super::reviews;
use super::subagents;
use super::texts::{self, ReasoningReport};
use super::wire::{
    Item, ItemKind, Object, Payload, RolloutLine, SessionMeta, Tokens, content_text,
};
use crate::record::{Feed, FeedKind};

/// Converts one line. Returns whether its kind is known.
pub(super) fn convert(emitter: &mut Emitter<'_>, feed: &Feed, line: RolloutLine<'_>) -> bool {
    let (Some(kind), Some(payload)) = (line.kind.as_deref(), line.payload) else { return false };
    let fields = payload.fields.as_ref();
    if kind == "session_meta" {
        return fields.is_some_and(|it| convert_meta(emitter, feed, line.ordinal, it));
    }
    let name = file_name(feed);
    if is_skipped(emitter, name, kind, line.ordinal, fields) {
        return true;
    }
    emitter.timestamp = line.timestamp.as_deref().map(Into::into);
    match kind {
        "response_item" => {
            let Some(item) = fields else { return false };
            let is_known = convert_response(emitter, item);
            reviews::repeat(emitter, name, item);
            is_known
        }
        "event_msg" => convert_event(emitter, line.ordinal, payload),
        "turn_context" => {
            if let Some(context) = fields {
                emit_settings(emitter, context);
            }
            true
        }
        "compacted" => {
            // In newer versions the summary precedes it, as a text of the model.
            emitter.thread().held = None;
            let summary = fields.and_then(|it| it.text("message"));
            compaction::convert_record(emitter, summary.as_deref());
            true
        }
        // What `token_count` repeats, and what is no part of the conversation.
        "token_usage_record"
        | "world_state"
        | "inter_agent_communication_metadata"
        | "retained_context" => true,
        _ => false,
    }
}

/// Returns the name of a file within the session.
pub(super) fn file_name(feed: &Feed) -> &str {
    feed.source.id.as_ref().map_or("", |id| id.as_str())
}

/// Lets the events of a file be about its own thread.
pub(super) fn enter(emitter: &mut Emitter<'_>, feed: &Feed) {
    let state = emitter.memory.open_files.get(file_name(feed));
    let thread = match (state.and_then(|it| it.thread.clone()), &feed.kind) {
        (Some(thread), _) => thread,
        (None, FeedKind::Subagent(agent)) => agent.as_str().into(),
        (None, _) => emitter.memory.root.clone().unwrap_or_else(|| "".into()),
    };
    let is_base = state.is_some_and(|it| it.is_base);
    emitter.conversation = match is_base || thread.is_empty() {
        true => threadfold_core::ConversationId::main(),
        false => conversation_of(emitter.memory, &thread),
    };
    emitter.thread = thread;
}

fn convert_meta(
    emitter: &mut Emitter<'_>,
    feed: &Feed,
    ordinal: Option<u64>,
    payload: &Object<'_>,
) -> bool {
    let meta = SessionMeta::of(payload);
    let Some(id) = meta.id.as_deref() else { return false };
    let name = file_name(feed);
    let known = emitter.memory.open_files.get(name).and_then(|it| it.thread.clone());
    if let Some(own) = known {
        // The history of another thread follows. A fork shows it; a subagent only works with it.
        let is_subagent = emitter.memory.root.as_ref() != Some(&own);
        if *own != *id && is_subagent {
            let file = emitter.memory.open_files.entry(name.into()).or_default();
            file.copied.get_or_insert(CopiedRecords { until: None });
        }
        return true;
    }
    let is_main = !matches!(feed.kind, FeedKind::Subagent(_));
    if is_main && emitter.memory.root.is_none() {
        emitter.memory.root = Some(id.into());
    }
    let is_root = emitter.memory.root.as_deref() == Some(id);
    let base_end = emitter.memory.bases.get(id).copied().filter(|_| !is_root);
    let mut file = FileState { thread: Some(id.into()), ..FileState::default() };
    file.base_end = base_end;
    file.is_base = base_end.is_some();
    let is_of_root =
        meta.parent.is_some() && meta.parent.as_deref() == emitter.memory.root.as_deref();
    if meta.is_review && is_of_root && !is_root && ordinal.is_none() {
        file.review = Some(Review::default());
    }
    if meta.parent.is_some() && !is_root {
        file.copied = meta.own_from.map(|until| CopiedRecords { until: Some(until) });
    }
    emitter.memory.open_files.insert(name.into(), file);
    enter(emitter, feed);
    if let Some((thread, end)) = &meta.base {
        match **thread == *id {
            true => revert(emitter, *end),
            false => {
                emitter.memory.bases.insert((**thread).into(), *end);
            }
        }
    }
    if is_root {
        emitter.memory.names.is_needed |= meta.is_exec;
        if let Some(version) = &meta.version {
            emitter.emit_setting("version", version);
        }
    }
    if let Some(cwd) = &meta.cwd {
        emitter.emit_setting("cwd", cwd);
    }
    if meta.is_review {
        subagents::emit_internal(emitter);
    }
    true
}

/// Goes back to the end of the records before an ordinal: a new file continues from there.
fn revert(emitter: &mut Emitter<'_>, end: u64) {
    let starts = &emitter.thread().starts;
    let at = starts.iter().position(|it| it.ordinal.is_some_and(|ordinal| ordinal >= end));
    if let Some(at) = at {
        let head = emitter.thread().starts[at].before.clone();
        emitter.thread().starts.truncate(at);
        compaction::emit_back(emitter, ContextChange::Revert, head);
    }
}

/// Returns whether a record is no part of this conversation: copied from another thread, or written
/// to a thread after it was forked.
fn is_skipped(
    emitter: &mut Emitter<'_>,
    name: &str,
    kind: &str,
    ordinal: Option<u64>,
    payload: Option<&Object<'_>>,
) -> bool {
    let Some(file) = emitter.memory.open_files.get(name) else { return false };
    if let (Some(end), Some(ordinal)) = (file.base_end, ordinal)
        && ordinal >= end
    {
        return true;
    }
    let Some(copied) = &file.copied else { return false };
    let is_own = match (copied.until, ordinal) {
        (Some(until), Some(ordinal)) => ordinal >= until,
        _ if kind == "event_msg" => is_own_turn(payload, file.thread.as_deref().unwrap_or("")),
        _ => false,
    };
    if is_own && let Some(file) = emitter.memory.open_files.get_mut(name) {
        file.copied = None;
    }
    !is_own
}

/// Returns whether an event begins a turn of this thread, and not a copied one: ids begin with their
/// time, and the thread's own turns are younger than the thread.
fn is_own_turn(payload: Option<&Object<'_>>, thread: &str) -> bool {
    let Some(event) = payload else { return false };
    let is_start = event.text("type").as_deref() == Some("task_started");
    is_start && event.text("turn_id").is_some_and(|turn| *turn > *thread)
}

fn emit_settings(emitter: &mut Emitter<'_>, settings: &Object<'_>) {
    for name in ["cwd", "model"] {
        if let Some(value) = settings.text(name) {
            emitter.emit_setting(name, &value);
        }
    }
}

/// Converts what the model wrote or saw. Returns whether its type is known.
fn convert_response(emitter: &mut Emitter<'_>, item: &Object<'_>) -> bool {
    let kind = item.text("type").unwrap_or_default();
    let is_bookkeeping = matches!(&*kind, "additional_tools" | "ghost_snapshot");
    if kind != "message" && kind != "reasoning" && !is_bookkeeping {
        texts::flush(emitter);
        texts::flush_announced(emitter);
    }
    match &*kind {
        "message" => texts::convert_message(emitter, item),
        "reasoning" => {
            texts::flush(emitter);
            convert_reasoning(emitter, item);
        }
        "function_call" | "custom_tool_call" | "local_shell_call" | "tool_search_call" => {
            return calls::convert_call(emitter, &kind, item);
        }
        "function_call_output"
        | "custom_tool_call_output"
        | "local_shell_call_output"
        | "tool_search_output" => return calls::convert_output(emitter, item),
        "web_search_call" | "image_generation_call" => {
            calls::convert_provider_call(emitter, &kind, item);
        }
        "agent_message" => convert_mail(emitter, item),
        // Tools that the model may call, and snapshots of the folder.
        "additional_tools" | "ghost_snapshot" => {}
        _ => return false,
    }
    true
}

fn convert_reasoning(emitter: &mut Emitter<'_>, item: &Object<'_>) {
    let reasoning = ReasoningReport::of_response(item);
    let id = item.text("id");
    let thread = emitter.thread();
    thread.announced_reasoning.clear();
    match (thread.itemized.take(), id.as_deref()) {
        (Some(known), Some(id)) if known.as_str() == id => {
            emitter.emit_again(reasoning.block(known));
        }
        (_, id) => {
            texts::emit_reasoning(emitter, id, &reasoning);
        }
    }
}

/// Converts a message from one agent to another.
fn convert_mail(emitter: &mut Emitter<'_>, item: &Object<'_>) {
    let text = item.get("content").map(content_text).unwrap_or_default();
    let id = emitter.thread().name("mail", item.text("id").as_deref());
    let message = Some(text.into());
    let mut block = Block::new(id, SystemBlock { subtype: "agent_message".into(), message });
    for name in ["author", "recipient"] {
        if let Some(value) = item.get(name) {
            block.metadata.insert(name, Json::from(value));
        }
    }
    let parts = item.objects("content");
    if let Some(encrypted) = parts.iter().find_map(|it| it.get("encrypted_content")) {
        block.metadata.insert("encrypted", Json::from(encrypted));
    }
    emitter.emit_block(block);
}

/// Converts an event. Returns whether its type is known.
fn convert_event(emitter: &mut Emitter<'_>, ordinal: Option<u64>, payload: Payload<'_>) -> bool {
    let Some(event) = payload.fields else { return false };
    let kind = event.text("type").unwrap_or_default();
    match &*kind {
        "task_started" => begin_turn(emitter, event.text("turn_id").as_deref(), ordinal),
        "task_complete" => {
            let error = event.object("error");
            let error = error.as_ref().and_then(|it| it.text("message"));
            end_turn(
                emitter,
                &TurnEnd {
                    turn: event.text("turn_id").as_deref(),
                    error: error.as_deref(),
                    is_interrupted: false,
                },
            );
        }
        "turn_aborted" => {
            end_turn(
                emitter,
                &TurnEnd {
                    turn: event.text("turn_id").as_deref(),
                    error: None,
                    is_interrupted: true,
                },
            );
        }
        "token_count" => {
            if let Some(tokens) = event.get("info").and_then(Tokens::read_total) {
                emit_usage(emitter, tokens);
            }
        }
        "item_completed" => {
            // The item is among the fields if it precedes the type, as in a file with sorted keys.
            let item = payload.item.or_else(|| event.object("item"));
            let Some(item) = item.and_then(Item::of_object) else { return false };
            return convert_item(emitter, &item);
        }
        "thread_settings_applied" => {
            if let Some(settings) = event.object("thread_settings") {
                emit_settings(emitter, &settings);
            }
        }
        "user_message" => convert_user(emitter, &event),
        "agent_message" => {
            let text = event.text("message").unwrap_or_default();
            if !reviews::convert_text(emitter, &text) {
                texts::announce(emitter, &text);
            }
        }
        "agent_reasoning" => {
            texts::flush(emitter);
            let text = event.text("text").unwrap_or_default();
            if reviews::convert_reasoning(emitter, &text) {
                return true;
            }
            emitter.thread().announced_reasoning.push((&*text).into());
        }
        "thread_rolled_back" => roll_back(emitter, event.number("num_turns").unwrap_or(1)),
        "thread_name_updated" => {
            if let Some(name) = event.text("thread_name") {
                emitter.emit_metadata("title", Json::string(&name));
            }
        }
        "error" | "stream_error" => {
            let text = event.text("message").unwrap_or_default();
            let id = emitter.thread().name("failure", None);
            emitter.emit_block(error_block(id, &text));
        }
        "agent_reasoning_raw_content" | "context_compacted" => {}
        other => return convert_tool_event(emitter, other, event),
    }
    true
}

/// Converts an event of a tool, as older versions write them: an item under another name.
fn convert_tool_event(emitter: &mut Emitter<'_>, kind: &str, event: Object<'_>) -> bool {
    let item_kind = match kind {
        "exec_command_end" => ItemKind::Command,
        "patch_apply_end" => ItemKind::FileChange,
        "mcp_tool_call_end" => ItemKind::Mcp,
        "view_image_tool_call" => ItemKind::ImageView,
        "dynamic_tool_call_response" => ItemKind::Dynamic,
        "collab_agent_spawn_end"
        | "collab_waiting_end"
        | "collab_close_end"
        | "collab_agent_interaction_end"
        | "collab_resume_end" => ItemKind::Collaboration,
        "sub_agent_activity" => ItemKind::SubagentActivity,
        "entered_review_mode" => ItemKind::ReviewEntered,
        "exited_review_mode" => ItemKind::ReviewExited,
        // The response item or the end of the same call reports all of it.
        "web_search_begin"
        | "web_search_end"
        | "image_generation_begin"
        | "image_generation_end"
        | "exec_command_begin"
        | "patch_apply_begin"
        | "mcp_tool_call_begin"
        | "dynamic_tool_call_request"
        | "collab_agent_spawn_begin"
        | "collab_waiting_begin"
        | "collab_close_begin"
        | "collab_agent_interaction_begin"
        | "collab_resume_begin" => {
            return true;
        }
        _ => return false,
    };
    reviews::note(emitter, item_kind);
    let item = Item::of_event(item_kind, event);
    match item_kind {
        // These name the call, and its response item has reported it.
        ItemKind::Collaboration => convert_collaboration_event(emitter, &item),
        _ => convert_item(emitter, &item),
    }
}

fn convert_collaboration_event(emitter: &mut Emitter<'_>, item: &Item<'_>) -> bool {
    let (Some(call), Some(thread)) = (item.id(), item.text("new_thread_id")) else { return true };
    let prompt = item.text("prompt");
    let spawn = subagents::SpawnReport {
        call: &call,
        thread: &thread,
        prompt: prompt.as_deref(),
        role: None,
    };
    subagents::emit_spawned(emitter, &spawn);
    true
}

/// Converts an item. Returns whether its kind is known.
fn convert_item(emitter: &mut Emitter<'_>, item: &Item<'_>) -> bool {
    match item.kind {
        ItemKind::UserMessage => {
            texts::take_held_words(emitter);
            items::convert_user(emitter, item);
        }
        ItemKind::AgentMessage => {
            let (own, text) = (item.id(), item.words());
            let held = emitter.thread().held.take_if(|it| it.id.as_deref() == own.as_deref());
            texts::flush(emitter);
            let id = texts::emit_text(emitter, own.as_deref(), &text);
            emitter.thread().itemized = Some(id).filter(|_| held.is_none());
        }
        ItemKind::Reasoning => {
            texts::flush(emitter);
            let own = item.id();
            let reasoning = ReasoningReport::of_item(item);
            let id = texts::emit_reasoning(emitter, own.as_deref(), &reasoning);
            emitter.thread().itemized = Some(id);
        }
        ItemKind::SubagentActivity => return items::convert_activity(emitter, item),
        ItemKind::Plan
        | ItemKind::ReviewEntered
        | ItemKind::ReviewExited
        | ItemKind::Compaction => {
            return items::convert_notice(emitter, item);
        }
        _ => return items::convert_call(emitter, item, Stage::Completed),
    }
    true
}

fn convert_user(emitter: &mut Emitter<'_>, event: &Object<'_>) {
    texts::take_held_words(emitter);
    texts::flush_announced(emitter);
    if emitter.thread().turn.is_none() {
        if emitter.thread().is_open {
            emitter.emit_idle();
        }
        emitter.thread().begin_turn(None, None);
    }
    let text = event.text("message").unwrap_or_default();
    if reviews::is_repeated_prompt(emitter, &text) {
        return;
    }
    let mut images: Vec<String> = event.texts("images").iter().map(|it| it.to_string()).collect();
    images.extend(event.texts("local_images").iter().map(|it| it.to_string()));
    let block = items::user_block(emitter, &[&text], &images);
    if emitter.conversation.is_main() {
        emitter.memory.names.note_main_place(block.id.as_str());
    }
    emitter.emit_block(block);
}

/// Begins a turn; one that never ended was cut off.
pub(super) fn begin_turn(emitter: &mut Emitter<'_>, turn: Option<&str>, ordinal: Option<u64>) {
    texts::flush(emitter);
    texts::flush_announced(emitter);
    if emitter.thread().is_open && emitter.thread().turn.as_deref() != turn {
        emitter.emit_idle();
    }
    emitter.thread().begin_turn(turn.map(Into::into), ordinal);
}

/// The end of a turn, as one view reports it.
pub(super) struct TurnEnd<'a> {
    pub(super) turn: Option<&'a str>,
    pub(super) error: Option<&'a str>,
    pub(super) is_interrupted: bool,
}

/// Ends a turn, and with it the task of a subagent.
pub(super) fn end_turn(emitter: &mut Emitter<'_>, end: &TurnEnd<'_>) {
    texts::flush(emitter);
    texts::flush_announced(emitter);
    let turn = match end.turn {
        Some(turn) => turn.to_owned(),
        None => emitter.thread().turn_name().to_owned(),
    };
    emitter.abandon_texts();
    if let Some(error) = end.error {
        let id = format!("error:{turn}");
        let replaces = match !emitter.is_stream && emitter.conversation.is_main() {
            true => names::store(emitter, "error", error, &id),
            false => None,
        };
        emitter.emit_renamed(error_block(id.as_str().into(), error), replaces);
    }
    if end.is_interrupted {
        let id = emitter.thread().name("interrupted", None);
        let (subtype, message) = ("interrupted".into(), None);
        emitter.emit_block(Block::new(id, SystemBlock { subtype, message }));
    }
    emitter.emit_idle();
    let output = emitter.thread().last_text.clone();
    if !emitter.conversation.is_main() && !end.is_interrupted {
        let thread = emitter.thread.clone();
        let is_error = end.error.is_some();
        // Files before 0.157 do not record that a turn failed, but the caller may have reported it.
        if !is_error && output.is_none() && emitter.thread().has_failed {
            return;
        }
        let output = end.error.map(Into::into).or(output);
        subagents::emit_ended(emitter, &thread, End { is_error, output });
    }
}

/// Returns the block of an error that ended a turn.
pub(super) fn error_block(id: threadfold_core::BlockId, message: &str) -> Block {
    Block::new(id, ErrorBlock { message: message.into(), code: None })
}

/// Goes back by some turns.
pub(super) fn roll_back(emitter: &mut Emitter<'_>, turns: u64) {
    let starts = &mut emitter.thread().starts;
    let at = starts.len().saturating_sub(usize::try_from(turns).unwrap_or(usize::MAX));
    if at < starts.len() {
        let head = starts[at].before.clone();
        starts.truncate(at);
        compaction::emit_back(emitter, ContextChange::Rewind, head);
    }
}

/// The tokens of a thread, as `metadata:update` carries them.
#[derive(Serialize)]
struct ThreadUsage {
    #[serde(rename = "messageId")]
    message_id: String,
    tokens: TokenCounts,
}

#[derive(Serialize)]
struct TokenCounts {
    input_tokens: u64,
    cache_read_input_tokens: u64,
    cache_creation_input_tokens: u64,
    output_tokens: u64,
}

/// Emits the tokens of a thread: each report is the total so far.
pub(super) fn emit_usage(emitter: &mut Emitter<'_>, tokens: Tokens) {
    let fresh = tokens.input.saturating_sub(tokens.cached).saturating_sub(tokens.written);
    let usage = ThreadUsage {
        message_id: format!("thread:{}", emitter.thread),
        tokens: TokenCounts {
            input_tokens: fresh,
            cache_read_input_tokens: tokens.cached,
            cache_creation_input_tokens: tokens.written,
            output_tokens: tokens.output,
        },
    };
    emitter.emit_metadata("usage", Json::of(&usage));
}
