//! Queries: the turns of the main thread, as live views report them.
//!
//! A rollout has the beginnings of turns too, but one without an end may be of a process that died,
//! so files report no queries.

use threadfold_core::{Json, Payload, QueryCompleted, QueryFailed, QueryStarted};

use super::emitter::Emitter;
use super::wire::Object;

/// Emits that a turn of the main thread started.
pub(super) fn start(emitter: &mut Emitter<'_>) {
    emit(emitter, Payload::QueryStarted(QueryStarted { message: None }));
}

/// Emits that a turn of the main thread was completed.
pub(super) fn complete(emitter: &mut Emitter<'_>, duration_ms: Option<u64>) {
    emit(emitter, Payload::QueryCompleted(QueryCompleted { duration_ms }));
}

/// Emits that a turn of the main thread failed, or was interrupted.
pub(super) fn fail(emitter: &mut Emitter<'_>, error: Json) {
    emit(emitter, Payload::QueryFailed(QueryFailed { error: Some(error) }));
}

/// Emits how a turn ended, as the app-server reports it.
pub(super) fn end(emitter: &mut Emitter<'_>, turn: &Object<'_>) {
    let message =
        turn.object("error").and_then(|error| Some(Json::string(&error.text("message")?)));
    match turn.text("status").as_deref() {
        Some(status @ ("failed" | "interrupted")) => {
            let error = message.unwrap_or_else(|| Json::string(status));
            fail(emitter, error);
        }
        _ => complete(emitter, turn.number("duration_ms")),
    }
}

fn emit(emitter: &mut Emitter<'_>, payload: Payload) {
    if emitter.is_stream && emitter.conversation.is_main() {
        emitter.emit(payload);
    }
}
