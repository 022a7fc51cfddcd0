//! Converts the lines of the live stream.
//!
//! A streamed block is a preview until an `assistant` line confirms it. The agent may drop an
//! attempt without saying so; previews that are never confirmed are therefore removed.

use threadfold_core::{
    AssistantTextBlock, Block, BlockId, BlockStatus, ConversationId, EmptyPayload, Json, Payload,
    QueryCompleted, QueryFailed, QueryStarted, RemoveReason, SystemBlock, TextField, ThinkingBlock,
};

use super::assistant::{convert_assistant, indexed_id, tool_use};
use super::commands::{emit_reset, observe_session};
use super::compaction;
use super::emitter::Emitter;
use super::memory::{LineEntry, Preview, key};
use super::permission;
use super::subagents::{emit_known_subagents, observe_subagent};
use super::tasks::{convert_task_end, convert_task_start};
use super::usage::{MessageUsage, emit_metadata, emit_totals, emit_usage, emit_usage_of_run};
use super::user::convert_user;
use super::wire::{ContentBlock, Delta, Line, StreamEvent};

/// Converts one line of a stream. Returns whether its type is known.
pub(super) fn convert(emitter: &mut Emitter<'_>, line: &Line<'_>, text: &str) -> bool {
    let Some(kind) = line.kind.as_deref() else { return false };
    if let Some(name) = subagent_conversation(line) {
        emitter.conversation = ConversationId::from(name);
    }
    observe_session(emitter, line);
    match kind {
        "assistant" => {
            supersede(emitter, line);
            observe_speaker(emitter, line);
            let first = convert_assistant(emitter, line, text);
            remember_line(emitter, line, first);
            emit_known_subagents(emitter, line);
        }
        "user" => {
            observe_speaker(emitter, line);
            let first = convert_user(emitter, line);
            remember_line(emitter, line, first);
        }
        "stream_event" => match line.event.map(|raw| serde_json::from_str(raw.get())) {
            Some(Ok(event)) => convert_stream_event(emitter, line, &event),
            _ => return false,
        },
        "result" => convert_result(emitter, line),
        "system" => return convert_system(emitter, line),
        "control_request" => permission::convert_request(emitter, line),
        "control_response" => permission::convert_response(emitter, line),
        "control_cancel_request" => permission::convert_cancellation(emitter, line),
        "conversation_reset" => emit_reset(emitter),
        // These report progress or settings, and nothing of the conversation.
        "keep_alive" | "tool_progress" | "auth_status" | "rate_limit_event"
        | "tool_use_summary" | "prompt_suggestion" | "active_goal" => {}
        _ => return false,
    }
    true
}

/// Returns the conversation of a subagent's line: the subagent's id, or the call before it is known.
fn subagent_conversation<'a>(line: &'a Line<'_>) -> Option<&'a str> {
    let call = line.parent_tool_use_id.as_deref()?;
    Some(line.agent_id.as_deref().unwrap_or(call))
}

/// Emits the subagent of the line, if this line is the first sign of it.
fn observe_speaker(emitter: &mut Emitter<'_>, line: &Line<'_>) {
    if let Some(call) = line.parent_tool_use_id.as_deref() {
        observe_subagent(emitter, call, line.agent_id.as_deref());
    }
}

/// Remembers which block a line became: `supersedes` and compactions refer to lines.
fn remember_line(emitter: &mut Emitter<'_>, line: &Line<'_>, block: Option<BlockId>) {
    if let (Some(uuid), Some(block)) = (line.uuid.as_deref(), block) {
        let entry = LineEntry::of_stream(Some(block), 0);
        emitter.memory.stream.lines.insert(key(uuid), entry);
    }
}

/// Removes the blocks of the lines that this line replaces.
fn supersede(emitter: &mut Emitter<'_>, line: &Line<'_>) {
    for uuid in &line.supersedes {
        let block = emitter.memory.stream.lines.get(&key(uuid)).and_then(|seen| seen.block.clone());
        if let Some(block) = block {
            let conversation = emitter.conversation.clone();
            emitter.emit_remove_in(&conversation, block, RemoveReason::Superseded);
        }
    }
}

