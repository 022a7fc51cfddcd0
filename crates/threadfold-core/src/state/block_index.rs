//! Finds blocks by id, in a few bytes per block.

use imbl::OrdMap;
use xxhash_rust::xxh3::xxh3_64;

use super::conversation::Map;
use super::order::Label;
use crate::id::BlockId;

/// Maps the ids of a conversation's blocks to their labels.
///
/// Only the hash of an id is held, because ids are spilled with their blocks. Whoever looks one up
/// compares it with the id of the block that is found.
#[derive(Clone, Default)]
pub(super) struct BlockIndex {
    labels: Labels,
    /// Ids whose hash another block has.
    exceptions: Map<BlockId, Label>,
}

impl BlockIndex {
    /// Returns the label of the block that has the hash of this id, and usually the id.
    pub(super) fn usual(&self, id: &BlockId) -> Option<Label> {
        self.labels.get(hash(id))
    }

    /// Returns the label of a block whose hash another block has.
    pub(super) fn exceptional(&self, id: &BlockId) -> Option<Label> {
        if self.exceptions.is_empty() {
            return None;
        }
        self.exceptions.get(id).copied()
    }

    /// Adds a block that is not there.
    pub(super) fn insert(&mut self, id: &BlockId, label: Label) {
        if !self.labels.insert_new(hash(id), label) {
            self.exceptions.insert(id.clone(), label);
        }
    }

    /// Removes the block with this label.
    pub(super) fn remove(&mut self, id: &BlockId, label: Label) {
        if self.labels.get(hash(id)) == Some(label) {
            self.labels.remove(hash(id));
        } else {
            self.exceptions.remove(id);
        }
    }
}

/// The labels by hash. A tree allocates for many entries at once, and most subagents have few
/// blocks.
#[derive(Clone)]
enum Labels {
    /// At most [`FEW`], in no order.
    Few(Vec<(u64, Label)>),
    Many(OrdMap<u64, Label>),
}

/// How many entries are copied and searched as fast as a tree.
const FEW: usize = 8;

impl Default for Labels {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Labels {
    fn get(&self, hash: u64) -> Option<Label> {
        match self {
            Self::Few(few) => few.iter().find(|it| it.0 == hash).map(|it| it.1),
            Self::Many(many) => many.get(&hash).copied(),
        }
    }

    /// Adds a hash. Returns false if another block has it: that one stays.
    fn insert_new(&mut self, hash: u64, label: Label) -> bool {
        match self {
            Self::Few(few) if few.iter().any(|it| it.0 == hash) => return false,
            Self::Few(few) if few.len() < FEW => {
                few.reserve_exact(1);
                few.push((hash, label));
            }
            Self::Few(few) => {
                let many = few.drain(..).chain([(hash, label)]).collect();
                *self = Self::Many(many);
            }
            // Equal hashes are so rare that looking first would cost more than taking it back.
            Self::Many(many) => {
                if let Some(first) = many.insert(hash, label) {
                    many.insert(hash, first);
                    return false;
                }
            }
        }
        true
    }

    fn remove(&mut self, hash: u64) {
        match self {
            Self::Few(few) => few.retain(|it| it.0 != hash),
            Self::Many(many) => drop(many.remove(&hash)),
        }
    }
}

/// Ids with equal hashes can be made on purpose; they only become exceptions.
fn hash(id: &BlockId) -> u64 {
    xxh3_64(id.as_str().as_bytes())
}
