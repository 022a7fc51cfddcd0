//! A loop's state as pure data, and back.

use serde::{Deserialize, Serialize, Serializer};

use crate::json::Json;
use crate::turn::state::{Facts, TurnState};

const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Versioned<F> {
    version: u32,
    #[serde(rename = "loop")]
    facts: F,
}

/// Why a kept state of a loop cannot be gone on with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotRestoreError {
    /// Use a newer program, or fold the session again.
    #[error("the loop's state has version {found}, and this program reads version {VERSION}")]
    Version {
        /// The version found.
        found: u32,
    },
    /// Fold the session again.
    #[error("the loop's state cannot be read")]
    Unreadable(#[source] serde_json::Error),
    /// Fold the session again.
    #[error("turn {found} stands where turn {expected} should")]
    OutOfOrder {
        /// The turn that should stand there.
        expected: u64,
        /// The turn that does.
        found: u64,
    },
}

impl TurnState {
    /// Returns all that is known, as pure data; [`restore`](Self::restore) goes on from it.
    pub fn to_json(&self) -> Json {
        Json::of(self)
    }

    /// Returns the state that was kept.
    pub fn restore(kept: &Json) -> Result<Self, SnapshotRestoreError> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let Version { version: found } =
            serde_json::from_str(kept.as_str()).map_err(SnapshotRestoreError::Unreadable)?;
        if found != VERSION {
            return Err(SnapshotRestoreError::Version { found });
        }
        let kept: Versioned<Facts> =
            serde_json::from_str(kept.as_str()).map_err(SnapshotRestoreError::Unreadable)?;
        let mut state = Self { facts: kept.facts, places: imbl::OrdMap::new() };
        for (place, turn) in state.facts.turns.iter().enumerate() {
            let (expected, found) = (place as u64 + 1, turn.number());
            if expected != found {
                return Err(SnapshotRestoreError::OutOfOrder { expected, found });
            }
            let calls = turn.calls.iter().enumerate();
            state.places.extend(calls.map(|(at, call)| (call.call_id.clone(), (place, at))));
        }
        Ok(state)
    }
}

impl Serialize for TurnState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Versioned { version: VERSION, facts: &self.facts }.serialize(serializer)
    }
}
