//! Errors in the configuration of a provider.

use std::error::Error;
use std::io;
use std::path::PathBuf;

/// Why a provider cannot be used with the given address and key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// Use another address.
    #[error("`{address}` is not a valid provider address: {what}")]
    Address {
        /// The address.
        address: String,
        /// What is wrong with it.
        what: String,
    },
    /// Provide a key.
    #[error("the key is empty")]
    KeyMissing,
    /// Use another key.
    #[error("the key contains characters that are not allowed, such as a space or a line break")]
    KeyUnreadable,
    /// Use another file.
    #[error("the key cannot be read from {}", path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Fix the machine's setup, such as its certificates.
    #[error("the HTTP client cannot be set up on this machine")]
    Client(#[source] Box<dyn Error + Send + Sync>),
}
