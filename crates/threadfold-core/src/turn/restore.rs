//! Serializes a loop's state, and restores it.

use serde::{Deserialize, Serialize, Serializer};

use crate::json::{Json, JsonError};
use crate::turn::state::{Facts, TurnState};

const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct VersionedFields<F> {
    version: u32,
    #[serde(rename = "loop")]
    facts: F,
}

/// Why the state of a loop cannot be restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TurnRestoreError {
    /// Use a newer program, or fold the session again.
    #[error("the loop state has version {found}, but this program reads version {VERSION}")]
    Version {
        /// The version found.
        found: u32,
    },
    /// Fold the session again.
    #[error("the loop state is corrupt")]
    Unreadable(#[source] JsonError),
    /// Fold the session again.
    #[error("found turn {found}, expected turn {expected}")]
    OutOfOrder {
        /// The expected turn.
        expected: u64,
        /// The turn found.
        found: u64,
    },
}

impl TurnState {
    /// Returns the complete state as plain data, for [`restore`](Self::restore).
    pub fn to_json(&self) -> Json {
        Json::of(self)
    }

    /// Restores a state from [`to_json`](Self::to_json).
    pub fn restore(kept: &Json) -> Result<Self, TurnRestoreError> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        // The version is read by itself, because a newer version's data may not parse at all.
        let Version { version: found } = kept.read().map_err(TurnRestoreError::Unreadable)?;
        if found != VERSION {
            return Err(TurnRestoreError::Version { found });
        }
        let kept: VersionedFields<Facts> = kept.read().map_err(TurnRestoreError::Unreadable)?;
        let mut state = Self { facts: kept.facts, places: imbl::OrdMap::new() };
        for (place, turn) in state.facts.turns.iter().enumerate() {
            let (expected, found) = (place as u64 + 1, turn.number());
            if expected != found {
                return Err(TurnRestoreError::OutOfOrder { expected, found });
            }
            let calls = turn.calls.iter().enumerate();
            state.places.extend(calls.map(|(at, call)| (call.call_id.clone(), (place, at))));
        }
        Ok(state)
    }
}

impl Serialize for TurnState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        VersionedFields { version: VERSION, facts: &self.facts }.serialize(serializer)
    }
}
