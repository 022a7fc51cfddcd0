//! What is derived from a log and kept to save work.

mod cutter;

use async_trait::async_trait;
use bytes::Bytes;

use crate::blob::BlobHash;
use crate::error::StoreError;

pub use cutter::SnapshotCutter;

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

/// A piece of a snapshot, named by what it holds.
///
/// Snapshots that are cut by a [`SnapshotCutter`] have the same pieces wherever they hold the same,
/// and each is kept once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotPiece {
    hash: BlobHash,
    bytes: Bytes,
}

impl SnapshotPiece {
    /// Returns the piece that holds this.
    pub fn new(bytes: Bytes) -> Self {
        Self { hash: BlobHash::of(&bytes), bytes }
    }

    /// Returns its name.
    pub fn hash(&self) -> BlobHash {
        self.hash
    }

    /// Returns what it holds.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

/// A snapshot on its way into a store, piece after piece.
///
/// Nobody sees it before it is finished; one that is dropped before that was never there.
#[async_trait]
pub trait SnapshotWriter: Send {
    /// Adds the next piece.
    async fn add(&mut self, piece: SnapshotPiece) -> Result<(), StoreError>;

    /// Adds, as the next piece, one that was added to a snapshot before.
    fn add_known(&mut self, piece: BlobHash);

    /// Keeps the snapshot, instead of one of the same generation and place.
    ///
    /// Refused with [`StoreError::NoPiece`] if the store does not have one of its pieces any more.
    async fn finish(self: Box<Self>) -> Result<(), StoreError>;
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

impl Summary {
    /// Says whether it tells more than one of this generation, up to this record, or as much.
    pub fn replaces(&self, generation: u32, seq: u64) -> bool {
        (self.generation, self.seq) >= (generation, seq)
    }
}
