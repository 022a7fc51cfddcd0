//! The ledger: the state of each call.

use std::sync::Arc;

use crate::event::{ToolFailed, ToolFinished, ToolRequested, ToolStarted, ToolUnknown};
use crate::id::CallId;
use crate::outcome::{Anomaly, Outcome};
use crate::turn::message::Role;
use crate::turn::record::{CallResult, CallState, ToolCallRecord};
use crate::turn::state::TurnState;

pub(super) fn requested(state: &mut TurnState, payload: &ToolRequested) -> Outcome {
    let turn = state.places.get(&payload.call_id).map(|&(turn, _)| turn as u64 + 1);
    if turn != Some(payload.turn) {
        return Outcome::Ignored(Anomaly::UnknownCall { call: payload.call_id.clone() });
    }
    change(state, &payload.call_id, |call| {
        let is_same = call.name == payload.name
            && call.arguments == payload.arguments
            && call.ordinal == payload.ordinal
            && call.key.as_ref().is_none_or(|key| *key == payload.key);
        if !is_same {
            return Outcome::Ignored(Anomaly::CallMismatch { call: payload.call_id.clone() });
        }
        if call.key.is_some() {
            return Outcome::Unchanged;
        }
        call.key = Some(payload.key.clone());
        Outcome::Applied
    })
}

pub(super) fn started(state: &mut TurnState, payload: &ToolStarted) -> Outcome {
    change(state, &payload.call_id, |call| {
        if call.key.as_ref().is_some_and(|key| *key != payload.key) {
            return Outcome::Ignored(Anomaly::CallMismatch { call: payload.call_id.clone() });
        }
        if payload.attempt != 0 && payload.attempt == call.attempt {
            return Outcome::Unchanged;
        }
        if payload.attempt < call.attempt || payload.attempt == 0 {
            return stale(call, payload.attempt);
        }
        if call.result().is_some() {
            return Outcome::Ignored(Anomaly::CallFinished { call: payload.call_id.clone() });
        }
        call.key = Some(payload.key.clone());
        call.attempt = payload.attempt;
        call.effect = Some(payload.effect);
        call.state = CallState::Started;
        Outcome::Applied
    })
}

/// Records a result. The first result wins, because the model may have seen it.
pub(super) fn finished(state: &mut TurnState, payload: &ToolFinished) -> Outcome {
    let result = CallResult {
        message: payload.result.clone(),
        is_error: payload.is_error,
        duration_ms: payload.duration_ms,
        source: payload.source,
    };
    change(state, &payload.call_id, |call| {
        if let Some(known) = call.result() {
            return match *known == result {
                true => Outcome::Unchanged,
                false => Outcome::Ignored(Anomaly::CallFinished { call: payload.call_id.clone() }),
            };
        }
        let found = payload.result.role;
        if found != Role::Tool {
            return Outcome::Ignored(Anomaly::WrongRole { found, wanted: Role::Tool });
        }
        if payload.attempt < call.attempt {
            return stale(call, payload.attempt);
        }
        let was_started = payload.attempt == call.attempt;
        call.attempt = payload.attempt;
        call.state = CallState::Finished(result);
        if was_started { Outcome::Applied } else { Outcome::Noted(unknown_attempt(payload)) }
    })
}

fn unknown_attempt(payload: &ToolFinished) -> Anomaly {
    Anomaly::UnknownAttempt { call: payload.call_id.clone(), attempt: payload.attempt }
}

pub(super) fn failed(state: &mut TurnState, payload: &ToolFailed) -> Outcome {
    end(
        state,
        &payload.call_id,
        payload.attempt,
        CallState::Failed { error: payload.error.clone() },
    )
}

pub(super) fn unknown(state: &mut TurnState, payload: &ToolUnknown) -> Outcome {
    end(
        state,
        &payload.call_id,
        payload.attempt,
        CallState::Unknown { reason: payload.reason.clone() },
    )
}

/// Ends an attempt without a result.
fn end(state: &mut TurnState, call: &CallId, attempt: u64, ended: CallState) -> Outcome {
    change(state, call, |call| {
        if call.state == ended && call.attempt == attempt {
            return Outcome::Unchanged;
        }
        if call.result().is_some() {
            return Outcome::Ignored(Anomaly::CallFinished { call: call.call_id.clone() });
        }
        if attempt < call.attempt {
            return stale(call, attempt);
        }
        if attempt > call.attempt || call.state == CallState::Requested {
            let call = call.call_id.clone();
            return Outcome::Ignored(Anomaly::UnknownAttempt { call, attempt });
        }
        call.state = ended;
        Outcome::Applied
    })
}

fn stale(call: &ToolCallRecord, attempt: u64) -> Outcome {
    let (call, last) = (call.call_id.clone(), call.attempt);
    Outcome::Ignored(Anomaly::StaleAttempt { call, attempt, last })
}

/// Changes a ledger entry. Copies the turn only if the entry actually changes.
fn change(
    state: &mut TurnState,
    call: &CallId,
    step: impl FnOnce(&mut ToolCallRecord) -> Outcome,
) -> Outcome {
    let Some(&(turn, place)) = state.places.get(call) else {
        return Outcome::Ignored(Anomaly::UnknownCall { call: call.clone() });
    };
    let Some(known) = state.call(call) else {
        return Outcome::Ignored(Anomaly::UnknownCall { call: call.clone() });
    };
    let mut record = ToolCallRecord::clone(known);
    let outcome = step(&mut record);
    if let Outcome::Applied | Outcome::Noted(_) = outcome {
        Arc::make_mut(&mut state.facts.turns[turn]).calls[place] = Arc::new(record);
    }
    outcome
}
