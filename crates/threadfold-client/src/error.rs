//! Why a request failed, by what the caller can do about it.

use crate::mirror::MirrorError;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a request to a server failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Check the address.
    #[error("`{address}` is not the address of a server")]
    Address {
        /// The address.
        address: String,
        /// The cause.
        source: BoxError,
    },
    /// Try again later.
    #[error("{address} does not answer")]
    Unreachable {
        /// The server.
        address: String,
        /// The cause.
        source: BoxError,
    },
    /// Do what the hint says.
    #[error("{address} refuses the request ({status}): {detail}")]
    Refused {
        /// The server.
        address: String,
        /// The HTTP status.
        status: u16,
        /// What the server says.
        detail: String,
        /// What it advises.
        hint: String,
        /// Where a pushed stream continues, if that is why.
        expected_position: Option<u64>,
    },
    /// Check that it is a server of Threadfold, of this version.
    #[error("{address} sent something that is not understood: {what}")]
    Odd {
        /// The server.
        address: String,
        /// What it was.
        what: String,
    },
    /// See [`MirrorError`].
    #[error(transparent)]
    Mirror(#[from] MirrorError),
}

impl ClientError {
    /// Returns whether another attempt may succeed.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused { status, .. } => matches!(status, 408 | 429 | 500..),
            _ => false,
        }
    }
}
