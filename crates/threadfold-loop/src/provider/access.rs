//! Why a provider cannot be asked at all.

use std::io;
use std::path::PathBuf;

/// Why there is no way to a provider with what was given: its address and the key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// Give another address.
    #[error("`{address}` is not the address of a provider: {what}")]
    Address {
        /// What was given.
        address: String,
        /// What is wrong with it.
        what: String,
    },
    /// Give a key.
    #[error("the key is empty")]
    KeyMissing,
    /// Give another key.
    #[error("the key has characters that no key has, such as a space or a line break")]
    KeyUnreadable,
    /// Give another file.
    #[error("the key cannot be read from {}", path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// See to the machine, such as to its certificates.
    #[error("no connection can be made from this machine")]
    Client(#[source] reqwest::Error),
}
