//! Leases: which process may write to a session.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The number of a lease. It grows with every lease of a session, and only the latest may write.
///
/// A session's name never gets the same epoch twice, not even after the session was removed and
/// created again: a writer that slept through both is still fenced.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Epoch(pub u64);

/// The process that holds a lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Holder {
    /// What it does, for people: `threadfold watch`.
    pub what: String,
    /// The machine it runs on.
    #[serde(default)]
    pub host: String,
    /// Its process id there.
    #[serde(default)]
    pub process: u32,
    /// When the process started, as the machine counts; process ids are reused.
    #[serde(default)]
    pub started: u64,
    /// The namespace of the process id, because each container has its own; empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Empty if the last holder has released its lease since.
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

/// The right to write to a session, for a limited time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Fences every write: once a newer lease exists, writes under this one are refused.
    pub epoch: Epoch,
    /// The process that holds it.
    pub holder: Holder,
    /// How long it still lasts without renewal, by the store's clock when it answered; zero if it
    /// has expired.
    pub remaining: Duration,
}

impl Lease {
    /// Returns whether the lease had expired when the store answered.
    ///
    /// Its holder can still write and renew until another process acquires the session.
    pub fn is_expired(&self) -> bool {
        self.remaining.is_zero()
    }
}
