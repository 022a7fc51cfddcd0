//! The stream: what Claude Code and the Agent SDK say while they work.
//!
//! A streamed block is a preview until an `assistant` line confirms it; what is never confirmed
//! is taken back.

use threadfold_core::{
    AssistantText, Block, BlockStatus, ContextChange, ContextChanged, ConversationId, Empty, Json,
    Payload, QueryCompleted, QueryFailed, QueryStarted, RemoveReason, System, TextField, Thinking,
};

use super::emitter::Emitter;
use super::memory::{Preview, key};
use super::message::{assistant, piece_id, tool_use, user};
use super::permission;
use super::subagents::{heard, task_ended, task_started, tell_if_known};
use super::usage::update;
use super::wire::{ContentBlock, Line, StreamEvent};

/// Converts one line of a stream. Says whether it was understood.
pub(super) fn convert(emitter: &mut Emitter<'_>, line: &Line<'_>, text: &str) -> bool {
    let Some(kind) = line.kind.as_deref() else { return false };
    if let Some(name) = conversation(line) {
        emitter.conversation = ConversationId::from(name);
    }
    match kind {
        "assistant" => {
            supersede(emitter, line);
            speaks(emitter, line);
            remember(emitter, line, |emitter| assistant(emitter, line, text));
            tell_of_calls(emitter, line);
        }
        "user" => {
            speaks(emitter, line);
            remember(emitter, line, |emitter| user(emitter, line));
        }
        "stream_event" => match line.event.map(|raw| serde_json::from_str(raw.get())) {
            Some(Ok(event)) => stream_event(emitter, line, &event),
            _ => return false,
        },
        "result" => result(emitter, line),
        "system" => return system(emitter, line),
        "control_request" => permission::asked(emitter, line),
        "control_response" => permission::answered(emitter, line),
        "control_cancel_request" => permission::withdrawn(emitter, line),
        "conversation_reset" => {
            emitter.emit(Payload::ContextChanged(ContextChanged {
                kind: ContextChange::Reset,
                head: None,
                summary: None,
            }));
        }
        "keep_alive" | "tool_progress" | "auth_status" | "rate_limit_event"
        | "tool_use_summary" | "prompt_suggestion" | "active_goal" => {}
        _ => return false,
    }
    true
}

/// Returns the name of the conversation, if it is a subagent's.
fn conversation<'a>(line: &'a Line<'_>) -> Option<&'a str> {
    let call = line.parent_tool_use_id.as_deref()?;
    Some(line.agent_id.as_deref().unwrap_or(call))
}

/// A subagent that speaks is there.
fn speaks(emitter: &mut Emitter<'_>, line: &Line<'_>) {
    if let Some(call) = line.parent_tool_use_id.as_deref() {
        heard(emitter, call, line.agent_id.as_deref());
    }
}

