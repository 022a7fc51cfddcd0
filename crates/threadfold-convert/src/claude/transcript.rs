//! Converts the lines of session files, one JSON object a line.

use threadfold_core::{AgentId, BlockId, Json};

use super::assistant::convert_assistant;
use super::commands::{observe_clear, stored_output};
use super::compaction;
use super::emitter::Emitter;
use super::internal::mark_internal;
use super::live::emit_notice;
use super::memory::key;
use super::notifications::{convert_task_notification, is_task_notification};
use super::repeated_history::{
    is_known_repetition, is_new_record, observe_text, remember_candidate,
};
use super::subagents::{conversation_of, emit_known_subagents, opening};
use super::tasks::convert_queued_start;
use super::turns::{begin_turn, deactivate_left_turn, remember_line, remember_parent, turn_of};
use super::usage::{emit_metadata, emit_totals};
use super::user::{convert_user, is_by_harness, prompt_blocks};
use super::wire::{Attachment, Content, Line};

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
    if subagent.is_some() {
        mark_internal(emitter, line);
    }
    if matches!(kind, "assistant" | "user") && is_known_repetition(emitter, line) {
        return true;
    }
    match kind {
        "assistant" => {
            let first = convert_assistant(emitter, line, text);
            let turn = turn_of(emitter, line);
            deactivate_left_turn(emitter, turn);
            let conversation = emitter.conversation.clone();
            emitter.memory.files.turns.entry(conversation).or_default().answer();
            remember_line(emitter, line, first, turn);
            emit_known_subagents(emitter, line);
        }
        // Without a message it says nothing, and is shown as it came.
        "user" if line.message.is_none() => return false,
        "user" => convert_user_line(emitter, line, subagent),
        "system" => return convert_system(emitter, line),
        "attachment" => convert_attachment(emitter, line),
        "queue-operation" => {
            let words = line.content.and_then(|raw| Json::from(raw).to_text());
            match (line.operation.as_deref(), words) {
                (Some("enqueue"), Some(words)) if is_task_notification(&words) => {
                    convert_task_notification(emitter, &words);
                }
                (Some("enqueue"), Some(words)) => convert_queued_start(emitter, &words),
                _ => {}
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
            if let Some(totals) = line.model_usage {
                emit_totals(emitter, totals);
            }
        }
        "progress" => remember_parent(emitter, line),
        // These hold settings and caches of the agent, and nothing of the conversation.
        "summary"
        | "file-history-snapshot"
        | "file-history-delta"
        | "frame-link"
        | "relocated"
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

fn convert_user_line(emitter: &mut Emitter<'_>, line: &Line<'_>, subagent: Option<&AgentId>) {
    let words = opening(line);
    let is_result = match line.message.as_ref().map(|message| &message.content) {
        Some(Content::Blocks(blocks)) => {
            blocks.iter().any(|block| block.kind.as_deref() == Some("tool_result"))
        }
        _ => false,
    };
    let conversation = emitter.conversation.clone();
    let before = emitter.memory.files.last.get(&conversation).cloned();
    let may_repeat = !is_result && words.is_some() && is_new_record(emitter, line);
    let is_known = may_repeat && observe_text(emitter, line, &all_words(line));
    // Only a person's prompt begins a turn.
    if is_result || is_by_harness(line) {
        if let Some(words) = words.filter(|words| is_task_notification(words)) {
            convert_task_notification(emitter, &words);
        }
        observe_clear(emitter, &all_words(line));
        let first = convert_user(emitter, line);
        let turn = turn_of(emitter, line);
        deactivate_left_turn(emitter, turn);
        remember_line(emitter, line, first, turn);
        if is_known {
            remember_candidate(emitter, line, before, None);
        }
        return;
    }
    if emitter.is_repeated {
        // The previous turn ended when this prompt was read first; nothing ends now.
    } else if emitter.memory.files.last.contains_key(&conversation) {
        // A new prompt ends the previous turn, which files do not mark.
        emitter.emit_idle_in(&conversation);
    } else if let (Some(agent), Some(words)) = (subagent, words) {
        let linked = emitter.memory.agents.contains_key(agent.bare());
        emitter.memory.openings.add(agent.bare().into(), words.into(), linked);
    }
    let length = emitter.out.len();
    let turn = begin_turn(emitter, line);
    let left = (emitter.out.len() > length).then_some(turn);
    let first = convert_user(emitter, line);
    remember_line(emitter, line, first, turn);
    if is_known {
        remember_candidate(emitter, line, before, left);
    }
}

/// Returns all words of a user line.
fn all_words(line: &Line<'_>) -> String {
    match line.message.as_ref().map(|message| &message.content) {
        Some(Content::Text(words)) => words.to_string(),
        Some(Content::Blocks(blocks)) => {
            let words: Vec<&str> = blocks.iter().filter_map(|it| it.text.as_deref()).collect();
            words.join("\n")
        }
        _ => String::new(),
    }
}

fn convert_system(emitter: &mut Emitter<'_>, line: &Line<'_>) -> bool {
    let subtype = line.subtype.as_deref().unwrap_or("notice");
    let words = line.content.and_then(|raw| Json::from(raw).to_text());
    let mut shown = None;
    match (subtype, words) {
        ("compact_boundary", _) => {
            compaction::convert_boundary(emitter, line);
            shown = line.uuid.as_deref().map(BlockId::from);
        }
        ("microcompact_boundary", _) => {
            compaction::convert_microcompaction(emitter, line);
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
            match stored_output(line, &words) {
                Some(output) => emitter.emit_block(output),
                None => emit_notice(emitter, line, subtype, words),
            }
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
            let is_prompt = attached.command_mode.as_deref().is_none_or(|mode| mode == "prompt");
            match words(attached.prompt) {
                Some(prompt) if is_task_notification(&prompt) => {
                    convert_task_notification(emitter, &prompt);
                }
                _ if is_prompt => emit_queued_prompt(emitter, line),
                _ => {}
            }
        }
        Some(
            kind @ ("hook_success"
            | "hook_blocking_error"
            | "hook_error"
            | "hook_non_blocking_error"),
        ) => {
            let event = attached.hook_event.as_deref().unwrap_or("");
            let name = attached.hook_name.as_deref().unwrap_or(event);
            let output = words(attached.content).filter(|it| !it.trim().is_empty());
            let output = match kind {
                "hook_success" => output.unwrap_or_default(),
                _ => output.unwrap_or_else(|| hook_failure(kind, attached)),
            };
            emit_notice(emitter, line, "hook", format!("{name}: {output}"));
        }
        _ => {}
    }
    remember_parent(emitter, line);
}

/// Returns why a hook failed or blocked: a failure is never a hook without output.
fn hook_failure(kind: &str, attached: &Attachment<'_>) -> String {
    #[derive(serde::Deserialize)]
    struct BlockingError {
        #[serde(rename = "blockingError")]
        words: String,
    }
    let text = |raw: &serde_json::value::RawValue| Json::from(raw).to_text();
    let nested = |raw: &serde_json::value::RawValue| {
        serde_json::from_str::<BlockingError>(raw.get()).ok().map(|it| it.words)
    };
    let blocking = attached.blocking_error.and_then(|raw| text(raw).or_else(|| nested(raw)));
    let words = blocking.or_else(|| attached.stderr.and_then(text));
    words.filter(|it| !it.trim().is_empty()).unwrap_or_else(|| match kind {
        "hook_blocking_error" => "blocked".to_owned(),
        _ => "failed".to_owned(),
    })
}

/// Emits a prompt that was queued while the agent worked.
///
/// The file may also contain it as a `user` line, under the id `source_uuid`: that id comes first,
/// so that both become one block.
fn emit_queued_prompt(emitter: &mut Emitter<'_>, line: &Line<'_>) {
    let own = line.uuid.as_deref();
    let source = line.attachment.as_ref().and_then(|it| it.source_uuid.as_deref());
    let Some(id) = source.or(own) else { return };
    if emitter.memory.files.lines.contains_key(&key(id)) {
        return;
    }
    let prompt = line.attachment.as_ref().and_then(|it| it.prompt);
    let Some(content) = prompt.and_then(|raw| serde_json::from_str(raw.get()).ok()) else { return };
    for block in prompt_blocks(line, id, &content) {
        emitter.emit_block(block);
    }
}
