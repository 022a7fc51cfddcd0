//! The errors of a run, by what the caller can do about them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use threadfold_core::{
    CallId, ConversationStateMismatch, SessionId, ToolIdempotencyError, Violation,
};
use threadfold_engine::EngineError;
use threadfold_fold::SnapshotRestoreError;
use threadfold_store::{Holder, StoreError};

use crate::output::OutputError;
use crate::provider::ProviderError;
use crate::tool::ToolError;

/// Why a run stopped. Everything recorded is kept, and the run can be resumed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoopError {
    /// Decide about each of these calls, then resume.
    #[error("{}", listed(.calls))]
    Undecided {
        /// The calls with an unknown outcome.
        calls: Vec<ToolIdempotencyError>,
    },
    /// Kill the process that the cause names, then retry; or choose another decision.
    #[error("call `{call}` of tool `{tool}` cannot be retried while it may still be running")]
    StillRunning {
        /// The call.
        call: CallId,
        /// The tool.
        tool: Arc<str>,
        /// What is left of it.
        source: ToolError,
    },
    /// Inspect the session, then trust it or do not resume it.
    #[error("session `{session}` is an untrusted run: {why}")]
    Untrusted {
        /// The session.
        session: SessionId,
        /// What shows that no loop of this user wrote its turns.
        why: String,
    },
    /// Run with the setup that the conversation started with, or adopt the current one.
    #[error(transparent)]
    Mismatch(#[from] ConversationStateMismatch),
    /// Inspect the stored data: nothing was changed.
    #[error(transparent)]
    Restore(#[from] SnapshotRestoreError),
    /// Wait, or ask the holder to stop.
    #[error("session `{session}` is being run by {holder}")]
    Held {
        /// The session.
        session: SessionId,
        /// The process that runs it.
        holder: Box<Holder>,
    },
    /// Stop: another process took over the session.
    #[error("session `{session}` was taken over by {holder}")]
    LeaseLost {
        /// The session.
        session: SessionId,
        /// The process that runs it now.
        holder: Box<Holder>,
    },
    /// See [`ProviderError`]. Resume once that is fixed.
    #[error("the provider did not answer after {attempts} attempts")]
    Provider {
        /// The number of attempts.
        attempts: u32,
        /// The error of the last attempt.
        source: ProviderError,
    },
    /// Resume with a higher limit.
    #[error("the run reached its limit of {0}")]
    Limit(RunLimit),
    /// Resume when it should continue.
    #[error("the run was stopped")]
    Cancelled,
    /// See [`OutputError`].
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Resume it first: it stopped in the middle of a turn.
    #[error("session `{session}` is not finished: {waits}")]
    Unfinished {
        /// The session.
        session: SessionId,
        /// What it waits for.
        waits: String,
    },
    /// Run a prompt in it first.
    #[error("session `{session}` has no prompt yet")]
    NotStarted {
        /// The session.
        session: SessionId,
    },
    /// Decide about another call, or about none.
    #[error("call `{call}` needs no decision: {why}")]
    NothingToDecide {
        /// The call.
        call: CallId,
        /// The reason.
        why: &'static str,
    },
    /// Report it: the provider would refuse this request.
    #[error("the request violates {}", rules(.0))]
    Invalid(Vec<Violation>),
    /// Call the recorder in the order of the ledger.
    #[error("the event is invalid in this ledger state: {0}")]
    OutOfOrder(String),
    /// Check the checkpoint folder.
    #[error("the checkpoint cannot be {what}")]
    Checkpoint {
        /// What was attempted.
        what: &'static str,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// See [`EngineError`].
    #[error(transparent)]
    Engine(EngineError),
}

/// A limit that a run reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RunLimit {
    /// The number of turns.
    Turns(u64),
    /// The elapsed time.
    Time(Duration),
    /// The number of tokens.
    Tokens(u64),
    /// The cost in US dollars.
    Cost(f64),
}

impl fmt::Display for RunLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Turns(turns) => write!(f, "{turns} turns"),
            Self::Time(time) => write!(f, "{time:?}"),
            Self::Tokens(tokens) => write!(f, "{tokens} tokens"),
            Self::Cost(dollars) => write!(f, "{dollars} US dollars"),
        }
    }
}

fn listed(calls: &[ToolIdempotencyError]) -> String {
    let calls: Vec<_> = calls.iter().map(ToString::to_string).collect();
    calls.join("; ")
}

fn rules(violations: &[Violation]) -> String {
    let violations: Vec<_> = violations.iter().map(ToString::to_string).collect();
    violations.join("; ")
}

impl From<EngineError> for LoopError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Store(error) => error.into(),
            EngineError::Snapshot(error) => Self::Restore(error),
            other => Self::Engine(other),
        }
    }
}

impl From<StoreError> for LoopError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Held { session, holder, .. } => Self::Held { session, holder },
            StoreError::Fenced { session, holder, .. } => Self::LeaseLost { session, holder },
            other => Self::Engine(other.into()),
        }
    }
}
