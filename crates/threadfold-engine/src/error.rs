//! Errors of sessions, by what the caller can do about them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use threadfold_core::SessionId;
use threadfold_fold::{SliceError, SnapshotRestoreError};
use threadfold_store::StoreError;

use crate::agent_database::DatabaseError;
use crate::server::ServerError;
use crate::shown_address::without_password;

/// Returns a path as it may be shown: somebody may have given an address with a password.
fn shown(path: &Path) -> String {
    let text = path.display().to_string();
    if text.contains("://") { without_password(&text) } else { text }
}

/// Why an operation on a session failed.
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
    /// Check the file.
    #[error("cannot read `{}`", shown(path))]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Check the target path.
    #[error("cannot write `{name}`")]
    Output {
        /// The file, by its name within the session.
        name: String,
        /// The cause.
        source: io::Error,
    },
    /// Copy into another store, or remove the session there.
    #[error("session `{session}` is in the target already, with other records")]
    OtherLog {
        /// The session.
        session: SessionId,
    },
    /// Write it with the loop that runs the session.
    #[error("a record of kind `{kind}` can only be written by the loop that runs the session")]
    NotTheLoop {
        /// The kind of the record.
        kind: &'static str,
    },
    /// Record what a follower observed, such as the state of a server or a changed transcript.
    #[error("a record of kind `{kind}` is not an observation of a follower")]
    NotAnObservation {
        /// The kind of the record, or of its event.
        kind: String,
    },
    /// Store the other source under an id of its own.
    #[error("session `{session}` belongs to an agent loop: other sources cannot be added")]
    IsRun {
        /// The session.
        session: SessionId,
    },
    /// Rebuild the snapshots, with `threadfold reindex`: all records are in the store.
    #[error("the stored state of session `{session}` cannot be read")]
    StoredState {
        /// The session.
        session: SessionId,
        /// The cause.
        source: Arc<StoreError>,
    },
    /// Free disk space there, then open the session again: all its records are in the store.
    #[error("cannot spill session state to `{}`", folder.display())]
    Spill {
        /// The folder.
        folder: PathBuf,
        /// The cause.
        source: Arc<io::Error>,
    },
}
