//! Task calls: each creates or continues a child session, which is the subagent.

use threadfold_core::{
    AgentId, CompletedStatus, ConversationId, Json, Payload, SubagentCompleted, SubagentSpawned,
};

use super::emitter::Emitter;
use super::tools::duration;
use super::v2;
use super::wire::{TaskInput, TaskMetadata, ToolState};

/// Returns whether calls of this tool start subagents.
pub(super) fn is_task(tool: &str) -> bool {
    // `opencode run` of version 2 prints parts like those of version 1.
    matches!(tool, "task" | "subagent")
}

/// Converts the state of a task call. Returns whether it has a child session: its result is then
/// part of the subagent's block, and not a block of its own.
pub(super) fn convert_task(
    emitter: &mut Emitter<'_>,
    caller: &ConversationId,
    call: &str,
    state: &ToolState<'_>,
) -> bool {
    let metadata: TaskMetadata<'_> =
        state.metadata.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    let Some(child) = metadata.session_id.as_deref() else { return false };
    let input: TaskInput<'_> =
        state.input.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    // The call may be read before the child session, whose own parent then takes precedence.
    if let Some(root) = emitter.memory.root.clone() {
        let parent = if caller.is_main() { root } else { caller.as_str().into() };
        emitter.memory.parents.entry(child.into()).or_insert(parent);
    }
    let output = state.output.and_then(|raw| Json::from(raw).to_text());
    // A background call completes at once, and its output reports that the task is running.
    let is_running = output.as_deref().is_some_and(|it| it.contains("state=\"running\""));
    emitter.emit(
        caller,
        Payload::SubagentSpawned(SubagentSpawned {
            agent_id: Some(AgentId::from(child)),
            prompt: input.prompt.as_deref().map(Into::into),
            subagent_type: input.subagent_type.as_deref().map(Into::into),
            description: input.description.as_deref().map(Into::into),
            background: input.background || is_running,
            ..SubagentSpawned::by(call)
        }),
    );
    let outcome = match state.status.as_deref() {
        Some("completed") if is_running => None,
        Some("completed") => Some((CompletedStatus::Completed, output.as_deref().map(answer))),
        Some("error") => {
            let error = state.error.and_then(|raw| Json::from(raw).to_text());
            Some((CompletedStatus::Error, error))
        }
        _ => None,
    };
    if let Some((status, output)) = outcome {
        emitter.emit(
            caller,
            Payload::SubagentCompleted(SubagentCompleted {
                tool_use_id: call.into(),
                agent_id: Some(AgentId::from(child)),
                subagent_id: None,
                status,
                output: output.as_deref().map(Json::string),
                duration_ms: duration(state),
                unplaced: false,
            }),
        );
    }
    true
}

/// Returns the subagent's answer, without the tags that its version puts around it.
fn answer(output: &str) -> String {
    if output.starts_with("<subagent ") {
        return v2::untagged(output).to_owned();
    }
    let inner = output.split_once("<task_result>").map(|(_, rest)| rest);
    match inner {
        Some(rest) => rest.rsplit_once("</task_result>").map_or(rest, |(inner, _)| inner).trim(),
        None => output.split_once("<task_metadata>").map_or(output, |(answer, _)| answer).trim(),
    }
    .to_owned()
}
