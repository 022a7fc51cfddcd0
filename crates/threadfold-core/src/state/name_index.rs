//! Finds subagents by name, in a few bytes per name.

use imbl::OrdMap;

/// Maps names to subagents.
///
/// Only a digest of each name is held, because names are spilled with their subagents. Nobody can
/// make two names with the same digest, so a digest that is found stands for the name.
#[derive(Clone, Default)]
pub(crate) struct NameIndex {
    indexes: OrdMap<Digest, u32>,
}

/// Half of a BLAKE3 hash, as two numbers.
type Digest = [u64; 2];

impl NameIndex {
    /// Returns the subagent with this name.
    pub(crate) fn get(&self, name: &str) -> Option<usize> {
        // Most sessions have no subagents, and every call is looked up.
        if self.indexes.is_empty() {
            return None;
        }
        self.indexes.get(&digest(name)).map(|&index| index as usize)
    }

    /// Gives a name to a subagent, and takes it from the one that had it.
    pub(crate) fn insert(&mut self, name: &str, index: usize) {
        if let Ok(index) = u32::try_from(index) {
            self.indexes.insert(digest(name), index);
        }
    }

    /// Gives a name to a subagent, unless another one has it.
    pub(crate) fn insert_if_free(&mut self, name: &str, index: usize) {
        if self.get(name).is_none() {
            self.insert(name, index);
        }
    }
}

fn digest(name: &str) -> Digest {
    let hash = blake3::hash(name.as_bytes());
    let (numbers, _) = hash.as_bytes().as_chunks();
    [u64::from_le_bytes(numbers[0]), u64::from_le_bytes(numbers[1])]
}
