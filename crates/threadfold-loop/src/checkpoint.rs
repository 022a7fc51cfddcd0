//! Checkpoints: which run of a request is unfinished, and how far it got.
//!
//! Everything a run did is in its session's log. A checkpoint only refers to it, so its cost does
//! not depend on the length of the run. One that also holds the history costs as much as that, and
//! can be resumed where the log is missing.

mod folder;
pub(crate) mod history;
mod stored;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use threadfold_core::{Json, SessionId};
use threadfold_fold::LogId;

use crate::error::LoopError;
use crate::prompt::RunKey;

pub use folder::FolderCheckpoints;
pub use stored::StoreCheckpoints;

/// A position to resume a run from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    /// The session of the run.
    pub session: SessionId,
    /// Its log; `None` if the session does not exist yet.
    pub log: Option<LogId>,
    /// The last record at that time.
    pub seq: u64,
    /// The history until then, if the handler [holds](CheckpointHandler::holds_history) it:
    /// completed turns, and nothing to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<Json>,
}

/// Stores checkpoints. A checkpoint is cleared only on request.
#[async_trait]
pub trait CheckpointHandler: Send + Sync {
    /// Returns the checkpoint of a request's unfinished run.
    async fn load(&self, key: &RunKey) -> Result<Option<Checkpoint>, LoopError>;

    /// Starts a run of a request without an unfinished one: returns a checkpoint with the id of a
    /// new session. Concurrent callers get the same id.
    async fn begin(&self, key: &RunKey) -> Result<Checkpoint, LoopError>;

    /// Replaces the checkpoint.
    async fn save(&self, key: &RunKey, checkpoint: &Checkpoint) -> Result<(), LoopError>;

    /// Returns true if checkpoints are saved with the history of the run.
    fn holds_history(&self) -> bool {
        false
    }

    /// Clears the checkpoint: the run is finished or abandoned.
    async fn clear(&self, key: &RunKey) -> Result<(), LoopError>;
}

impl Checkpoint {
    /// Returns the checkpoint of a session that does not exist yet.
    pub(crate) fn before(session: SessionId) -> Self {
        Self { session, log: None, seq: 0, history: None }
    }
}
