//! Converters' memory as JSON, so that an interrupted fold can resume.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use threadfold_core::Json;

const VERSION: u32 = 1;

/// Why a converter cannot resume from a memory. Convert the records again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// It was written by another version of the converters.
    #[error("the memory of a converter has version {found}, expected {VERSION}")]
    Version {
        /// Its version.
        found: u32,
    },
    /// It is not what a converter wrote.
    #[error("the memory of a converter cannot be read")]
    Unreadable(#[source] serde_json::Error),
}

#[derive(Serialize)]
struct EnvelopeRef<'a, T> {
    version: u32,
    memory: &'a T,
}

/// The version alone: the memory of another version may not deserialize.
#[derive(Deserialize)]
struct EnvelopeVersion {
    version: u32,
}

#[derive(Deserialize)]
struct Envelope<T> {
    memory: T,
}

/// Returns a converter's memory as JSON, with its version.
pub(crate) fn write<T: Serialize>(converter: &T) -> Json {
    Json::of(&EnvelopeRef { version: VERSION, memory: converter })
}

/// Reads what [`write()`] returned.
pub(crate) fn read<T: DeserializeOwned>(memory: &Json) -> Result<T, MemoryError> {
    let found: EnvelopeVersion =
        serde_json::from_str(memory.as_str()).map_err(MemoryError::Unreadable)?;
    if found.version != VERSION {
        return Err(MemoryError::Version { found: found.version });
    }
    let envelope: Envelope<T> =
        serde_json::from_str(memory.as_str()).map_err(MemoryError::Unreadable)?;
    Ok(envelope.memory)
}
