//! Converts the lines of session files, one JSON object a line.

use threadfold_core::{AgentId, Block, BlockId, ConversationId, Json, UserMessageBlock};

use super::assistant::convert_assistant;
use super::compaction;
use super::emitter::Emitter;
use super::live::emit_notice;
use super::memory::key;
use super::subagents::{emit_known_subagents, emit_spawned, take_call_by_prompt};
use super::tasks::{convert_task_notification, is_task_notification};
use super::turns::{begin_turn, deactivate_left_turn, remember_line, remember_parent, turn_of};
use super::usage::emit_metadata;
use super::user::{convert_user, harness_subtype};
use super::wire::{Content, Line};

/// Converts one line of a file. Returns whether its type is known.
pub(super) fn convert(
    emitter: &mut Emitter<'_>,
    line: &Line<'_>,
    text: &str,
    subagent: Option<&AgentId>,
) -> bool {
    let Some(kind) = line.kind.as_deref() else { return false };
    if subagent.is_none() && !line.is_sidechain {
        report_session(emitter, line);
    }
    emitter.conversation = conversation_of(emitter, line, subagent);
    match kind {
        "assistant" => {
            let first = convert_assistant(emitter, line, text);
            let turn = turn_of(emitter, line);
            deactivate_left_turn(emitter, turn);
            let conversation = emitter.conversation.clone();
            emitter.memory.files.turns.entry(conversation).or_default().answered = true;
            remember_line(emitter, line, first, turn);
            emit_known_subagents(emitter, line);
        }
        "user" => convert_user_line(emitter, line, subagent),
        "system" => return convert_system(emitter, line),
        "attachment" => convert_attachment(emitter, line),
        "queue-operation" => {
            let words = line.content.and_then(|raw| Json::from(raw).to_text());
            if let (Some("enqueue"), Some(words)) = (line.operation.as_deref(), words)
                && is_task_notification(&words)
            {
                convert_task_notification(emitter, &words);
            }
        }
        "ai-title" | "custom-title" => {
            if let Some(title) = line.title.as_deref() {
                emit_metadata(emitter, "title", Json::string(title));
            }
        }
        "cost-state" => {
            if let Some(cost) = line.file_cost_usd {
                emit_metadata(emitter, "costUsd", Json::of(&cost));
            }
        }
        "progress" => remember_parent(emitter, line),
        // These hold settings and caches of the agent, and nothing of the conversation.
        "summary"
        | "file-history-snapshot"
        | "last-prompt"
        | "permission-mode"
        | "mode"
        | "agent-name"
        | "agent-color"
        | "agent-setting"
        | "pr-link"
        | "bridge-session"
        | "tag"
        | "tools-used"
        | "atis-latch"
        | "api-request"
        | "api-request-blob"
        | "api-request-shape"
        | "worktree-state"
        | "content-replacement"
        | "marble-origami-commit"
        | "marble-origami-snapshot"
        | "task-summary"
        | "attribution-snapshot"
        | "speculation-accept"
        | "result"
        | "started"
        | "fork-context-ref"
        | "session-name" => {}
        _ => return false,
    }
    true
}

/// Emits the working directory and the version of the agent, if they changed.
fn report_session(emitter: &mut Emitter<'_>, line: &Line<'_>) {
    for (place, (name, value)) in
        [("cwd", &line.cwd), ("version", &line.version)].into_iter().enumerate()
    {
        if let Some(value) = value.as_deref()
            && emitter.memory.reported[place].as_deref() != Some(value)
        {
            emitter.memory.reported[place] = Some(value.into());
            emit_metadata(emitter, name, Json::string(value));
        }
    }
}

fn conversation_of(
    emitter: &mut Emitter<'_>,
    line: &Line<'_>,
    subagent: Option<&AgentId>,
) -> ConversationId {
    if let Some(agent) = subagent {
        return ConversationId::from(agent.bare());
    }
    if !line.is_sidechain {
        return emitter.conversation.clone();
    }
    sidechain_conversation(emitter, line)
}

/// Returns the conversation of a subagent's line in the main file, as 1.0 stores them.
///
/// Such a line names neither subagent nor call: it belongs where its parent line belongs, and the
/// first line of a subagent is linked to its call by the prompt.
fn sidechain_conversation(emitter: &mut Emitter<'_>, line: &Line<'_>) -> ConversationId {
    let uuid = line.uuid.as_deref().unwrap_or("");
    let above = line
        .parent_uuid
        .as_deref()
        .and_then(|parent| emitter.memory.sidechains.get(&key(parent)).cloned());
    let conversation = above.unwrap_or_else(|| {
        let prompt = opening(line);
        let call = prompt.as_deref().and_then(|prompt| take_call_by_prompt(emitter, prompt));
        match call {
            Some(call) => {
                emitter.conversation = ConversationId::main();
                emit_spawned(emitter, &call);
                ConversationId::from(&*call)
            }
            None => ConversationId::from(line.agent_id.as_deref().unwrap_or(uuid)),
        }
    });
    emitter.memory.sidechains.insert(key(uuid), conversation.clone());
    conversation
}

