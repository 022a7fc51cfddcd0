//! Tasks: how the harness reports the start and the end of subagents, mostly background ones.

use threadfold_core::{CompletedStatus, ConversationId};

use super::emitter::Emitter;
use super::memory::AgentCall;
use super::notifications::{call_of_task, outcome};
use super::subagents::{Completion, emit_completed, emit_spawned_as};
use super::wire::Line;
use crate::borrowed::Str;

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
                caller,
                prompt: line.prompt.as_deref().map(Into::into),
                subagent_type: line.subagent_type.as_deref().map(Into::into),
                description: line.description.as_deref().map(Into::into),
                background: line.is_backgrounded,
                agent: None,
                spawned: false,
                interruption: None,
                reported: false,
                resumes: false,
            };
            emitter.memory.calls.insert(call.into(), entry);
        }
    }
    emit_spawned_as(emitter, call, task);
}

/// Converts the start of a task that 2.1.50 queues in the main file, as JSON. For a run that was
/// interrupted, nothing else in its files names the call.
pub(super) fn convert_queued_start(emitter: &mut Emitter<'_>, text: &str) {
    #[derive(serde::Deserialize)]
    struct QueuedTask<'a> {
        #[serde(borrow)]
        task_id: Str<'a>,
        #[serde(borrow)]
        tool_use_id: Str<'a>,
        #[serde(borrow)]
        task_type: Str<'a>,
    }
    // Most queued texts are prompts.
    if !text.starts_with('{') {
        return;
    }
    if let Ok(task) = serde_json::from_str::<QueuedTask<'_>>(text)
        && &*task.task_type == "local_agent"
    {
        emit_spawned_as(emitter, &task.tool_use_id, &task.task_id);
    }
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
    let named = call_of_task(emitter, line.tool_use_id.as_deref(), line.task_id.as_deref());
    let Some(call) = named else { return };
    if emitter.memory.calls.get(&call).is_none_or(|known| !known.background) {
        return;
    }
    #[derive(serde::Deserialize)]
    struct Usage {
        duration_ms: Option<u64>,
    }
    let usage: Option<Usage> = line.usage.and_then(|raw| serde_json::from_str(raw.get()).ok());
    let error = || line.patch.as_ref().and_then(|patch| patch.error.as_deref());
    let is_error = status == CompletedStatus::Error;
    let output = outcome(is_error, line.summary.as_deref().or_else(error), None);
    let duration_ms = usage.and_then(|usage| usage.duration_ms);
    emit_completed(emitter, &call, Completion { status, output, duration_ms });
}
