//! Task calls: each makes or goes on with a session of its own, which is the subagent.

use threadfold_core::{
    AgentId, CompletedStatus, ConversationId, Json, Payload, SubagentCompleted, SubagentSpawned,
};

use super::emitter::Emitter;
use super::parts::duration;
use super::wire::{TaskInput, TaskMetadata, ToolState};

/// Says whether calls of this tool make subagents.
pub(super) fn is_task(tool: &str) -> bool {
    tool == "task"
}

/// Hears how far a task has come. Says whether there is a subagent, so that its result is no
/// block of its own.
pub(super) fn hear(
    emitter: &mut Emitter<'_>,
    caller: &ConversationId,
    call: &str,
    state: &ToolState<'_>,
) -> bool {
    let metadata: TaskMetadata<'_> =
        state.metadata.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    let Some(child) = metadata.session_id.as_deref() else { return false };
    let asked: TaskInput<'_> =
        state.input.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    if let Some(root) = emitter.memory.root.clone() {
        let parent = if caller.is_main() { root } else { caller.as_str().into() };
        emitter.memory.parents.entry(child.into()).or_insert(parent);
    }
    let output = state.output.and_then(|raw| Json::from(raw).to_text());
    let works_on = output.as_deref().is_some_and(|it| it.contains("state=\"running\""));
    emitter.emit(
        caller,
        Payload::SubagentSpawned(SubagentSpawned {
            agent_id: Some(AgentId::from(child)),
            prompt: asked.prompt.as_deref().map(Into::into),
            subagent_type: asked.subagent_type.as_deref().map(Into::into),
            description: asked.description.as_deref().map(Into::into),
            background: asked.background || works_on,
            ..SubagentSpawned::by(call)
        }),
    );
    let ended = match state.status.as_deref() {
        Some("completed") if works_on => None,
        Some("completed") => Some((CompletedStatus::Completed, output.as_deref().map(answer))),
        Some("error") => {
            let error = state.error.and_then(|raw| Json::from(raw).to_text());
            Some((CompletedStatus::Error, error))
        }
        _ => None,
    };
    if let Some((status, output)) = ended {
        emitter.emit(
            caller,
            Payload::SubagentCompleted(SubagentCompleted {
                tool_use_id: call.into(),
                agent_id: Some(AgentId::from(child)),
                subagent_id: None,
                status,
                output: output.as_deref().map(Json::string),
                duration_ms: duration(state),
            }),
        );
    }
    true
}

/// Returns what the subagent said, without the frame that its version puts around it.
fn answer(output: &str) -> String {
    let inner = output.split_once("<task_result>").map(|(_, rest)| rest);
    match inner {
        Some(rest) => rest.rsplit_once("</task_result>").map_or(rest, |(inner, _)| inner).trim(),
        None => output.split_once("<task_metadata>").map_or(output, |(words, _)| words).trim(),
    }
    .to_owned()
}
