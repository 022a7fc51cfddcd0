//! What maintenance of a store reports: corruption, size, collected garbage.

use std::fmt;

use threadfold_core::SessionId;

/// Something in a store that is corrupt or inconsistent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What it is about.
    pub subject: Subject,
    /// What is wrong with it, for people.
    pub problem: String,
    /// What repairs it.
    pub remedy: Remedy,
}

impl Finding {
    /// Returns a finding.
    pub fn new(subject: Subject, problem: impl Into<String>, remedy: Remedy) -> Self {
        Self { subject, problem: problem.into(), remedy }
    }
}

/// The part of a store that a [`Finding`] is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Subject {
    /// The store as a whole.
    Store,
    /// A session.
    Session(SessionId),
    /// The records of a session from this one on.
    Records {
        /// The session.
        session: SessionId,
        /// The first record.
        first: u64,
    },
    /// A snapshot of a session.
    Snapshot {
        /// The session.
        session: SessionId,
        /// Its generation.
        generation: u32,
        /// The last record that it covers.
        seq: u64,
    },
    /// The summary of a session.
    Summary {
        /// The session.
        session: SessionId,
        /// The last record that it covers.
        seq: u64,
    },
    /// A blob, by the number that the store gave it.
    Blob(i64),
    /// Rows of a session that is not in the store, by the number that the store had given it.
    LostSession(i64),
}

impl Subject {
    /// Returns the session, if it is about a session that is in the store.
    pub fn session(&self) -> Option<&SessionId> {
        match self {
            Self::Session(session)
            | Self::Records { session, .. }
            | Self::Snapshot { session, .. }
            | Self::Summary { session, .. } => Some(session),
            Self::Store | Self::Blob(_) | Self::LostSession(_) => None,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store => f.write_str("the store"),
            Self::Session(session) => write!(f, "session `{session}`"),
            Self::Records { session, first } => write!(f, "session `{session}`, record {first}"),
            Self::Snapshot { session, seq, .. } => {
                write!(f, "session `{session}`, snapshot at record {seq}")
            }
            Self::Summary { session, seq } => {
                write!(f, "session `{session}`, summary at record {seq}")
            }
            Self::Blob(number) => write!(f, "blob number {number}"),
            Self::LostSession(number) => write!(f, "session number {number}"),
        }
    }
}

/// What repairs a [`Finding`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Remedy {
    /// Rebuild the session's snapshots and summary from its records. Nothing is lost.
    Rebuild,
    /// Restore the session's records from a backup or from the agent's files.
    RestoreSession,
    /// Restore the whole store from a backup, or copy the readable sessions to a new one.
    RestoreStore,
}

/// What a store contains, and the space that it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreSize {
    /// How many sessions there are.
    pub sessions: u64,
    /// How many records their logs have together.
    pub records: u64,
    /// How many blobs there are, including those of groups and snapshots.
    pub blobs: u64,
    /// The size of the blobs' contents.
    pub blob_bytes: u64,
    /// The size of the blobs as they are stored.
    pub stored_blob_bytes: u64,
    /// The size of the store's files.
    pub file_bytes: u64,
    /// How much of the files is free and will be reused.
    pub free_bytes: u64,
}

/// What garbage collection deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GarbageReport {
    /// How many blobs.
    pub blobs: u64,
    /// How many bytes they took.
    pub bytes: u64,
}
