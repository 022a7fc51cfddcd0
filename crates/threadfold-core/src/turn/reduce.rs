//! Dispatch: applies one event to a loop's state.

use std::sync::Arc;

use crate::event::{
    CheckpointSaved, Context, Payload, SessionEvent, TurnAnswered, TurnCompleted, TurnStarted,
};
use crate::id::StateId;
use crate::outcome::{Anomaly, Outcome};
use crate::turn::message::Role;
use crate::turn::mismatch::{Fingerprint, Setup};
use crate::turn::record::{CallState, ConversationTurn, ToolCallRecord};
use crate::turn::state::TurnState;

mod call;

pub(super) fn apply(state: &mut TurnState, event: &SessionEvent) -> Outcome {
    if event.context.conversation_id != state.facts.conversation_id {
        return Outcome::Unchanged;
    }
    match &event.payload {
        Payload::TurnStarted(payload) => started(state, payload, &event.context),
        Payload::TurnAnswered(payload) => answered(state, payload, &event.context),
        Payload::TurnCompleted(payload) => completed(state, payload),
        Payload::ToolRequested(payload) => call::requested(state, payload),
        Payload::ToolStarted(payload) => call::started(state, payload),
        Payload::ToolFinished(payload) => call::finished(state, payload),
        Payload::ToolFailed(payload) => call::failed(state, payload),
        Payload::ToolUnknown(payload) => call::unknown(state, payload),
        Payload::CheckpointSaved(payload) => checkpoint(state, payload),
        Payload::BlockUpsert(_)
        | Payload::BlockDelta(_)
        | Payload::BlockRemove(_)
        | Payload::ContextChanged(_)
        | Payload::SubagentSpawned(_)
        | Payload::SubagentCompleted(_)
        | Payload::SubagentMarked(_)
        | Payload::SessionIdle(_)
        | Payload::MetadataUpdate(_)
        | Payload::QueryStarted(_)
        | Payload::QueryCompleted(_)
        | Payload::QueryFailed(_)
        | Payload::EeCreating(_)
        | Payload::EeReady(_)
        | Payload::EeTerminated(_)
        | Payload::EeError(_)
        | Payload::EeHealthCheck(_)
        | Payload::FileCreated(_)
        | Payload::FileModified(_)
        | Payload::FileDeleted(_)
        | Payload::TranscriptChanged(_)
        | Payload::TranscriptWritten(_)
        | Payload::PermissionRequested(_)
        | Payload::PermissionResolved(_)
        | Payload::Log(_)
        | Payload::Error(_)
        | Payload::OptionsUpdate(_)
        | Payload::SessionInitialized(_)
        | Payload::SessionEnded(_)
        | Payload::Unknown(_) => Outcome::Unchanged,
    }
}

/// Returns true if an event can change a loop's state.
pub(super) fn concerns(event: &SessionEvent) -> bool {
    matches!(
        event.payload,
        Payload::TurnStarted(_)
            | Payload::TurnAnswered(_)
            | Payload::TurnCompleted(_)
            | Payload::ToolRequested(_)
            | Payload::ToolStarted(_)
            | Payload::ToolFinished(_)
            | Payload::ToolFailed(_)
            | Payload::ToolUnknown(_)
            | Payload::CheckpointSaved(_)
    )
}

/// Starts a turn after a completed one, or after an unanswered one that is abandoned.
fn started(state: &mut TurnState, payload: &TurnStarted, context: &Context) -> Outcome {
    let turn = payload.turn;
    if let Some(known) = known_turn(state, turn) {
        return match *known.sent == *payload {
            true => Outcome::Unchanged,
            false => Outcome::Ignored(Anomaly::TurnMismatch { turn }),
        };
    }
    let expected = state.facts.turns.len() as u64 + 1;
    if turn != expected {
        return Outcome::Ignored(Anomaly::TurnOutOfOrder { turn, expected });
    }
    if let Some(last) = state.last()
        && last.answer.is_some()
        && !last.is_completed
    {
        return Outcome::Ignored(Anomaly::TurnOpen { turn: last.number() });
    }
    // Computed before the turn is added: the hash covers only what precedes it.
    let prefix = state.prefix_hash();
    let is_other = prefix != payload.prefix_hash;
    let facts = &mut state.facts;
    facts.prefix = prefix;
    if facts.turns.is_empty() {
        facts.created_at.clone_from(&context.timestamp);
        facts.state_id = context.session_id.as_ref().map(|session| {
            let conversation = &facts.conversation_id;
            StateId::from(match conversation.is_main() {
                true => session.to_string(),
                false => format!("{session}/{conversation}"),
            })
        });
    }
    facts.system = payload.system.clone().or(facts.system.take());
    facts.tools = payload.tools.clone().or(facts.tools.take());
    facts.parameters = payload.parameters.clone().or(facts.parameters.take());
    facts.fingerprint = Some(fingerprint(facts.fingerprint.take(), payload));
    let record = ConversationTurn::new(payload.clone(), context.timestamp.clone());
    facts.turns.push_back(Arc::new(record));
    if is_other { Outcome::Noted(Anomaly::PrefixMismatch { turn }) } else { Outcome::Applied }
}

