//! Finds blocks by id, in a few bytes per block.
//!
//! All states of a session share one table, which only grows while more than one of them exists.
//! A tree with structural sharing would be copied in part with every new block, and ids are in no
//! order: each copies another part. What the table says is a hint. Another state may have written
//! it, so whoever looks an id up compares it with the id of the block that is found.

use std::collections::hash_map::Entry as Place;
use std::collections::{BTreeSet, hash_map};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xxhash_rust::xxh3::xxh3_64;

use super::conversation::Map;
use super::order::{Label, restored_label};
use super::snapshot::RowPages;
use super::stored_index::StoredIndex;
use crate::id::BlockId;
use crate::work::visit;

/// Maps the ids of a conversation's blocks to their labels.
///
/// Only the hash of an id is held, because ids are spilled with their blocks.
#[derive(Clone, Default)]
pub(super) struct BlockIndex {
    labels: Labels,
    /// The blocks that were there when the conversation was restored.
    restored: Option<Arc<RestoredBlocks>>,
    /// Ids whose hash has too many labels already, in this state or in another.
    exceptions: Map<BlockId, Label>,
}

/// The blocks of a restored conversation, of which nothing is in memory before it is looked at.
pub(super) struct RestoredBlocks {
    pub(super) index: StoredIndex,
    pub(super) rows: Arc<RowPages>,
}

impl BlockIndex {
    /// Returns the index of a restored conversation.
    pub(super) fn of_restored(blocks: RestoredBlocks) -> Self {
        Self { restored: Some(Arc::new(blocks)), ..Self::default() }
    }

    /// Returns the rows of the blocks that were there when the conversation was restored.
    pub(super) fn restored_rows(&self) -> Option<&Arc<RowPages>> {
        self.restored.as_ref().map(|it| &it.rows)
    }

    /// Returns the labels that blocks with the hash of this id have, in this state or in another.
    /// Those on disk come last, and are read if none before them is wanted.
    pub(super) fn usual(&self, id: &BlockId) -> impl Iterator<Item = Label> {
        let hash = hash_of_id(id);
        let on_disk = self.restored.iter().flat_map(move |blocks| {
            let latest = blocks.rows.latest(hash, MOST_LABELS);
            latest.into_iter().chain(blocks.index.get(hash, MOST_LABELS))
        });
        let on_disk = on_disk.map(restored_label);
        self.labels.get(hash).chain(on_disk)
    }

    /// Returns the label of a block that the table has no room for.
    pub(super) fn exceptional(&self, id: &BlockId) -> Option<Label> {
        if self.exceptions.is_empty() {
            return None;
        }
        self.exceptions.get(id).copied()
    }

    /// Adds a block that is not there.
    pub(super) fn insert(&mut self, id: &BlockId, label: Label) {
        if !self.labels.insert(hash_of_id(id), label) {
            self.exceptions.insert(id.clone(), label);
        }
    }

    /// Adds a block that the table on disk has no room for.
    pub(super) fn insert_exception(&mut self, id: BlockId, label: Label) {
        self.exceptions.insert(id, label);
    }

    /// Returns all labels in memory with their hashes, sorted, of this state and of others: a label
    /// may have several.
    pub(super) fn by_label(&self) -> Vec<(Label, u64)> {
        let mut all: Vec<(Label, u64)> = match &self.labels {
            Labels::Few(few) => few.iter().map(|&(hash, label)| (label, hash)).collect(),
            Labels::Many(many) => {
                let many = lock(many);
                let first = many.first.iter().map(|(&hash, &label)| (label, hash));
                first.chain(many.more.iter().map(|&(hash, label)| (label, hash))).collect()
            }
        };
        all.extend(self.exceptions.iter().map(|(id, &label)| (label, hash_of_id(id))));
        all.sort_unstable();
        all
    }

    /// Returns true if most of the table is of other states, where this one has so many blocks.
    pub(super) fn is_stale(&self, blocks: usize) -> bool {
        match &self.labels {
            Labels::Few(_) => false,
            Labels::Many(many) => lock(many).len() > 2 * blocks + MOST_STALE,
        }
    }

    /// Removes the block with this label.
    pub(super) fn remove(&mut self, id: &BlockId, label: Label) {
        self.labels.remove(hash_of_id(id), label);
        if self.exceptional(id) == Some(label) {
            self.exceptions.remove(id);
        }
    }

    /// Forgets what other states wrote: `is_present` returns whether this state has a label.
    pub(super) fn prune(&mut self, is_present: impl Fn(Label) -> bool) {
        if let Labels::Many(many) = &mut self.labels {
            let mut own = Table::default();
            let mut keep = |hash: u64, label: Label| {
                visit();
                if is_present(label) {
                    own.insert(hash, label);
                }
            };
            {
                let all = lock(many);
                all.first.iter().for_each(|(&hash, &label)| keep(hash, label));
                all.more.iter().for_each(|&(hash, label)| keep(hash, label));
            }
            *many = Arc::new(Mutex::new(own));
        }
    }
}

/// How many labels one hash may have. A block that is moved while its old state is held gets one
/// more; ids with equal hashes can be made on purpose.
pub(super) const MOST_LABELS: usize = 4;
/// How many entries of other states are always tolerated.
const MOST_STALE: usize = 1024;

/// Labels that may be the label of a block.
pub(super) type Candidates = arrayvec::IntoIter<Label, MOST_LABELS>;

/// The labels by hash. A table allocates for many entries at once, and most subagents have few
/// blocks.
#[derive(Clone)]
enum Labels {
    /// At most [`FEW`], in no order.
    Few(Vec<(u64, Label)>),
    /// Of all states that were cloned from one another.
    Many(Arc<Mutex<Table>>),
}

