//! What can go wrong with a session, by what the caller can do about it.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use threadfold_store::StoreError;

use crate::slice::SliceError;
use crate::snapshot::SnapshotRestoreError;
use crate::sources::DatabaseError;

/// Why something could not be done with a session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// See [`StoreError`].
    #[error(transparent)]
    Store(#[from] StoreError),
    /// See [`SnapshotRestoreError`].
    #[error(transparent)]
    Snapshot(#[from] SnapshotRestoreError),
    /// See [`SliceError`].
    #[error(transparent)]
    Slice(#[from] SliceError),
    /// See [`DatabaseError`].
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// Look at the file.
    #[error("`{}` cannot be read", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Look at where it was to be written.
    #[error("`{name}` cannot be written")]
    Written {
        /// The file, by its name within the session.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// Make room there, then open the session anew: all its records are in the store.
    #[error("`{}` does not hold what does not fit in memory", folder.display())]
    PutAway {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: Arc<io::Error>,
    },
}

/// Returns an error's text with that of its causes.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