/// Returns the fingerprint of a turn. Unchanged parts are absent from the event, so their hashes
/// are taken over.
fn fingerprint(known: Option<Fingerprint>, payload: &TurnStarted) -> Fingerprint {
    let setup = Setup {
        namespace: payload.prompt_namespace.as_deref(),
        key: payload.prompt_key.as_deref(),
        system: payload.system.as_deref(),
        tools: payload.tools.as_ref(),
        provider: &payload.provider,
        model: &payload.model,
    };
    let mut made = setup.fingerprint();
    if let Some(known) = known {
        if payload.system.is_none() {
            made.system = known.system;
        }
        if payload.tools.is_none() {
            made.tools = known.tools;
        }
    }
    made
}

fn answered(state: &mut TurnState, payload: &TurnAnswered, context: &Context) -> Outcome {
    let turn = payload.turn;
    let Some(known) = known_turn(state, turn) else {
        return Outcome::Ignored(Anomaly::UnknownTurn { turn });
    };
    if let Some(answer) = &known.answer {
        return match **answer == *payload {
            true => Outcome::Unchanged,
            false => Outcome::Ignored(Anomaly::TurnMismatch { turn }),
        };
    }
    let place = state.facts.turns.len() - 1;
    if turn != place as u64 + 1 {
        let expected = place as u64 + 1;
        return Outcome::Ignored(Anomaly::TurnOutOfOrder { turn, expected });
    }
    let found = payload.message.role;
    if found != Role::Assistant {
        return Outcome::Ignored(Anomaly::WrongRole { found, wanted: Role::Assistant });
    }
    let mut twice = None;
    let record = Arc::make_mut(&mut state.facts.turns[place]);
    record.answer = Some(Arc::new(payload.clone()));
    record.answer_seq = context.seq;
    for (ordinal, call) in payload.message.tool_calls.iter().enumerate() {
        if state.places.get(&call.call_id).is_some_and(|&(at, _)| at == place) {
            twice = Some(Anomaly::DuplicateCall { call: call.call_id.clone() });
            continue;
        }
        state.places.insert(call.call_id.clone(), (place, record.calls.len()));
        record.calls.push_back(Arc::new(ToolCallRecord {
            call_id: call.call_id.clone(),
            ordinal: ordinal as u64,
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            key: None,
            attempt: 0,
            effect: None,
            state: CallState::Requested,
        }));
    }
    twice.map_or(Outcome::Applied, Outcome::Noted)
}

fn completed(state: &mut TurnState, payload: &TurnCompleted) -> Outcome {
    let turn = payload.turn;
    let Some(known) = known_turn(state, turn) else {
        return Outcome::Ignored(Anomaly::UnknownTurn { turn });
    };
    if known.is_completed {
        return Outcome::Unchanged;
    }
    if known.answer.is_none() || known.calls().any(|call| call.result().is_none()) {
        return Outcome::Ignored(Anomaly::TurnOpen { turn });
    }
    let closed = ConversationTurn { is_completed: true, ..known.clone() };
    if let Some(place) = place_of(turn) {
        state.facts.turns.set(place, Arc::new(closed));
    }
    Outcome::Applied
}

fn checkpoint(state: &mut TurnState, payload: &CheckpointSaved) -> Outcome {
    if state.facts.checkpoint.as_ref() == Some(payload) {
        return Outcome::Unchanged;
    }
    state.facts.checkpoint = Some(payload.clone());
    Outcome::Applied
}

fn known_turn(state: &TurnState, turn: u64) -> Option<&ConversationTurn> {
    state.turn(turn).map(|turn| &**turn)
}

fn place_of(turn: u64) -> Option<usize> {
    usize::try_from(turn.checked_sub(1)?).ok()
}
