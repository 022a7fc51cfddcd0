//! What converters remember, as pure data: a fold that was interrupted goes on from it.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use threadfold_core::Json;

use crate::claude::ClaudeConverter;
use crate::opencode::OpencodeConverter;
use crate::other::OtherConverter;
use crate::{Agent, Converter};

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

/// Returns a converter that goes on from what another [remembered](Converter::memory).
///
/// ```
/// use threadfold_convert::{Agent, converter, converter_from};
///
/// let remembered = converter(Agent::Claude).memory();
/// let again = converter_from(Agent::Claude, &remembered)?;
/// assert_eq!(again.memory(), remembered);
/// # Ok::<(), threadfold_convert::MemoryError>(())
/// ```
pub fn converter_from(agent: Agent, memory: &Json) -> Result<Box<dyn Converter>, MemoryError> {
    Ok(match agent {
        Agent::Claude => Box::new(read::<ClaudeConverter>(memory)?),
        Agent::Opencode => Box::new(read::<OpencodeConverter>(memory)?),
        Agent::Other => Box::new(read::<OtherConverter>(memory)?),
    })
}

pub(crate) fn write<T: Serialize>(converter: &T) -> Json {
    Json::of(&Written { version: VERSION, memory: converter })
}

fn read<T: DeserializeOwned>(memory: &Json) -> Result<T, MemoryError> {
    let found: Version = serde_json::from_str(memory.as_str()).map_err(MemoryError::Unreadable)?;
    if found.version != VERSION {
        return Err(MemoryError::Version { found: found.version });
    }
    let read: Read<T> = serde_json::from_str(memory.as_str()).map_err(MemoryError::Unreadable)?;
    Ok(read.memory)
}
