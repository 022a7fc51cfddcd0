//! The recovery table: what to do with each call of a loop that stopped at any point.
//!
//! | found on resume | action |
//! |---|---|
//! | finished | replay its result; do not run the tool |
//! | requested, not started | run |
//! | failed | report the failure to the model; do not run the tool |
//! | started or unknown, and the tool is pure | run again |
//! | … idempotent | run again with the same key |
//! | … probe | ask the tool whether the attempt took effect |
//! | … compensable | undo, then run again |
//! | … unsafe | a person decides |

use std::fmt;
use std::sync::Arc;

use crate::event::Effect;
use crate::id::CallId;
use crate::json::Json;
use crate::turn::record::{CallState, ConversationTurn, ToolCallRecord};
use crate::turn::state::TurnState;

/// How to resume a loop.
#[derive(Clone, Debug, PartialEq)]
pub struct ResumePlan {
    /// The next step.
    pub next: NextStep,
    /// The action for each call of the last turn, in the order in which the model made them.
    pub calls: Vec<PlannedCall>,
}

/// The next step of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Begin this turn: nothing of it was sent.
    BeginTurn {
        /// The turn.
        turn: u64,
    },
    /// Send the recorded request again: no answer was recorded.
    AskAgain {
        /// The turn.
        turn: u64,
    },
    /// Run or settle the calls without a result.
    RunTools {
        /// The turn.
        turn: u64,
    },
    /// Complete the turn: every call has its result.
    CloseTurn {
        /// The turn.
        turn: u64,
    },
    /// Nothing: the model requested nothing more.
    Done,
}

/// A call and the action for it.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedCall {
    /// The call.
    pub call: Arc<ToolCallRecord>,
    /// The action.
    pub action: CallAction,
}

/// The action for a call.
#[derive(Clone, Debug, PartialEq)]
pub enum CallAction {
    /// Replay its result byte for byte; do not run the tool.
    Replay,
    /// Run the tool for the first time.
    Run,
    /// Run the tool again.
    RunAgain,
    /// Run the tool again, with the same key.
    RunAgainWithKey,
    /// Ask the tool whether the attempt took effect.
    Probe,
    /// Undo what the attempt may have done, then run the tool again.
    UndoThenRun,
    /// Report the failure to the model; do not run the tool.
    ReportFailure {
        /// The error.
        error: Json,
    },
    /// Do not run the tool until a person decides.
    Decide(ToolIdempotencyError),
}

/// A call may have taken effect and must not run twice, so a person has to decide.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the outcome of call `{call}` of tool `{tool}` is unknown after attempt {attempt}: \
         retry it, supply its result, or give it up"
)]
pub struct ToolIdempotencyError {
    /// The call.
    pub call: CallId,
    /// The tool.
    pub tool: Arc<str>,
    /// The attempt whose outcome is unknown.
    pub attempt: u64,
}

/// A decision that a person can make about a call with an unknown outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionOption {
    /// Run it again.
    Retry,
    /// Supply its result.
    SupplyResult,
    /// Report to the model that the outcome is unknown.
    GiveUp,
}

impl ToolIdempotencyError {
    /// Returns the possible decisions.
    pub fn options(&self) -> [DecisionOption; 3] {
        [DecisionOption::Retry, DecisionOption::SupplyResult, DecisionOption::GiveUp]
    }
}

impl fmt::Display for DecisionOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Retry => "retry it",
            Self::SupplyResult => "supply its result",
            Self::GiveUp => "give it up",
        })
    }
}

/// Returns how to resume a loop.
///
/// `effect_of` returns the effect of running a tool twice. If the ledger recorded another effect
/// when the call started, the more cautious of the two applies.
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
        CallState::Failed { error } => CallAction::ReportFailure { error: error.clone() },
        CallState::Started | CallState::Unknown { .. } => {
            let today = effect_of(&call.name);
            // A tool may have been declared safer since the call started, but the attempt ran the
            // old one.
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