/// Removes the previews that `is_dropped` selects.
pub(super) fn abandon_previews(emitter: &mut Emitter<'_>, is_dropped: impl Fn(&Preview) -> bool) {
    let previews = std::mem::take(&mut emitter.memory.stream.previews);
    let (dropped, kept) = previews.into_iter().partition::<Vec<_>, _>(|it| is_dropped(it));
    emitter.memory.stream.previews = kept;
    for preview in dropped {
        emitter.emit_remove_in(&preview.conversation, preview.block, RemoveReason::Abandoned);
    }
}

/// Converts an event of the model's API, which the agent forwards.
fn convert_stream_event(emitter: &mut Emitter<'_>, line: &Line<'_>, event: &StreamEvent<'_>) {
    let conversation = emitter.conversation.clone();
    match &*event.kind {
        "message_start" => {
            // A conversation streams one message at a time: an unconfirmed one was a failed attempt.
            abandon_previews(emitter, |preview| preview.conversation == conversation);
            let started = event.message.as_ref();
            if let Some(id) = started.and_then(|message| message.id.as_deref()) {
                emitter.memory.stream.streaming.insert(conversation, id.into());
            }
        }
        "content_block_start" => {
            let streaming = emitter.memory.stream.streaming.get(&conversation).cloned();
            if let (Some(message), Some(index), Some(block)) =
                (streaming, event.index, &event.content_block)
                && let Some(shown) = pending_block(&message, index, block)
            {
                let preview =
                    Preview { conversation, message, index, block: shown.id.clone(), content: 0 };
                // Emitted before it is remembered: its place is after the preview before it.
                emitter.emit_preview(shown);
                emitter.memory.stream.previews.push(preview);
            }
        }
        "content_block_delta" => {
            if let Some(delta) = &event.delta {
                convert_delta(emitter, event.index, delta);
            }
        }
        "message_delta" => convert_message_end(emitter, event),
        "message_stop" => {
            if let Some(abandoned) = &line.abandoned_blocks {
                let from = abandoned.from_block_index.unwrap_or(0);
                let message = abandoned.api_message_id.as_deref().unwrap_or("");
                abandon_previews(emitter, |preview| {
                    *preview.message == *message && preview.index >= from
                });
            }
        }
        _ => {}
    }
}

/// Converts the end of a streamed message: the only report of its final counts in the stream.
fn convert_message_end(emitter: &mut Emitter<'_>, event: &StreamEvent<'_>) {
    let conversation = emitter.conversation.clone();
    let streaming = emitter.memory.stream.streaming.get(&conversation).cloned();
    let (Some(message), Some(tokens)) = (streaming, event.usage) else { return };
    let stop_reason = event.delta.as_ref().and_then(|delta| delta.stop_reason.as_deref());
    let usage = MessageUsage { message_id: &message, model: None, stop_reason, tokens };
    emit_usage(emitter, &usage);
    emitter.memory.stream.ended.insert(conversation, message);
}

/// Returns a block as it is when it begins to stream: empty and pending.
fn pending_block(message: &str, index: u64, block: &ContentBlock<'_>) -> Option<Block> {
    let id = indexed_id(message, index);
    let mut pending = match block.kind.as_deref()? {
        "text" => Block::new(id, AssistantTextBlock { content: "".into(), model: None }),
        "thinking" => {
            Block::new(id, ThinkingBlock { content: "".into(), signature: None, redacted: false })
        }
        "redacted_thinking" => {
            Block::new(id, ThinkingBlock { content: "".into(), signature: None, redacted: true })
        }
        "tool_use" | "server_tool_use" | "mcp_tool_use" => {
            let call = block.id.as_deref()?;
            Block::new(call, tool_use(call, block.name.as_deref().unwrap_or(""), None))
        }
        _ => return None,
    };
    pending.message_id = Some(message.into());
    pending.status = BlockStatus::Pending;
    Some(pending)
}

/// Converts text that is appended to a streamed block.
pub(super) fn convert_delta(emitter: &mut Emitter<'_>, index: Option<u64>, delta: &Delta<'_>) {
    let (field, text) = match (&delta.text, &delta.thinking, &delta.partial_json) {
        (Some(text), _, _) | (None, Some(text), _) => (TextField::Content, text),
        (None, None, Some(text)) => (TextField::Input, text),
        _ => return,
    };
    let conversation = &emitter.conversation;
    // Newest first: indexes repeat from message to message.
    let growing = emitter
        .memory
        .stream
        .previews
        .iter_mut()
        .rev()
        .find(|preview| preview.conversation == *conversation && Some(preview.index) == index);
    let Some(preview) = growing else { return };
    let offset = preview.content;
    preview.content += text.len() as u64;
    let block = preview.block.clone();
    if !text.is_empty() {
        emitter.emit_delta(block, field, offset, text);
    }
}