/// The labels by hash, of several states.
#[expect(
    clippy::disallowed_types,
    reason = "no result depends on its order: its entries are hints"
)]
#[derive(Default)]
struct Table {
    /// Looked up by a keyed hash of the key, because ids can be chosen so that their hashes are
    /// alike.
    first: hash_map::HashMap<u64, Label>,
    /// Labels of a hash after its first.
    more: BTreeSet<(u64, Label)>,
}

/// How many entries are copied and searched as fast as a table.
const FEW: usize = 8;

impl Default for Labels {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Labels {
    fn get(&self, hash: u64) -> Candidates {
        let found: arrayvec::ArrayVec<Label, MOST_LABELS> = match self {
            Self::Few(few) => few.iter().filter(|it| it.0 == hash).map(|it| it.1).collect(),
            Self::Many(many) => lock(many).get(hash).collect(),
        };
        found.into_iter()
    }

    /// Adds a label, or returns false if the hash has as many as it may have.
    fn insert(&mut self, hash: u64, label: Label) -> bool {
        match self {
            Self::Few(few) if few.iter().filter(|it| it.0 == hash).count() == MOST_LABELS => false,
            Self::Few(few) if few.len() < FEW => {
                few.reserve_exact(1);
                few.push((hash, label));
                true
            }
            Self::Few(few) => {
                let mut many = Table::default();
                // Of one hash there are no more labels here than there may be there.
                for (hash, label) in few.drain(..) {
                    many.insert(hash, label);
                }
                let is_added = many.insert(hash, label);
                *self = Self::Many(Arc::new(Mutex::new(many)));
                is_added
            }
            Self::Many(many) => lock(many).insert(hash, label),
        }
    }

    fn remove(&mut self, hash: u64, label: Label) {
        match self {
            Self::Few(few) => few.retain(|it| *it != (hash, label)),
            Self::Many(many) => {
                // Another state may have the block still.
                if let Some(only) = Arc::get_mut(many) {
                    only.get_mut().unwrap_or_else(PoisonError::into_inner).remove(hash, label);
                }
            }
        }
    }
}

impl Table {
    fn len(&self) -> usize {
        self.first.len() + self.more.len()
    }

    fn get(&self, hash: u64) -> impl Iterator<Item = Label> {
        self.first.get(&hash).copied().into_iter().chain(self.more_of(hash))
    }

    fn more_of(&self, hash: u64) -> impl Iterator<Item = Label> {
        // Two searches are saved for nearly every table.
        let any = (!self.more.is_empty()).then(|| self.more.range((hash, 0)..=(hash, Label::MAX)));
        any.into_iter().flatten().map(|it| it.1)
    }

    /// Adds a label, or returns false if the hash has as many as it may have.
    fn insert(&mut self, hash: u64, label: Label) -> bool {
        match self.first.entry(hash) {
            Place::Vacant(place) => {
                place.insert(label);
                true
            }
            Place::Occupied(place) if *place.get() == label => true,
            Place::Occupied(_) => {
                let is_full = self.more_of(hash).count() == MOST_LABELS - 1;
                self.more.contains(&(hash, label)) || (!is_full && self.more.insert((hash, label)))
            }
        }
    }

    fn remove(&mut self, hash: u64, label: Label) {
        if self.first.get(&hash) == Some(&label) {
            self.first.remove(&hash);
        } else {
            self.more.remove(&(hash, label));
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    // The set is valid after every change, so a panic elsewhere cannot leave it half written.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the hash by which a block is found.
pub(super) fn hash_of_id(id: &BlockId) -> u64 {
    xxh3_64(id.as_str().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> BlockId {
        BlockId::from(format!("b{number}"))
    }

    fn index(blocks: usize) -> BlockIndex {
        let mut index = BlockIndex::default();
        (0..blocks).for_each(|it| index.insert(&id(it), it as Label));
        index
    }

    fn pairs(index: &BlockIndex) -> usize {
        match &index.labels {
            Labels::Few(few) => few.len(),
            Labels::Many(many) => lock(many).len(),
        }
    }

    #[test]
    fn a_removed_block_stays_in_the_table_while_another_state_may_have_it() {
        for blocks in [5, 50] {
            let mut index = index(blocks);
            let other = index.clone();
            index.remove(&id(3), 3);
            assert_eq!(other.usual(&id(3)).collect::<Vec<_>>(), [3]);
            drop(other);
            index.remove(&id(3), 3);
            assert_eq!((index.usual(&id(3)).count(), pairs(&index)), (0, blocks - 1));
        }
    }

    #[test]
    fn a_block_that_moves_while_states_are_held_takes_bounded_room() {
        let mut index = index(50);
        let mut held = Vec::new();
        for label in 100..200 {
            held.push(index.clone());
            let newest = index.exceptional(&id(3)).unwrap_or(label - 1);
            index.remove(&id(3), newest);
            index.insert(&id(3), label);
        }
        assert_eq!(index.usual(&id(3)).count(), MOST_LABELS);
        assert_eq!(index.exceptional(&id(3)), Some(199));
        assert_eq!(pairs(&index), 50 + MOST_LABELS - 1);
    }

    #[test]
    fn pruning_leaves_the_labels_of_this_state() {
        let mut index = index(20);
        let mut other = index.clone();
        (20..4_000).for_each(|it| other.insert(&id(it), it as Label));
        assert!(index.is_stale(20) && !other.is_stale(4_000));
        index.prune(|label| label < 20);
        assert_eq!((pairs(&index), pairs(&other)), (20, 4_000));
        assert_eq!(index.usual(&id(7)).collect::<Vec<_>>(), [7]);
        assert_eq!(index.usual(&id(30)).count(), 0);
    }
}
