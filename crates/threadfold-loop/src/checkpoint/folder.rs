//! Checkpoints as files of a folder, one for each request.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use threadfold_core::SessionId;
use threadfold_engine::SnapshotRestoreError;

use super::{Checkpoint, CheckpointHandler};
use crate::error::LoopError;
use crate::prompt::RunKey;

const VERSION: u32 = 1;

/// Keeps checkpoints in a folder.
///
/// A file is made and replaced as a whole or not at all. Its name is a hash: whatever a request
/// holds, it never becomes a path. Of several processes that begin a request at once, the first
/// names its run; for that the file system must have hard links.
#[derive(Clone, Debug)]
pub struct FolderCheckpoints {
    folder: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    version: u32,
    #[serde(flatten)]
    checkpoint: Checkpoint,
}

impl FolderCheckpoints {
    /// Returns the checkpoints in this folder, which is made if it is not there.
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
            Err(error) => return Err(unkept("read", error)),
        };
        let kept: Kept = serde_json::from_slice(&text).map_err(|error| SnapshotRestoreError {
            field: path.display().to_string(),
            reason: error.to_string(),
        })?;
        if kept.version != VERSION {
            let reason = format!("version {VERSION} was wanted, and {} was found", kept.version);
            return Err(SnapshotRestoreError { field: "version".to_owned(), reason }.into());
        }
        Ok(Some(kept.checkpoint))
    }

    async fn begin(&self, key: &RunKey) -> Result<Checkpoint, LoopError> {
        let name = format!("run-{}", uuid::Uuid::new_v4().simple());
        let checkpoint = Checkpoint::before(SessionId::from(name));
        let text = text(&checkpoint)?;
        loop {
            match put(&self.path(key), &text, Put::New) {
                Ok(()) => return Ok(checkpoint),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(unkept("written", error)),
            }
            // Unless that one came to its end in the meantime.
            if let Some(other) = self.load(key).await? {
                return Ok(other);
            }
        }
    }

    async fn save(&self, key: &RunKey, checkpoint: &Checkpoint) -> Result<(), LoopError> {
        let text = text(checkpoint)?;
        put(&self.path(key), &text, Put::Instead).map_err(|error| unkept("written", error))
    }

    async fn clear(&self, key: &RunKey) -> Result<(), LoopError> {
        match fs::remove_file(self.path(key)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(unkept("cleared", error)),
            _ => sync_folder(&self.folder).map_err(|error| unkept("cleared", error)),
        }
    }
}

fn unkept(
    what: &'static str,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> LoopError {
    LoopError::Checkpoint { what, source: error.into() }
}

fn text(checkpoint: &Checkpoint) -> Result<Vec<u8>, LoopError> {
    let kept = Kept { version: VERSION, checkpoint: checkpoint.clone() };
    serde_json::to_vec(&kept).map_err(|error| unkept("written", error))
}

/// How a file is put in its place.
#[derive(Clone, Copy)]
enum Put {
    /// Only if there is none.
    New,
    /// Instead of the one that is there.
    Instead,
}

/// Puts a file in its place as a whole: what is read is the old text or the new one, after a
/// crash too.
fn put(path: &Path, text: &[u8], put: Put) -> io::Result<()> {
    let beside = path.with_extension(format!("{}.new", uuid::Uuid::new_v4().simple()));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&beside)?;
    let written = file.write_all(text).and_then(|()| file.sync_all());
    let placed = written.and_then(|()| match put {
        Put::New => fs::hard_link(&beside, path),
        Put::Instead => fs::rename(&beside, path),
    });
    if placed.is_err() || matches!(put, Put::New) {
        fs::remove_file(&beside)?;
    }
    placed?;
    path.parent().map_or(Ok(()), sync_folder)
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
