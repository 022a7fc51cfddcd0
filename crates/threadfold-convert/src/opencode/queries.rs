//! Queries: whether the main session works, as the bus reports it.
//!
//! The bus repeats the status with every step, so only changes of it are emitted. What is stored has
//! no status, so files report no queries.

use serde_json::value::RawValue;
use threadfold_core::{ConversationId, Json, Payload, QueryCompleted, QueryFailed, QueryStarted};

use super::emitter::Emitter;
use super::wire::SessionStatus;

/// Converts the status of a session.
pub(super) fn convert_status(
    emitter: &mut Emitter<'_>,
    conversation: &ConversationId,
    status: Option<&RawValue>,
) {
    let status = status.and_then(|raw| serde_json::from_str::<SessionStatus<'_>>(raw.get()).ok());
    match status.as_ref().map(|it| &*it.kind) {
        Some("busy" | "retry") => start(emitter, conversation),
        Some("idle") => complete(emitter, conversation),
        _ => {}
    }
}

/// Emits that the main session works, unless that is known.
pub(super) fn start(emitter: &mut Emitter<'_>, conversation: &ConversationId) {
    if concerns(emitter, conversation) && !std::mem::replace(&mut emitter.memory.is_busy, true) {
        emitter.emit(conversation, Payload::QueryStarted(QueryStarted { message: None }));
    }
}

/// Emits that the main session stopped working, unless that is known.
pub(super) fn complete(emitter: &mut Emitter<'_>, conversation: &ConversationId) {
    if concerns(emitter, conversation) && std::mem::take(&mut emitter.memory.is_busy) {
        emitter.emit(conversation, Payload::QueryCompleted(QueryCompleted { duration_ms: None }));
    }
}

/// Emits that what the main session worked on failed, or was interrupted.
pub(super) fn fail(
    emitter: &mut Emitter<'_>,
    conversation: &ConversationId,
    error: Option<&RawValue>,
) {
    if concerns(emitter, conversation) {
        emitter.memory.is_busy = false;
        let error = error.map(Json::from);
        emitter.emit(conversation, Payload::QueryFailed(QueryFailed { error }));
    }
}

fn concerns(emitter: &Emitter<'_>, conversation: &ConversationId) -> bool {
    emitter.is_stream && conversation.is_main()
}
