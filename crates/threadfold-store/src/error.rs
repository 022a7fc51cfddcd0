//! What can go wrong, by what the caller can do about it.

use std::error::Error;

use threadfold_core::SessionId;
use threadfold_fold::Timestamp;

use crate::blob::BlobHash;
use crate::lease::{Epoch, Holder};

type Cause = Box<dyn Error + Send + Sync>;

/// Why a store could not do what was asked.
///
/// Whatever it is, nothing of what was asked was acknowledged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Read again from `expected`, then append again.
    #[error("session `{session}` is at record {found}, not {expected}")]
    Conflict {
        /// The session.
        session: SessionId,
        /// Where the writer believed it to be.
        expected: u64,
        /// Where it is.
        found: u64,
    },
    /// Stop writing: the session was handed to another.
    #[error("session `{session}` is written by {holder} now (lease {current}; this was {ours})", current = current.0, ours = ours.0)]
    Fenced {
        /// The session.
        session: SessionId,
        /// The lease that was used.
        ours: Epoch,
        /// The lease that holds.
        current: Epoch,
        /// Who holds it.
        holder: Box<Holder>,
    },
    /// Wait, or ask the holder to stop.
    #[error("session `{session}` is being written by {holder}")]
    Held {
        /// The session.
        session: SessionId,
        /// Who holds the lease.
        holder: Box<Holder>,
        /// The lease.
        epoch: Epoch,
        /// Until when, unless it is renewed.
        until: Timestamp,
    },
    /// Look at what there is.
    #[error("session `{session}` is not in this store")]
    NotFound {
        /// The session.
        session: SessionId,
    },
    /// Write the snapshot again, with all its pieces.
    #[error("piece {piece} of a snapshot is not in the store")]
    NoPiece {
        /// The piece.
        piece: BlobHash,
    },
    /// Make room or give leave to write, then try again. Nothing was written.
    #[error("nothing can be written to {place}")]
    Unwritable {
        /// Which store.
        place: String,
        /// Why.
        source: Cause,
    },
    /// Try again later.
    #[error("{place} cannot be reached")]
    Unreachable {
        /// Which store.
        place: String,
        /// Why.
        source: Cause,
    },
    /// Stop, and tell a person.
    #[error("{place} is damaged: {what}")]
    Damaged {
        /// Which store, and where in it.
        place: String,
        /// What is wrong.
        what: String,
    },
    /// Use a newer program.
    #[error("{place} has version {found}, and this program knows up to version {known}")]
    Newer {
        /// Which store.
        place: String,
        /// Its version.
        found: u32,
        /// The newest version that this program knows.
        known: u32,
    },
    /// Give the place of a store.
    #[error("{place} is not a store of Threadfold: {what}")]
    Foreign {
        /// What was given.
        place: String,
        /// What it is instead.
        what: String,
    },
}
