//! The ledger: what becomes of each call.

use std::sync::Arc;

use crate::event::{ToolFailed, ToolFinished, ToolRequested, ToolStarted, ToolUnknown};
use crate::id::CallId;
use crate::outcome::{Anomaly, Outcome};
use crate::turn::message::Role;
use crate::turn::record::{CallResult, CallState, ToolCallRecord};
use crate::turn::state::TurnState;

pub(super) fn requested(state: &mut TurnState, said: &ToolRequested) -> Outcome {
    let turn = state.places.get(&said.call_id).map(|&(turn, _)| turn as u64 + 1);
    if turn != Some(said.turn) {
        return Outcome::Ignored(Anomaly::UnknownCall { call: said.call_id.clone() });
    }
    change(state, &said.call_id, |call| {
        let is_same = call.name == said.name
            && call.arguments == said.arguments
            && call.ordinal == said.ordinal
            && call.key.as_ref().is_none_or(|key| *key == said.key);
        if !is_same {
            return Outcome::Ignored(Anomaly::OtherCall { call: said.call_id.clone() });
        }
        if call.key.is_some() {
            return Outcome::Unchanged;
        }
        call.key = Some(said.key.clone());
        Outcome::Applied
    })
}

pub(super) fn started(state: &mut TurnState, said: &ToolStarted) -> Outcome {
    change(state, &said.call_id, |call| {
        if call.key.as_ref().is_some_and(|key| *key != said.key) {
            return Outcome::Ignored(Anomaly::OtherCall { call: said.call_id.clone() });
        }
        if said.attempt != 0 && said.attempt == call.attempt {
            return Outcome::Unchanged;
        }
        if said.attempt < call.attempt || said.attempt == 0 {
            return stale(call, said.attempt);
        }
        if call.result().is_some() {
            return Outcome::Ignored(Anomaly::CallFinished { call: said.call_id.clone() });
        }
        call.key = Some(said.key.clone());
        call.attempt = said.attempt;
        call.effect = Some(said.effect);
        call.state = CallState::Started;
        Outcome::Applied
    })
}

/// Keeps a result. Of several the first counts, for the model may have seen it.
pub(super) fn finished(state: &mut TurnState, said: &ToolFinished) -> Outcome {
    let result = CallResult {
        message: said.result.clone(),
        is_error: said.is_error,
        duration_ms: said.duration_ms,
        source: said.source,
    };
    change(state, &said.call_id, |call| {
        if let Some(known) = call.result() {
            return match *known == result {
                true => Outcome::Unchanged,
                false => Outcome::Ignored(Anomaly::CallFinished { call: said.call_id.clone() }),
            };
        }
        let found = said.result.role;
        if found != Role::Tool {
            return Outcome::Ignored(Anomaly::WrongRole { found, wanted: Role::Tool });
        }
        if said.attempt < call.attempt {
            return stale(call, said.attempt);
        }
        let was_started = said.attempt == call.attempt;
        call.attempt = said.attempt;
        call.state = CallState::Finished(result);
        if was_started { Outcome::Applied } else { Outcome::Noted(never_started(said)) }
    })
}

fn never_started(said: &ToolFinished) -> Anomaly {
    Anomaly::NeverStarted { call: said.call_id.clone(), attempt: said.attempt }
}

pub(super) fn failed(state: &mut TurnState, said: &ToolFailed) -> Outcome {
    end(state, &said.call_id, said.attempt, CallState::Failed { error: said.error.clone() })
}

pub(super) fn unknown(state: &mut TurnState, said: &ToolUnknown) -> Outcome {
    end(state, &said.call_id, said.attempt, CallState::Unknown { reason: said.reason.clone() })
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
            return Outcome::Ignored(Anomaly::NeverStarted { call, attempt });
        }
        call.state = ended;
        Outcome::Applied
    })
}

fn stale(call: &ToolCallRecord, attempt: u64) -> Outcome {
    let (call, last) = (call.call_id.clone(), call.attempt);
    Outcome::Ignored(Anomaly::StaleAttempt { call, attempt, last })
}

/// Changes a call, and copies nothing if nothing changes.
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
