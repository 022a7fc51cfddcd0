//! Checkpoints: which run of a request is not finished, and how far it came.
//!
//! What a run did is in its session's log. A checkpoint only leads there, so it costs the same
//! however long the run is.

mod folder;
mod stored;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use threadfold_core::SessionId;
use threadfold_store::LogId;

use crate::error::LoopError;
use crate::prompt::RunKey;

pub use folder::FolderCheckpoints;
pub use stored::StoreCheckpoints;

/// A place to go on from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    /// The session of the run.
    pub session: SessionId,
    /// Its log; nothing before it was begun.
    pub log: Option<LogId>,
    /// The last record that was there.
    pub seq: u64,
}

/// Keeps checkpoints. Nothing is cleared without being asked.
#[async_trait]
pub trait CheckpointHandler: Send + Sync {
    /// Returns the checkpoint of an unfinished run of a request.
    async fn load(&self, key: &RunKey) -> Result<Option<Checkpoint>, LoopError>;

    /// Begins a run of a request that has none which is not finished: returns a checkpoint with
    /// the name of a new session. Whoever begins one at the same time is given the same name.
    async fn begin(&self, key: &RunKey) -> Result<Checkpoint, LoopError>;

    /// Keeps a checkpoint, instead of the one before.
    async fn save(&self, key: &RunKey, checkpoint: &Checkpoint) -> Result<(), LoopError>;

    /// Forgets the run: it is finished, or nobody wants to go on with it.
    async fn clear(&self, key: &RunKey) -> Result<(), LoopError>;
}

impl Checkpoint {
    /// Returns the checkpoint of a session that is not begun.
    pub(crate) fn before(session: SessionId) -> Self {
        Self { session, log: None, seq: 0 }
    }
}
