//! Subagents: threads that a call of another thread started.

use std::sync::Arc;

use threadfold_core::{
    AgentId, CompletedStatus, Json, Payload, SubagentCompleted, SubagentMarked, SubagentSpawned,
};

use super::emitter::{Emitter, conversation_of};
use super::memory::{End, Spawn};
use super::wire::AgentState;

/// A subagent that a call started, as one view reports it.
#[derive(Clone, Debug, Default)]
pub(super) struct SpawnReport<'a> {
    pub(super) call: &'a str,
    pub(super) thread: &'a str,
    pub(super) prompt: Option<&'a str>,
    pub(super) role: Option<&'a str>,
}

/// Emits that a call of the current thread started a subagent.
///
/// The subagent runs in the background: the call returns at once, and the caller's turn may end
/// first.
pub(super) fn emit_spawned(emitter: &mut Emitter<'_>, spawn: &SpawnReport<'_>) {
    let caller = emitter.thread.clone();
    let known = Spawn { call: spawn.call.into(), caller };
    emitter.memory.spawns.insert(spawn.thread.into(), known);
    if let Some(call) = emitter.thread().calls.get_mut(spawn.call) {
        call.is_spawn = true;
    }
    emitter.emit(Payload::SubagentSpawned(SubagentSpawned {
        agent_id: Some(AgentId::from(spawn.thread)),
        prompt: spawn.prompt.map(Into::into),
        subagent_type: spawn.role.map(Into::into),
        background: true,
        ..SubagentSpawned::by(spawn.call)
    }));
    if let Some(end) = emitter.memory.ends.remove(spawn.thread) {
        emit_ended(emitter, spawn.thread, end);
    }
}

/// Emits that a subagent finished its task.
pub(super) fn emit_ended(emitter: &mut Emitter<'_>, thread: &str, end: End) {
    let Some(spawn) = emitter.memory.spawns.get(thread).cloned() else {
        emitter.memory.ends.insert(thread.into(), end);
        return;
    };
    let caller = conversation_of(emitter.memory, &spawn.caller);
    let status = if end.is_error { CompletedStatus::Error } else { CompletedStatus::Completed };
    emitter.emit_to(
        &caller,
        Payload::SubagentCompleted(SubagentCompleted {
            tool_use_id: (&*spawn.call).into(),
            agent_id: Some(AgentId::from(thread)),
            subagent_id: None,
            status,
            output: end.output.as_deref().map(Json::string),
            duration_ms: None,
            unplaced: false,
        }),
    );
}

/// Emits the ends that the states of subagents report, as their caller sees them.
pub(super) fn emit_states<'a>(
    emitter: &mut Emitter<'_>,
    states: impl IntoIterator<Item = (&'a String, &'a AgentState)>,
) {
    for (thread, state) in states {
        let is_error = match state.status.as_str() {
            "completed" => false,
            "errored" => true,
            _ => continue,
        };
        let output: Option<Arc<str>> = state.message.as_deref().map(Into::into);
        let caller = std::mem::replace(&mut emitter.thread, thread.as_str().into());
        emitter.thread().has_failed = is_error;
        emitter.thread = caller;
        emit_ended(emitter, thread, End { is_error, output });
    }
}

/// Emits that nobody called the current thread: it is a helper of the agent itself.
pub(super) fn emit_internal(emitter: &mut Emitter<'_>) {
    if !emitter.conversation.is_main() {
        emitter.emit(Payload::SubagentMarked(SubagentMarked { internal: true }));
    }
}
