//! Loads a session for display.

use threadfold_core::{ConversationState, SessionMetadata};
use threadfold_engine::{FoundSession, PartsOnDisk, read_found};
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
    /// What of it is read when it is drawn: checked after that.
    pub(crate) parts: PartsOnDisk,
}

impl LoadedSession {
    pub(crate) fn of(fold: Fold) -> Self {
        let (metadata, records) = (fold.metadata().clone(), fold.seq());
        let parts = PartsOnDisk::default();
        Self { state: fold.into_settled(), metadata, records, parts }
    }
}

/// Reads a discovered session, with its subagents.
pub(crate) fn load_found(waiter: &Waiter, found: &FoundSession) -> Result<Fold, CommandError> {
    let fold = waiter.wait(read_found(found, elsewhere(), |_| {}))?;
    found.content.losses().iter().for_each(report_loss);
    Ok(fold)
}
