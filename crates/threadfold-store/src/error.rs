//! Errors, one variant for each thing that a caller can do about them.

use std::error::Error;
use std::time::Duration;

use threadfold_core::SessionId;

use crate::blob::BlobHash;
use crate::lease::{Epoch, Holder};

type BoxError = Box<dyn Error + Send + Sync>;

/// Why a store refused or failed a call.
///
/// In each case the store acknowledged nothing of the call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Read again from `expected`, then append again.
    #[error("session `{session}` is at record {found}, not {expected}")]
    Conflict {
        /// The session.
        session: SessionId,
        /// The last record that the writer knew.
        expected: u64,
        /// The last record of the log.
        found: u64,
    },
    /// Stop writing: another process holds a newer lease.
    #[error("session `{session}` is now being written by {holder} (lease {current}; ours was {ours})", current = current.0, ours = ours.0)]
    Fenced {
        /// The session.
        session: SessionId,
        /// The epoch that the caller used.
        ours: Epoch,
        /// The latest epoch.
        current: Epoch,
        /// The process that holds the latest lease.
        holder: Box<Holder>,
    },
    /// Wait until the lease expires, or ask its holder to stop.
    #[error("session `{session}` is being written by {holder}")]
    Held {
        /// The session.
        session: SessionId,
        /// The process that holds the lease.
        holder: Box<Holder>,
        /// The epoch of the lease.
        epoch: Epoch,
        /// How long the lease still lasts without renewal, by the store's clock.
        remaining: Duration,
    },
    /// List the sessions of the store.
    #[error("session `{session}` is not in this store")]
    NotFound {
        /// The session.
        session: SessionId,
    },
    /// Write the snapshot again, with the bytes of all its pieces.
    #[error("piece {piece} of a snapshot is not in the store")]
    MissingPiece {
        /// The piece.
        piece: BlobHash,
    },
    /// Free disk space or fix permissions, then retry. Nothing was written.
    #[error("cannot write to {place}")]
    Unwritable {
        /// The store.
        place: String,
        /// The cause.
        source: BoxError,
    },
    /// Retry later.
    #[error("cannot reach {place}")]
    Unreachable {
        /// The store.
        place: String,
        /// The cause.
        source: BoxError,
    },
    /// Stop, and report it to a person.
    #[error("{place} is corrupt: {what}")]
    Corrupt {
        /// The store, and the place in it.
        place: String,
        /// What is wrong.
        what: String,
    },
    /// Use a newer version of this program.
    #[error("{place} has version {found}, but this program supports only up to version {known}")]
    Newer {
        /// The store.
        place: String,
        /// Its version.
        found: u32,
        /// The newest version that this program supports.
        known: u32,
    },
    /// Open another file or address.
    #[error("{place} is not a Threadfold store: {what}")]
    Foreign {
        /// The file or address.
        place: String,
        /// What it is instead.
        what: String,
    },
    /// Use another store, which can do this.
    #[error("{place} does not support {operation}")]
    Unsupported {
        /// The store.
        place: String,
        /// What was asked of it.
        operation: &'static str,
    },
}