/// Converts the end of a query: its cost, its outcome, and the end of the turn.
fn convert_result(emitter: &mut Emitter<'_>, line: &Line<'_>) {
    abandon_previews(emitter, |_| true);
    if let Some(cost) = line.total_cost_usd {
        emit_metadata(emitter, "costUsd", Json::of(&cost));
    }
    if let Some(usage) = line.usage {
        emit_usage_of_run(emitter, usage);
    }
    if let Some(totals) = line.model_usage {
        emit_totals(emitter, totals);
    }
    let is_error = line.is_error || line.subtype.as_deref().is_some_and(|it| it != "success");
    let payload = if is_error {
        let error = line.errors.or(line.result).map(Json::from);
        let named = || line.subtype.as_deref().map(Json::string);
        Payload::QueryFailed(QueryFailed { error: error.or_else(named) })
    } else {
        let duration_ms = line.duration_ms.map(|ms| ms.max(0.0) as u64);
        Payload::QueryCompleted(QueryCompleted { duration_ms })
    };
    emitter.emit(payload);
    emitter.emit_idle_in(&ConversationId::main());
}

/// Converts a line of the harness. Returns whether its subtype is known.
fn convert_system(emitter: &mut Emitter<'_>, line: &Line<'_>) -> bool {
    let Some(subtype) = line.subtype.as_deref() else { return false };
    match subtype {
        "init" => {
            emitter.emit(Payload::SessionInitialized(EmptyPayload {}));
            for (name, value) in
                [("model", &line.model), ("cwd", &line.cwd), ("version", &line.version)]
            {
                if let Some(value) = value.as_deref() {
                    emit_metadata(emitter, name, Json::string(value));
                }
            }
            emitter.emit(Payload::QueryStarted(QueryStarted { message: None }));
        }
        "task_started" => convert_task_start(emitter, line),
        "task_notification" | "task_updated" => convert_task_end(emitter, line),
        "compact_boundary" => compaction::convert_boundary(emitter, line),
        "microcompact_boundary" => compaction::convert_microcompaction(emitter, line),
        "api_retry" => {
            let attempt = line.attempt.unwrap_or(0);
            let text = format!("attempt {attempt} failed and is made again");
            emit_notice(emitter, line, "api_retry", text);
        }
        "hook_response" => {
            let event = line.hook_event.as_deref().unwrap_or("");
            let name = line.hook_name.as_deref().unwrap_or(event);
            let output = line.output.map(|raw| Json::from(raw).to_text().unwrap_or_default());
            emit_notice(emitter, line, "hook", format!("{name}: {}", output.unwrap_or_default()));
        }
        "permission_denied" => {
            let tool = line.tool_name.as_deref().unwrap_or("");
            emit_notice(emitter, line, "permission_denied", format!("{tool} was not allowed"));
        }
        "informational"
        | "local_command_output"
        | "model_refusal_fallback"
        | "model_refusal_no_fallback"
        | "mirror_error"
        | "session_writes_lost" => {
            let words = line.content.map(|raw| Json::from(raw).to_text().unwrap_or_default());
            emit_notice(emitter, line, subtype, words.unwrap_or_default());
        }
        // Progress and status of the moment: the state holds only what lasts.
        "status"
        | "thinking_tokens"
        | "task_progress"
        | "background_tasks_changed"
        | "hook_started"
        | "hook_progress"
        | "control_request_progress"
        | "plugin_install"
        | "session_state_changed"
        | "worker_shutting_down"
        | "commands_changed"
        | "notification"
        | "files_persisted"
        | "memory_recall"
        | "elicitation_complete" => {}
        _ => return false,
    }
    true
}

/// Emits a message of the harness as a `system` block.
pub(super) fn emit_notice(emitter: &mut Emitter<'_>, line: &Line<'_>, subtype: &str, text: String) {
    let id = line.uuid.as_deref().map_or_else(|| format!("line:{}", emitter.line), str::to_owned);
    let body = SystemBlock { subtype: subtype.into(), message: Some(text.into()) };
    emitter.emit_block(Block::new(id, body));
}
