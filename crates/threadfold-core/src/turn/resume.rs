//! What is done with a loop that stopped anywhere: the recovery table.
//!
//! | found on resume | done |
//! |---|---|
//! | finished | its result is replayed; the tool does not run |
//! | requested, not started | runs |
//! | failed | the failure is told to the model; the tool does not run |
//! | started or unknown, and the tool is pure | runs again |
//! | … idempotent | runs again with the same key |
//! | … probe | the tool is asked whether it happened |
//! | … compensable | it is undone, then runs again |
//! | … unsafe | a person decides |

use std::fmt;
use std::sync::Arc;

use crate::event::Effect;
use crate::id::CallId;
use crate::json::Json;
use crate::turn::record::{CallState, ConversationTurn, ToolCallRecord};
use crate::turn::state::TurnState;

/// What is done to go on with a loop.
#[derive(Clone, Debug, PartialEq)]
pub struct ResumePlan {
    /// What comes next.
    pub next: NextStep,
    /// What is done with each call of the last turn, in the order that the model made them.
    pub calls: Vec<PlannedCall>,
}

/// What a loop does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Begin this turn: nothing of it was sent.
    BeginTurn {
        /// The turn.
        turn: u64,
    },
    /// Ask the model again, with the bytes that were kept: its answer never came.
    AskAgain {
        /// The turn.
        turn: u64,
    },
    /// See to the calls that have no result yet.
    RunTools {
        /// The turn.
        turn: u64,
    },
    /// Close the turn: all that it wanted is there.
    CloseTurn {
        /// The turn.
        turn: u64,
    },
    /// Nothing: the model asked for nothing more.
    Done,
}

/// A call and what is done with it.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedCall {
    /// The call.
    pub call: Arc<ToolCallRecord>,
    /// What is done with it.
    pub action: CallAction,
}

/// What is done with a call.
#[derive(Clone, Debug, PartialEq)]
pub enum CallAction {
    /// Its result is told again, byte for byte; the tool does not run.
    Replay,
    /// The tool runs, for the first time.
    Run,
    /// The tool runs again.
    RunAgain,
    /// The tool runs again, with the same key.
    RunAgainWithKey,
    /// The tool is asked whether it happened.
    Probe,
    /// What it may have done is undone, then the tool runs again.
    UndoThenRun,
    /// The failure is told to the model; the tool does not run.
    TellFailure {
        /// Why it failed.
        error: Json,
    },
    /// A person decides; until then the tool does not run.
    Decide(ToolIdempotencyError),
}

/// A call may have happened, and must not happen twice: a person decides.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "call `{call}` of tool `{tool}` was started and its outcome is not known after attempt \
     {attempt}: run it again, give its result, or give it up"
)]
pub struct ToolIdempotencyError {
    /// The call.
    pub call: CallId,
    /// The tool.
    pub tool: Arc<str>,
    /// The attempt whose outcome is not known.
    pub attempt: u64,
}

/// What a person can decide about a call that may have happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WayOut {
    /// It is run again.
    Retry,
    /// The person tells its result.
    GiveResult,
    /// The model is told that its outcome is not known.
    GiveUp,
}

impl ToolIdempotencyError {
    /// Returns what a person can decide.
    pub fn ways_out(&self) -> [WayOut; 3] {
        [WayOut::Retry, WayOut::GiveResult, WayOut::GiveUp]
    }
}

impl fmt::Display for WayOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Retry => "run it again",
            Self::GiveResult => "give its result",
            Self::GiveUp => "give it up",
        })
    }
}

/// Returns what is done to go on with a loop.
///
/// `effect_of` says what running a tool of that name twice would do. Where that was said
/// otherwise when the call was started, the more careful of both counts.
///
/// ```
/// use threadfold_core::{Effect, NextStep, TurnState, resume_plan};
///
/// let plan = resume_plan(&TurnState::default(), |_| Effect::Unsafe);
/// assert_eq!(plan.next, NextStep::BeginTurn { turn: 1 });
/// ```
pub fn resume_plan(state: &TurnState, effect_of: impl Fn(&str) -> Effect) -> ResumePlan {
    let Some(turn) = state.last() else {
        return ResumePlan { next: NextStep::BeginTurn { turn: 1 }, calls: Vec::new() };
    };
    let planned = |call: &Arc<ToolCallRecord>| PlannedCall {
        call: Arc::clone(call),
        action: action(call, &effect_of),
    };
    ResumePlan { next: next(turn), calls: turn.calls().map(planned).collect() }
}

impl ResumePlan {
    /// Returns the calls that a person must decide about.
    pub fn undecided(&self) -> impl Iterator<Item = &ToolIdempotencyError> {
        self.calls.iter().filter_map(|planned| match &planned.action {
            CallAction::Decide(error) => Some(error),
            _ => None,
        })
    }
}

fn next(last: &ConversationTurn) -> NextStep {
    let turn = last.number();
    if last.answer().is_none() {
        return NextStep::AskAgain { turn };
    }
    if last.calls().any(|call| call.result().is_none()) {
        return NextStep::RunTools { turn };
    }
    if !last.is_completed() {
        return NextStep::CloseTurn { turn };
    }
    match last.calls().len() {
        0 => NextStep::Done,
        _ => NextStep::BeginTurn { turn: turn.saturating_add(1) },
    }
}

fn action(call: &ToolCallRecord, effect_of: impl Fn(&str) -> Effect) -> CallAction {
    match &call.state {
        CallState::Finished(_) => CallAction::Replay,
        CallState::Requested => CallAction::Run,
        CallState::Failed { error } => CallAction::TellFailure { error: error.clone() },
        CallState::Started | CallState::Unknown { .. } => {
            let today = effect_of(&call.name);
            match call.effect.map_or(today, |then| then.max(today)) {
                Effect::Pure => CallAction::RunAgain,
                Effect::Idempotent => CallAction::RunAgainWithKey,
                Effect::Probe => CallAction::Probe,
                Effect::Compensable => CallAction::UndoThenRun,
                Effect::Unsafe => CallAction::Decide(ToolIdempotencyError {
                    call: call.call_id.clone(),
                    tool: call.name.clone(),
                    attempt: call.attempt,
                }),
            }
        }
    }
}