fn remember(
    emitter: &mut Emitter<'_>,
    line: &Line<'_>,
    convert: impl FnOnce(&mut Emitter<'_>) -> Option<threadfold_core::BlockId>,
) {
    let block = convert(emitter);
    if let (Some(uuid), Some(block)) = (line.uuid.as_deref(), block) {
        let seen = super::memory::LineEntry { block: Some(block), turn: 0, index: 0 };
        emitter.memory.stream.lines.insert(key(uuid), seen);
    }
}

/// Tells of subagents whose calls stand only now.
fn tell_of_calls(emitter: &mut Emitter<'_>, line: &Line<'_>) {
    if let Some(super::wire::Content::Blocks(blocks)) =
        line.message.as_ref().map(|message| &message.content)
    {
        for call in blocks.iter().filter_map(|block| block.id.as_deref()) {
            tell_if_known(emitter, call);
        }
    }
}

fn supersede(emitter: &mut Emitter<'_>, line: &Line<'_>) {
    for uuid in &line.supersedes {
        let block = emitter.memory.stream.lines.get(&key(uuid)).and_then(|seen| seen.block.clone());
        if let Some(block) = block {
            let conversation = emitter.conversation.clone();
            emitter.emit_remove_in(&conversation, block, RemoveReason::Superseded);
        }
    }
}

/// Takes back the previews that `which` names.
pub(super) fn abandon(emitter: &mut Emitter<'_>, which: impl Fn(&Preview) -> bool) {
    let previews = std::mem::take(&mut emitter.memory.stream.previews);
    let (gone, kept) = previews.into_iter().partition::<Vec<_>, _>(|preview| which(preview));
    emitter.memory.stream.previews = kept;
    for preview in gone {
        emitter.emit_remove_in(&preview.conversation, preview.block, RemoveReason::Abandoned);
    }
}

fn stream_event(emitter: &mut Emitter<'_>, line: &Line<'_>, event: &StreamEvent<'_>) {
    let conversation = emitter.conversation.clone();
    match &*event.kind {
        "message_start" => {
            abandon(emitter, |preview| preview.conversation == conversation);
            let started = event.message.as_ref();
            if let Some(id) = started.and_then(|message| message.id.as_deref()) {
                emitter.memory.stream.streaming.insert(conversation, id.into());
            }
        }
        "content_block_start" => {
            let streaming = emitter.memory.stream.streaming.get(&conversation).cloned();
            if let (Some(message), Some(index), Some(block)) =
                (streaming, event.index, &event.content_block)
                && let Some(shown) = first_look(&message, index, block)
            {
                emitter.memory.stream.previews.push(Preview {
                    conversation,
                    message: message.clone(),
                    index,
                    block: shown.id.clone(),
                    content: 0,
                });
                let opened = emitter.memory.stream.previews.pop();
                emitter.emit_preview(shown);
                emitter.memory.stream.previews.extend(opened);
            }
        }
        "content_block_delta" => grow(emitter, event),
        "message_stop" => {
            if let Some(thrown) = &line.abandoned_blocks {
                let from = thrown.from_block_index.unwrap_or(0);
                let message = thrown.api_message_id.as_deref().unwrap_or("");
                abandon(emitter, |preview| *preview.message == *message && preview.index >= from);
            }
        }
        _ => {}
    }
}

/// Returns a block as it looks when it begins to stream.
fn first_look(message: &str, index: u64, block: &ContentBlock<'_>) -> Option<Block> {
    let id = piece_id(message, index);
    let mut shown = match block.kind.as_deref()? {
        "text" => Block::new(id, AssistantText { content: "".into(), model: None }),
        "thinking" => {
            Block::new(id, Thinking { content: "".into(), signature: None, redacted: false })
        }
        "redacted_thinking" => {
            Block::new(id, Thinking { content: "".into(), signature: None, redacted: true })
        }
        "tool_use" | "server_tool_use" | "mcp_tool_use" => {
            let call = block.id.as_deref()?;
            Block::new(call, tool_use(call, block.name.as_deref().unwrap_or(""), None))
        }
        _ => return None,
    };
    shown.message_id = Some(message.into());
    shown.status = BlockStatus::Pending;
    Some(shown)
}

fn grow(emitter: &mut Emitter<'_>, event: &StreamEvent<'_>) {
    let Some(delta) = &event.delta else { return };
    let (field, text) = match (&delta.text, &delta.thinking, &delta.partial_json) {
        (Some(text), _, _) | (None, Some(text), _) => (TextField::Content, text),
        (None, None, Some(text)) => (TextField::Input, text),
        _ => return,
    };
    let conversation = &emitter.conversation;
    let growing = emitter.memory.stream.previews.iter_mut().rev().find(|preview| {
        preview.conversation == *conversation && Some(preview.index) == event.index
    });
    let Some(preview) = growing else { return };
    let offset = preview.content;
    preview.content += text.len() as u64;
    let block = preview.block.clone();
    if !text.is_empty() {
        emitter.emit_delta(block, field, offset, text);
    }
}

fn result(emitter: &mut Emitter<'_>, line: &Line<'_>) {
    abandon(emitter, |_| true);
    if let Some(cost) = line.total_cost_usd {
        update(emitter, "costUsd", Json::of(&cost));
    }
    let failed = line.is_error || line.subtype.as_deref().is_some_and(|it| it != "success");
    let payload = if failed {
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

fn system(emitter: &mut Emitter<'_>, line: &Line<'_>) -> bool {
    let Some(subtype) = line.subtype.as_deref() else { return false };
    match subtype {
        "init" => {
            emitter.emit(Payload::SessionInitialized(Empty {}));
            for (name, value) in
                [("model", &line.model), ("cwd", &line.cwd), ("version", &line.version)]
            {
                if let Some(value) = value.as_deref() {
                    update(emitter, name, Json::string(value));
                }
            }
            emitter.emit(Payload::QueryStarted(QueryStarted { message: None }));
        }
        "task_started" => task_started(emitter, line),
        "task_notification" | "task_updated" => task_ended(emitter, line),
        "compact_boundary" => super::compaction::boundary(emitter, line),
        "api_retry" => {
            let attempt = line.attempt.unwrap_or(0);
            notice(
                emitter,
                line,
                "api_retry",
                format!("attempt {attempt} failed and is made again"),
            );
        }
        "hook_response" => {
            let event = line.hook_event.as_deref().unwrap_or("");
            let name = line.hook_name.as_deref().unwrap_or(event);
            let output = line.output.map(|raw| Json::from(raw).to_text().unwrap_or_default());
            notice(emitter, line, "hook", format!("{name}: {}", output.unwrap_or_default()));
        }
        "permission_denied" => {
            let tool = line.tool_name.as_deref().unwrap_or("");
            notice(emitter, line, "permission_denied", format!("{tool} was not allowed"));
        }
        "informational"
        | "local_command_output"
        | "model_refusal_fallback"
        | "model_refusal_no_fallback"
        | "mirror_error"
        | "session_writes_lost" => {
            let words = line.content.map(|raw| Json::from(raw).to_text().unwrap_or_default());
            notice(emitter, line, subtype, words.unwrap_or_default());
        }
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

/// Says a word of the agent's own.
pub(super) fn notice(emitter: &mut Emitter<'_>, line: &Line<'_>, subtype: &str, words: String) {
    let id = line.uuid.as_deref().map_or_else(|| format!("line:{}", emitter.line), str::to_owned);
    let body = System { subtype: subtype.into(), message: Some(words.into()) };
    emitter.emit_block(Block::new(id, body));
}
