//! What converters remember, as pure data: a fold that was interrupted goes on from it.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use threadfold_core::Json;

const VERSION: u32 = 1;

/// Why a converter cannot go on from what another remembered. Convert the records again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// It was written by another version of the converters.
    #[error("the memory of a converter has version {found}, and version {VERSION} was wanted")]
    Version {
        /// Its version.
        found: u32,
    },
    /// It is not what a converter wrote.
    #[error("the memory of a converter cannot be read")]
    Unreadable(#[source] serde_json::Error),
}

#[derive(Serialize)]
struct Written<'a, T> {
    version: u32,
    memory: &'a T,
}

#[derive(Deserialize)]
struct Version {
    version: u32,
}

#[derive(Deserialize)]
struct Read<T> {
    memory: T,
}

pub(crate) fn write<T: Serialize>(converter: &T) -> Json {
    Json::of(&Written { version: VERSION, memory: converter })
}

pub(crate) fn read<T: DeserializeOwned>(memory: &Json) -> Result<T, MemoryError> {
    let found: Version = serde_json::from_str(memory.as_str()).map_err(MemoryError::Unreadable)?;
    if found.version != VERSION {
        return Err(MemoryError::Version { found: found.version });
    }
    let read: Read<T> = serde_json::from_str(memory.as_str()).map_err(MemoryError::Unreadable)?;
    Ok(read.memory)
}
