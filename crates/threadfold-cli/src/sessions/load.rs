//! A session that was read, for whoever shows it.

use threadfold_core::{ConversationState, SessionMetadata};
use threadfold_engine::{FoundSession, read_found};
use threadfold_fold::Fold;

use crate::error::CommandError;
use crate::runtime::Waiter;

/// The content of a session, as it is shown.
pub(crate) struct SessionContent {
    /// Its conversations, with whatever was left open closed.
    pub(crate) state: ConversationState,
    /// What is known of it as a whole.
    pub(crate) metadata: SessionMetadata,
    /// How many records it has.
    pub(crate) records: u64,
}

impl SessionContent {
    pub(crate) fn of(fold: &Fold) -> Self {
        let (state, metadata) = (fold.settled(), fold.metadata().clone());
        Self { state, metadata, records: fold.seq() }
    }
}

/// Reads a session that was found, with its subagents.
pub(crate) fn load_found(waiter: &Waiter, found: &FoundSession) -> Result<Fold, CommandError> {
    Ok(waiter.wait(read_found(found, |_| {}))?)
}
