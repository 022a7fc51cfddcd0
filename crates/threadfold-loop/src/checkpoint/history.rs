//! The history in a checkpoint: completed turns, to continue from where their log is missing.

use threadfold_core::{
    CallKey, Json, Payload, ToolFinished, ToolRequested, TurnCompleted, TurnState,
};
use threadfold_fold::SnapshotRestoreError;

use crate::error::LoopError;

/// Returns the history of a run as a checkpoint holds it.
pub(crate) fn write(state: &TurnState) -> Json {
    state.to_json()
}

/// Reads the history of a checkpoint.
///
/// A call without a result would be run by whoever resumes, because of a file. So it is refused:
/// a loop saves checkpoints after completed turns only.
pub(crate) fn read(history: &Json) -> Result<TurnState, LoopError> {
    let invalid = |reason: String| SnapshotRestoreError { field: "history".to_owned(), reason };
    let state = TurnState::restore(history).map_err(|error| invalid(error.to_string()))?;
    for turn in state.turns() {
        if turn.calls().any(|call| call.result().is_none()) {
            let number = turn.number();
            return Err(invalid(format!("turn {number} has a call without a result")).into());
        }
    }
    if state.last().is_none_or(|turn| turn.answer().is_none()) {
        return Err(invalid("its last turn has no answer".to_owned()).into());
    }
    Ok(state)
}

/// Returns true if a ledger begins with a history.
pub(crate) fn continues(ledger: &TurnState, history: &TurnState) -> bool {
    ledger.turns().len() >= history.turns().len()
        && ledger
            .turns()
            .zip(history.turns())
            .all(|(one, other)| one.sent() == other.sent() && one.answer() == other.answer())
}

/// Returns the events that write a history into an empty ledger.
pub(crate) fn events(state: &TurnState) -> Vec<Payload> {
    let mut events = Vec::new();
    for turn in state.turns() {
        events.push(Payload::TurnStarted(turn.sent().clone()));
        let Some(answer) = turn.answer() else { continue };
        events.push(Payload::TurnAnswered(answer.clone()));
        for call in turn.calls() {
            let Some(result) = call.result() else { continue };
            let name = || format!("history:{}:{}", turn.number(), call.ordinal);
            let key = call.key.clone().unwrap_or_else(|| CallKey::from(name()));
            events.push(Payload::ToolRequested(ToolRequested {
                turn: turn.number(),
                key,
                call_id: call.call_id.clone(),
                ordinal: call.ordinal,
                name: call.name.clone(),
                arguments: call.arguments.clone(),
            }));
            events.push(Payload::ToolFinished(ToolFinished {
                call_id: call.call_id.clone(),
                attempt: 0,
                result: result.message.clone(),
                is_error: result.is_error,
                duration_ms: result.duration_ms,
                source: result.source,
            }));
        }
        if turn.is_completed() {
            events.push(Payload::TurnCompleted(TurnCompleted { turn: turn.number() }));
        }
    }
    events
}
