//! What a store writes: contents that are compressed, each named by the hash of what it was.

use threadfold_fold::Timestamp;

use super::compress::compress;
use super::packer::Group;
use crate::blob::BlobHash;

/// Content to be stored, compressed if that makes it shorter.
#[derive(Clone, Debug)]
pub struct CompressedContent {
    /// The hash of the content before it was compressed.
    pub hash: BlobHash,
    /// Its length then.
    pub length: usize,
    /// What is stored.
    pub bytes: Vec<u8>,
}

impl CompressedContent {
    /// Compresses content.
    pub fn new(hash: BlobHash, bytes: &[u8]) -> Self {
        Self { hash, length: bytes.len(), bytes: compress(bytes) }
    }
}

/// A [`Group`] whose contents are compressed, ready to be stored.
#[derive(Clone, Debug)]
pub struct CompressedGroup {
    /// The first record.
    pub first: u64,
    /// How many records it has.
    pub count: u64,
    /// When the last record was received.
    pub latest: Timestamp,
    /// The columns that belong to this session.
    pub meta: Vec<u8>,
    /// The escaped records.
    pub content: CompressedContent,
    /// The blobs that the content refers to.
    pub extracts: Vec<CompressedContent>,
}

impl CompressedGroup {
    /// Compresses a group.
    pub fn new(group: Group) -> Self {
        let Group { first, count, latest, meta, hash, content, extracts } = group;
        let extracts =
            extracts.into_iter().map(|it| CompressedContent::new(it.hash, &it.bytes)).collect();
        let content = CompressedContent::new(hash, &content);
        Self { first, count, latest, meta, content, extracts }
    }

    /// Returns the last record.
    pub fn last(&self) -> u64 {
        self.first + self.count - 1
    }

    /// Returns everything that it stores as blobs.
    pub fn contents(&self) -> impl Iterator<Item = &CompressedContent> {
        std::iter::once(&self.content).chain(&self.extracts)
    }
}
