//! Checkpoints as files in a folder, one per request.

use std::fs;
use std::io;
use std::path::PathBuf;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use threadfold_core::{Json, SessionId};
use threadfold_fold::{LogId, SnapshotRestoreError};

use super::{Checkpoint, CheckpointHandler};
use crate::atomic_file::{self, WriteMode};
use crate::error::LoopError;
use crate::prompt::RunKey;

const VERSION: u32 = 1;

/// Stores checkpoints in a folder.
///
/// Files are created and replaced atomically. The file name is a hash, so the content of a request
/// never becomes a path. If several processes start a request at once, the first one determines the
/// session; this requires hard links.
#[derive(Clone, Debug)]
pub struct FolderCheckpoints {
    folder: PathBuf,
    holds_history: bool,
}

/// The fields of a file besides those of its checkpoint.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// A file as it is written. Its fields are spelled out, because flattening would lose the exact
/// text of a history.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CheckpointFile<'a> {
    version: u32,
    session: &'a SessionId,
    log: &'a Option<LogId>,
    seq: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    history: &'a Option<Json>,
}

impl FolderCheckpoints {
    /// Opens a folder of checkpoints. Creates it if it does not exist.
    pub fn open(folder: impl Into<PathBuf>) -> io::Result<Self> {
        let folder = folder.into();
        atomic_file::create_folder(&folder)?;
        Ok(Self { folder, holds_history: false })
    }

    /// Saves the history of a run with each of its checkpoints, so that the run can be resumed on a
    /// machine that has only the folder. Each checkpoint then costs as much as the run is long.
    ///
    /// The folder then holds history and nothing else: provider, tools and keys are those of the
    /// loop that resumes, and no call of the history is run. Only one machine may run a request at
    /// a time; a lease protects the runs in one store.
    #[must_use]
    pub fn with_history(self) -> Self {
        Self { holds_history: true, ..self }
    }

    fn path(&self, key: &RunKey) -> PathBuf {
        self.folder.join(format!("{}.json", key.as_str()))
    }
}

#[async_trait]
impl CheckpointHandler for FolderCheckpoints {
    async fn load(&self, key: &RunKey) -> Result<Option<Checkpoint>, LoopError> {
        let path = self.path(key);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(checkpoint_error("read", error)),
        };
        let unreadable = |error: serde_json::Error| SnapshotRestoreError {
            field: path.display().to_string(),
            reason: error.to_string(),
        };
        let Version { version } = serde_json::from_slice(&text).map_err(unreadable)?;
        if version != VERSION {
            let reason = format!("expected version {VERSION}, found {version}");
            return Err(SnapshotRestoreError { field: "version".to_owned(), reason }.into());
        }
        Ok(Some(serde_json::from_slice(&text).map_err(unreadable)?))
    }

    async fn begin(&self, key: &RunKey) -> Result<Checkpoint, LoopError> {
        let name = format!("run-{}", uuid::Uuid::new_v4().simple());
        let checkpoint = Checkpoint::before(SessionId::from(name));
        let text = text(&checkpoint)?;
        loop {
            match atomic_file::write(&self.path(key), &text, WriteMode::CreateNew) {
                Ok(()) => return Ok(checkpoint),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(checkpoint_error("written", error)),
            }
            // The other run may have finished and cleared its checkpoint in the meantime.
            if let Some(other) = self.load(key).await? {
                return Ok(other);
            }
        }
    }

    async fn save(&self, key: &RunKey, checkpoint: &Checkpoint) -> Result<(), LoopError> {
        let text = text(checkpoint)?;
        atomic_file::write(&self.path(key), &text, WriteMode::Replace)
            .map_err(|error| checkpoint_error("written", error))
    }

    fn holds_history(&self) -> bool {
        self.holds_history
    }

    async fn clear(&self, key: &RunKey) -> Result<(), LoopError> {
        match fs::remove_file(self.path(key)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(checkpoint_error("cleared", error))
            }
            _ => atomic_file::sync_folder(&self.folder)
                .map_err(|error| checkpoint_error("cleared", error)),
        }
    }
}

fn checkpoint_error(
    what: &'static str,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> LoopError {
    LoopError::Checkpoint { what, source: error.into() }
}

fn text(checkpoint: &Checkpoint) -> Result<Vec<u8>, LoopError> {
    let Checkpoint { session, log, seq, history } = checkpoint;
    let file = CheckpointFile { version: VERSION, session, log, seq: *seq, history };
    serde_json::to_vec(&file).map_err(|error| checkpoint_error("written", error))
}
