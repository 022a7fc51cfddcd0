//! Converters' memory as JSON, so that an interrupted fold can resume.

use std::io;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use threadfold_core::{Json, JsonError};

const VERSION: u32 = 1;

/// Why a converter cannot resume from a memory. Convert the records again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// It was written by another version of the converters.
    #[error("converter state has version {found}, expected {VERSION}")]
    Version {
        /// Its version.
        found: u32,
    },
    /// It is not what a converter wrote.
    #[error("the memory of a converter cannot be read")]
    Unreadable(#[source] JsonError),
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

/// Writes a converter's memory as JSON, with its version.
pub(crate) fn write_to<T: Serialize>(converter: &T, out: &mut dyn io::Write) -> io::Result<()> {
    let envelope = EnvelopeRef { version: VERSION, memory: converter };
    serde_json::to_writer(io::BufWriter::new(out), &envelope).map_err(io::Error::from)
}

/// Reads what [`write()`] returned.
pub(crate) fn read<T: DeserializeOwned>(memory: &Json) -> Result<T, MemoryError> {
    let found: EnvelopeVersion = memory.read().map_err(MemoryError::Unreadable)?;
    if found.version != VERSION {
        return Err(MemoryError::Version { found: found.version });
    }
    let envelope: Envelope<T> = memory.read().map_err(MemoryError::Unreadable)?;
    Ok(envelope.memory)
}
