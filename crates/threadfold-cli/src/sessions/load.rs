//! Loads a session for display.

use threadfold_core::{ConversationState, SessionMetadata};
use threadfold_engine::{FoundSession, read_found};
use threadfold_fold::Fold;

use crate::error::{CommandError, report_loss};
use crate::runtime::Waiter;
use crate::store::elsewhere;

/// The content of a session for display.
pub(crate) struct LoadedSession {
    /// Its conversations, with open blocks closed.
    pub(crate) state: ConversationState,
    /// Its metadata.
    pub(crate) metadata: SessionMetadata,
    /// Its number of records.
    pub(crate) records: u64,
}

impl LoadedSession {
    pub(crate) fn of(fold: Fold) -> Self {
        let (metadata, records) = (fold.metadata().clone(), fold.seq());
        Self { state: fold.into_settled().0, metadata, records }
    }
}

/// Reads a discovered session, with its subagents.
pub(crate) fn load_found(waiter: &Waiter, found: &FoundSession) -> Result<Fold, CommandError> {
    let fold = waiter.wait(read_found(found, elsewhere(), |_| {}))?;
    found.content.losses().iter().for_each(report_loss);
    Ok(fold)
}
