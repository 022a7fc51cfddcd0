//! Who may write to a session.

use std::fmt;
use threadfold_fold::Timestamp;

use serde::{Deserialize, Serialize};

/// A number that grows with every lease of a session; the latest is the one that may write.
///
/// It is never given out again under the session's name, also not after the session was removed.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Epoch(pub u64);

/// Who holds a lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Holder {
    /// What it does, in words: `threadfold watch`.
    pub what: String,
    /// The machine it runs on.
    #[serde(default)]
    pub host: String,
    /// Its process there.
    #[serde(default)]
    pub process: u32,
    /// A mark of that process, for numbers are used again: when it began, as the machine says.
    #[serde(default)]
    pub started: u64,
    /// Within what its number holds, for each container counts its own; empty if it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Whoever was there has let go since.
        f.write_str(if self.what.is_empty() { "another process" } else { &self.what })?;
        if self.process != 0 {
            write!(f, ", process {}", self.process)?;
        }
        if !self.host.is_empty() {
            write!(f, " on {}", self.host)?;
        }
        Ok(())
    }
}

/// The right to write to a session, for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Fences every write: with a newer one given out, this one's writes are refused.
    pub epoch: Epoch,
    /// Who holds it.
    pub holder: Holder,
    /// Until when it holds unless it is renewed.
    pub until: Timestamp,
}
