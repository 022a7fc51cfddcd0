//! Tasks: how the harness reports the start and the end of subagents, mostly background ones.

use threadfold_core::{CompletedStatus, ConversationId, Json};

use super::emitter::Emitter;
use super::memory::AgentCall;
use super::subagents::{Completion, emit_completed, emit_spawned_as};
use super::wire::Line;

/// Converts the start of a task, as the stream reports it.
pub(super) fn convert_task_start(emitter: &mut Emitter<'_>, line: &Line<'_>) {
    let (Some(call), Some(task)) = (line.tool_use_id.as_deref(), line.task_id.as_deref()) else {
        return;
    };
    // Shell commands in the background are tasks as well.
    if line.task_type.as_deref().is_some_and(|kind| kind != "local_agent") {
        return;
    }
    let caller = line.parent_task_id.as_deref().map(ConversationId::from);
    let known = emitter.memory.calls.get_mut(call);
    match known {
        Some(known) => known.background |= line.is_backgrounded,
        None => {
            let entry = AgentCall {
                caller: caller.unwrap_or_else(ConversationId::main),
                prompt: line.prompt.as_deref().map(Into::into),
                subagent_type: line.subagent_type.as_deref().map(Into::into),
                description: line.description.as_deref().map(Into::into),
                background: line.is_backgrounded,
                agent: None,
                spawned: false,
                failed: false,
            };
            emitter.memory.calls.insert(call.into(), entry);
        }
    }
    emit_spawned_as(emitter, call, task);
}

/// Converts the end of a background task, as the stream reports it.
///
/// A foreground task is skipped: its call gets a result, which contains more.
pub(super) fn convert_task_end(emitter: &mut Emitter<'_>, line: &Line<'_>) {
    let status = line
        .status
        .as_deref()
        .or_else(|| line.patch.as_ref().and_then(|patch| patch.status.as_deref()));
    let status = match status {
        Some("completed") => CompletedStatus::Completed,
        Some("failed" | "stopped" | "killed") => CompletedStatus::Error,
        _ => return,
    };
    let task = line.task_id.as_deref().unwrap_or("");
    let Some(call) = emitter.memory.agents.get(task).cloned() else { return };
    if emitter.memory.calls.get(&call).is_none_or(|known| !known.background) {
        return;
    }
    #[derive(serde::Deserialize)]
    struct Usage {
        duration_ms: Option<u64>,
    }
    let usage: Option<Usage> = line.usage.and_then(|raw| serde_json::from_str(raw.get()).ok());
    let output = line.summary.as_deref().map(Json::string);
    let duration_ms = usage.and_then(|usage| usage.duration_ms);
    emit_completed(emitter, &call, Completion { status, output, duration_ms });
}

/// Returns whether a text to the model is the harness's notification that a task ended.
pub(super) fn is_task_notification(text: &str) -> bool {
    text.starts_with("<task-notification>")
}

/// Converts the notification to the model that a task ended: the only report of it in files.
pub(super) fn convert_task_notification(emitter: &mut Emitter<'_>, text: &str) {
    // The last closing tag counts: a result may contain tags of the same name.
    let tag = |name: &str| -> Option<&str> {
        let start = text.find(&format!("<{name}>"))? + name.len() + 2;
        let end = text[start..].rfind(&format!("</{name}>"))? + start;
        Some(&text[start..end])
    };
    let by_task = tag("task-id").and_then(|task| emitter.memory.agents.get(task).cloned());
    let Some(call) = by_task.or_else(|| tag("tool-use-id").map(Into::into)) else { return };
    if emitter.memory.calls.get(&call).is_none_or(|known| !known.spawned) {
        return;
    }
    let is_error = tag("status").is_some_and(|status| status != "completed");
    let status = if is_error { CompletedStatus::Error } else { CompletedStatus::Completed };
    let output = tag("result").map(Json::string);
    let duration_ms = tag("duration_ms").and_then(|text| text.parse().ok());
    emit_completed(emitter, &call, Completion { status, output, duration_ms });
}
