//! Checkpoints as files in a folder, one per request.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use threadfold_core::SessionId;
use threadfold_fold::SnapshotRestoreError;

use super::{Checkpoint, CheckpointHandler};
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
}

#[derive(Serialize, Deserialize)]
struct CheckpointFile {
    version: u32,
    #[serde(flatten)]
    checkpoint: Checkpoint,
}

impl FolderCheckpoints {
    /// Opens a folder of checkpoints. Creates it if it does not exist.
    pub fn open(folder: impl Into<PathBuf>) -> io::Result<Self> {
        let folder = folder.into();
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&folder)?;
        Ok(Self { folder })
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
        let kept: CheckpointFile = serde_json::from_slice(&text).map_err(|error| {
            SnapshotRestoreError { field: path.display().to_string(), reason: error.to_string() }
        })?;
        if kept.version != VERSION {
            let reason = format!("expected version {VERSION}, found {}", kept.version);
            return Err(SnapshotRestoreError { field: "version".to_owned(), reason }.into());
        }
        Ok(Some(kept.checkpoint))
    }

    async fn begin(&self, key: &RunKey) -> Result<Checkpoint, LoopError> {
        let name = format!("run-{}", uuid::Uuid::new_v4().simple());
        let checkpoint = Checkpoint::before(SessionId::from(name));
        let text = text(&checkpoint)?;
        loop {
            match write_atomically(&self.path(key), &text, WriteMode::CreateNew) {
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
        write_atomically(&self.path(key), &text, WriteMode::Replace)
            .map_err(|error| checkpoint_error("written", error))
    }

    async fn clear(&self, key: &RunKey) -> Result<(), LoopError> {
        match fs::remove_file(self.path(key)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(checkpoint_error("cleared", error))
            }
            _ => sync_folder(&self.folder).map_err(|error| checkpoint_error("cleared", error)),
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
    let kept = CheckpointFile { version: VERSION, checkpoint: checkpoint.clone() };
    serde_json::to_vec(&kept).map_err(|error| checkpoint_error("written", error))
}

/// How a file is written.
#[derive(Clone, Copy)]
enum WriteMode {
    /// Fail if it exists.
    CreateNew,
    /// Replace the existing file.
    Replace,
}

/// Writes a file atomically: a reader sees the old or the new text, even after a crash.
fn write_atomically(path: &Path, text: &[u8], mode: WriteMode) -> io::Result<()> {
    let beside = path.with_extension(format!("{}.new", uuid::Uuid::new_v4().simple()));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&beside)?;
    let written = file.write_all(text).and_then(|()| file.sync_all());
    // A hard link fails if the target exists, a rename replaces it; both are atomic.
    let placed = written.and_then(|()| match mode {
        WriteMode::CreateNew => fs::hard_link(&beside, path),
        WriteMode::Replace => fs::rename(&beside, path),
    });
    if placed.is_err() || matches!(mode, WriteMode::CreateNew) {
        fs::remove_file(&beside)?;
    }
    placed?;
    // Without syncing the folder, a crash could undo the rename although the file is durable.
    path.parent().map_or(Ok(()), sync_folder)
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