/// Returns the first text of a line: of a subagent's first line, its prompt.
fn opening(line: &Line<'_>) -> Option<String> {
    match &line.message.as_ref()?.content {
        Content::Text(words) => Some(words.to_string()),
        Content::Blocks(blocks) => {
            blocks.iter().find_map(|it| Some(it.text.as_deref()?.to_owned()))
        }
        Content::None => None,
    }
}

fn convert_user_line(emitter: &mut Emitter<'_>, line: &Line<'_>, subagent: Option<&AgentId>) {
    let words = opening(line);
    let is_result = match line.message.as_ref().map(|message| &message.content) {
        Some(Content::Blocks(blocks)) => {
            blocks.iter().any(|block| block.kind.as_deref() == Some("tool_result"))
        }
        _ => false,
    };
    let is_by_harness = words.as_deref().is_some_and(|it| harness_subtype(line, it).is_some());
    // Only a person's prompt begins a turn.
    if is_result || is_by_harness {
        if let Some(words) = words.filter(|words| is_task_notification(words)) {
            convert_task_notification(emitter, &words);
        }
        let first = convert_user(emitter, line);
        let turn = turn_of(emitter, line);
        deactivate_left_turn(emitter, turn);
        remember_line(emitter, line, first, turn);
        return;
    }
    let conversation = emitter.conversation.clone();
    if emitter.is_repeated {
        // The previous turn ended when this prompt was read first; nothing ends now.
    } else if emitter.memory.files.last.contains_key(&conversation) {
        // A new prompt ends the previous turn, which files do not mark.
        emitter.emit_idle_in(&conversation);
    } else if let (Some(agent), Some(words)) = (subagent, words) {
        emitter.memory.openings.insert(agent.bare().into(), words.into());
    }
    let turn = begin_turn(emitter, line);
    let first = convert_user(emitter, line);
    remember_line(emitter, line, first, turn);
}

fn convert_system(emitter: &mut Emitter<'_>, line: &Line<'_>) -> bool {
    let subtype = line.subtype.as_deref().unwrap_or("notice");
    let words = line.content.and_then(|raw| Json::from(raw).to_text());
    let mut shown = None;
    match (subtype, words) {
        ("compact_boundary" | "microcompact_boundary", _) => {
            compaction::convert_boundary(emitter, line);
            shown = line.uuid.as_deref().map(BlockId::from);
        }
        ("api_error", _) => {
            let attempt = line.retry_attempt.unwrap_or(0);
            let words = format!("attempt {attempt} failed and is made again");
            emit_notice(emitter, line, "api_error", words);
            shown = line.uuid.as_deref().map(BlockId::from);
        }
        ("turn_duration" | "stop_hook_summary" | "away_summary" | "bridge_status", _) => {}
        (subtype, Some(words)) => {
            let subtype = if subtype == "local_command" { "command" } else { subtype };
            emit_notice(emitter, line, subtype, words);
            shown = line.uuid.as_deref().map(BlockId::from);
        }
        _ => return false,
    }
    let turn = turn_of(emitter, line);
    remember_line(emitter, line, shown, turn);
    true
}

fn convert_attachment(emitter: &mut Emitter<'_>, line: &Line<'_>) {
    let Some(attached) = &line.attachment else { return remember_parent(emitter, line) };
    let words =
        |raw: Option<&serde_json::value::RawValue>| raw.and_then(|raw| Json::from(raw).to_text());
    match attached.kind.as_deref() {
        Some("queued_command") => {
            let prompt = words(attached.prompt);
            let is_prompt = attached.command_mode.as_deref().is_none_or(|mode| mode == "prompt");
            match prompt {
                Some(prompt) if is_task_notification(&prompt) => {
                    convert_task_notification(emitter, &prompt);
                }
                Some(prompt) if is_prompt => emit_queued_prompt(emitter, line, &prompt),
                _ => {}
            }
        }
        Some("hook_success" | "hook_blocking_error" | "hook_error" | "hook_non_blocking_error") => {
            let event = attached.hook_event.as_deref().unwrap_or("");
            let name = attached.hook_name.as_deref().unwrap_or(event);
            let output = words(attached.content).unwrap_or_default();
            emit_notice(emitter, line, "hook", format!("{name}: {output}"));
        }
        _ => {}
    }
    remember_parent(emitter, line);
}

/// Emits a prompt that was queued while the agent worked.
///
/// The file may also contain it as a `user` line, under the id `source_uuid`: that id comes first,
/// so that both become one block.
fn emit_queued_prompt(emitter: &mut Emitter<'_>, line: &Line<'_>, prompt: &str) {
    let own = line.uuid.as_deref();
    let source = line.attachment.as_ref().and_then(|it| it.source_uuid.as_deref());
    let Some(id) = source.or(own) else { return };
    if emitter.memory.files.lines.contains_key(&key(id)) {
        return;
    }
    let content = threadfold_core::Content::from(prompt);
    emitter.emit_block(Block::new(id, UserMessageBlock { content }));
}
