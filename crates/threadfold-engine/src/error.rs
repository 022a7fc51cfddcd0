//! What can go wrong with a session, by what the caller can do about it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use threadfold_fold::{SliceError, SnapshotRestoreError};
use threadfold_store::StoreError;

use crate::database::DatabaseError;
use crate::server::ServerError;

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
    /// See [`ServerError`].
    #[error(transparent)]
    Server(#[from] ServerError),
    /// Look at the file.
    #[error("cannot read `{}`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Look at where it was to be written.
    #[error("cannot write `{name}`")]
    Output {
        /// The file, by its name within the session.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// Make room there, then open the session again: all its records are in the store.
    #[error("cannot spill session state to `{}`", folder.display())]
    Spill {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: Arc<io::Error>,
    },
}
