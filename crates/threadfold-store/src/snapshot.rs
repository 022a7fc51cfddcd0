//! Data that is derived from a log: snapshots and summaries.

mod cutter;

use async_trait::async_trait;
use bytes::Bytes;

use crate::blob::BlobHash;
use crate::error::StoreError;

pub use cutter::SnapshotCutter;

/// A session's state at one place of its log, as bytes that only their writer understands.
///
/// It can be deleted at any time, and rebuilt from the records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSnapshot {
    /// The version of the converters and the reducer that made it.
    pub generation: u32,
    /// The last record that it covers.
    pub seq: u64,
    /// The state.
    pub bytes: Bytes,
}

/// The pieces of a stored snapshot, to be read one by one with
/// [`blob`](crate::BlobStore::blob).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotPieces {
    /// The version of the converters and the reducer that made it.
    pub generation: u32,
    /// The last record that it covers.
    pub seq: u64,
    /// The hash and the length of each piece, in order.
    pub pieces: Vec<(BlobHash, u64)>,
}

/// The end of a stored snapshot, for readers that find its other pieces by what its last one says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotEnd {
    /// The version of the converters and the reducer that made it.
    pub generation: u32,
    /// The last record that it covers.
    pub seq: u64,
    /// The hash of its last piece; `None` if it is empty.
    pub last: Option<BlobHash>,
}

/// A piece of a snapshot, named by its hash.
///
/// A [`SnapshotCutter`] cuts equal content into equal pieces, and a store deduplicates them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotPiece {
    hash: BlobHash,
    bytes: Bytes,
}

impl SnapshotPiece {
    /// Returns the piece with this content.
    pub fn new(bytes: Bytes) -> Self {
        Self { hash: BlobHash::of(&bytes), bytes }
    }

    /// Returns its hash.
    pub fn hash(&self) -> BlobHash {
        self.hash
    }

    /// Returns its content.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

/// Writes a snapshot to a store, piece by piece.
///
/// The snapshot becomes visible when it is finished; dropping the writer before that leaves none.
#[async_trait]
pub trait SnapshotWriter: Send {
    /// Adds the next piece.
    async fn add(&mut self, piece: SnapshotPiece) -> Result<(), StoreError>;

    /// Adds a piece of an earlier snapshot by its hash, without its bytes.
    fn add_known(&mut self, piece: BlobHash);

    /// Stores the snapshot; it replaces one of the same generation and place.
    ///
    /// Refused with [`StoreError::MissingPiece`] if a piece that was added by its hash has been garbage
    /// collected.
    async fn finish(self: Box<Self>) -> Result<(), StoreError>;
}

/// What lists show of a session: derived like a snapshot, but small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The version of the converters and the reducer that made it.
    pub generation: u32,
    /// The last record that it covers.
    pub seq: u64,
    /// JSON that only its writer understands.
    pub json: String,
}

impl Summary {
    /// Returns whether it is at least as new as a summary of this generation and record.
    pub fn replaces(&self, generation: u32, seq: u64) -> bool {
        (self.generation, self.seq) >= (generation, seq)
    }
}
