//! What is derived from a log and kept to save work.

use bytes::Bytes;

/// A state of a session at one place of its log, as bytes that only the writer understands.
///
/// It can be deleted at any time, and made again from the records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSnapshot {
    /// Which converters and which reducer made it.
    pub generation: u32,
    /// The last record that is in it.
    pub seq: u64,
    /// What it holds.
    pub bytes: Bytes,
}

/// What lists show of a session: derived like a snapshot, and small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Which converters and which reducer made it.
    pub generation: u32,
    /// The last record that is in it.
    pub seq: u64,
    /// JSON, as whoever made it understands it.
    pub json: String,
}
