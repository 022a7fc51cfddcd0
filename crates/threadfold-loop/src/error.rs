//! What can go wrong with a run, by what the caller can do about it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use threadfold_core::{
    CallId, ConversationStateMismatch, SessionId, ToolIdempotencyError, Violation,
};
use threadfold_engine::{EngineError, SnapshotRestoreError};
use threadfold_store::{Holder, StoreError};

use crate::output::OutputError;
use crate::provider::ProviderError;
use crate::tool::ToolError;

/// Why a run stopped. All that it had done is kept, and it can be gone on with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoopError {
    /// Decide about each of these calls, then resume.
    #[error("{}", listed(.calls))]
    Undecided {
        /// The calls of which nobody knows whether they happened.
        calls: Vec<ToolIdempotencyError>,
    },
    /// End what is named, then retry; or decide otherwise.
    #[error("call `{call}` of tool `{tool}` cannot be run again while it may still be running")]
    StillRunning {
        /// The call.
        call: CallId,
        /// The tool.
        tool: Arc<str>,
        /// What is left of it.
        source: ToolError,
    },
    /// Run with what the conversation was begun with, or adopt what there is today.
    #[error(transparent)]
    Mismatch(#[from] ConversationStateMismatch),
    /// Look at what was kept: nothing was altered.
    #[error(transparent)]
    Restore(#[from] SnapshotRestoreError),
    /// Wait, or ask the holder to stop.
    #[error("session `{session}` is being run by {holder}")]
    Held {
        /// The session.
        session: SessionId,
        /// Who runs it.
        holder: Box<Holder>,
    },
    /// Stop: somebody else goes on with the session.
    #[error("session `{session}` was taken over by {holder}")]
    LeaseLost {
        /// The session.
        session: SessionId,
        /// Who runs it now.
        holder: Box<Holder>,
    },
    /// See [`ProviderError`]. Resume when that is seen to.
    #[error("there is no answer after {attempts} attempts")]
    Provider {
        /// How often it was asked.
        attempts: u32,
        /// Why there was no answer the last time.
        source: ProviderError,
    },
    /// Resume with a higher limit.
    #[error("the run reached its limit of {0}")]
    Limit(Reached),
    /// Resume when it should go on.
    #[error("the run was stopped")]
    Cancelled,
    /// See [`OutputError`].
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Resume it first: it waits in the middle of a turn.
    #[error("session `{session}` is not finished: {waits}")]
    Unfinished {
        /// The session.
        session: SessionId,
        /// What it waits for.
        waits: String,
    },
    /// Run a prompt in it.
    #[error("nothing was asked in session `{session}` yet")]
    NotBegun {
        /// The session.
        session: SessionId,
    },
    /// Decide about another call, or about none.
    #[error("there is nothing to decide about call `{call}`: {why}")]
    NothingToDecide {
        /// The call.
        call: CallId,
        /// Why not.
        why: &'static str,
    },
    /// Report it: this request would be refused by the provider.
    #[error("the request breaks {}", rules(.0))]
    Invalid(Vec<Violation>),
    /// Call in the order that the ledger wants.
    #[error("that does not follow on what was recorded: {0}")]
    OutOfOrder(String),
    /// Look at the checkpoints.
    #[error("the checkpoint cannot be {what}")]
    Checkpoint {
        /// What was to be done with it.
        what: &'static str,
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// See [`EngineError`].
    #[error(transparent)]
    Engine(EngineError),
}

/// A limit that a run reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reached {
    /// So many turns.
    Turns(u64),
    /// So much time.
    Time(Duration),
    /// So many tokens.
    Tokens(u64),
    /// So many US dollars.
    Cost(f64),
}

impl fmt::Display for Reached {
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
