//! The order of blocks, and the texts that are open: each is found by what is asked for, so that no
//! record costs more because there are many.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use threadfold_core::work::visit;
use threadfold_core::{BlockId, ConversationId};

/// The sort key of a block: its message, its part, and 0 for the part's own block or 1 for its
/// result.
pub(super) type Key = (Arc<str>, Arc<str>, u8);

/// The blocks of one conversation, sorted by message and part, with each result after its call.
///
/// OpenCode's ids sort by time, so the order follows from the ids, in whatever order records
/// arrive.
#[derive(Clone, Debug, Default)]
pub(super) struct BlockOrder {
    /// All blocks, as long as they are few. A session may have very many subagents with one block
    /// each, and a tree allocates for a dozen entries at once.
    few: Vec<(Key, BlockId)>,
    many: Option<Box<ManyBlocks>>,
}

/// The blocks of a conversation that has more than a few.
#[derive(Clone, Debug, Default)]
struct ManyBlocks {
    blocks: BTreeMap<Key, BlockId>,
    keys: BTreeMap<BlockId, Key>,
}

/// How many blocks are searched as fast as a tree.
const FEW: usize = 8;

impl BlockOrder {
    /// Adds a block or moves it, and returns the block before it.
    pub(super) fn place(&mut self, key: Key, id: &BlockId) -> Option<BlockId> {
        if self.key_of(id) != Some(&key) {
            self.remove(id);
            self.insert(key.clone(), id.clone());
        }
        self.before(&key).cloned()
    }

    /// Adds a block in place of the one with this key.
    fn insert(&mut self, key: Key, id: BlockId) {
        if let Some(many) = &mut self.many {
            return many.insert(key, id);
        }
        match self.few.binary_search_by(|it| it.0.cmp(&key)) {
            Ok(at) => self.few[at].1 = id,
            Err(at) => {
                self.few.reserve_exact(1);
                self.few.insert(at, (key, id));
            }
        }
        if self.few.len() > FEW {
            let mut many = ManyBlocks::default();
            let few = std::mem::take(&mut self.few);
            few.into_iter().for_each(|(key, id)| many.insert(key, id));
            self.many = Some(Box::new(many));
        }
    }

    pub(super) fn remove(&mut self, id: &BlockId) {
        match &mut self.many {
            None => self.few.retain(|it| it.1 != *id),
            Some(many) => {
                if let Some(key) = many.keys.remove(id) {
                    many.blocks.remove(&key);
                }
            }
        }
    }

    pub(super) fn key_of(&self, id: &BlockId) -> Option<&Key> {
        match &self.many {
            None => self.few.iter().find(|it| it.1 == *id).map(|it| &it.0),
            Some(many) => many.keys.get(id),
        }
    }

    pub(super) fn last(&self) -> Option<&BlockId> {
        match &self.many {
            None => self.few.last().map(|it| &it.1),
            Some(many) => many.blocks.last_key_value().map(|(_, id)| id),
        }
    }

    /// Returns all blocks in order.
    fn iter(&self) -> impl DoubleEndedIterator<Item = (&Key, &BlockId)> {
        let many = self.many.iter().flat_map(|it| it.blocks.iter());
        self.few.iter().map(|(key, id)| (key, id)).chain(many)
    }

    /// Returns the last block before a key.
    fn before(&self, key: &Key) -> Option<&BlockId> {
        let few = &self.few[..self.few.partition_point(|it| it.0 < *key)];
        let many = || self.many.as_ref()?.blocks.range(..key).next_back();
        few.last().map(|it| &it.1).or_else(|| many().map(|(_, id)| id))
    }

    /// Returns the blocks from a key on.
    fn since(&self, key: Key) -> impl DoubleEndedIterator<Item = (&Key, &BlockId)> {
        let few = &self.few[self.few.partition_point(|it| it.0 < key)..];
        let many = self.many.iter().flat_map(move |it| it.blocks.range(key.clone()..));
        few.iter().map(|(key, id)| (key, id)).chain(many)
    }

    /// Returns the last block before a message.
    pub(super) fn before_message(&self, message: &str) -> Option<&BlockId> {
        self.before(&(message.into(), "".into(), 0))
    }

    /// Returns the blocks from a message on.
    pub(super) fn since_message(
        &self,
        message: &str,
    ) -> impl DoubleEndedIterator<Item = (&Key, &BlockId)> {
        self.since((message.into(), "".into(), 0)).inspect(|_| visit())
    }

    /// Returns the blocks of a message.
    pub(super) fn of_message<'a>(&'a self, message: &'a str) -> impl Iterator<Item = &'a BlockId> {
        self.since_message(message).take_while(move |it| *it.0.0 == *message).map(|it| it.1)
    }

    /// Returns a number for a part of a message, above all that were given.
    pub(super) fn next_number(&self, message: &str) -> u64 {
        // Ids of parts and the end of a message sort after all digits.
        let (first, end): (Key, Key) =
            ((message.into(), "".into(), 0), (message.into(), ":".into(), 0));
        let last = match &self.many {
            None => self.few.iter().map(|it| &it.0).rfind(|key| (&first..&end).contains(key)),
            Some(many) => many.blocks.range(first..end).next_back().map(|(key, _)| key),
        };
        last.and_then(|key| key.1.parse::<u64>().ok()).map_or(0, |last| last + 1)
    }
}

impl ManyBlocks {
    fn insert(&mut self, key: Key, id: BlockId) {
        if let Some(other) = self.blocks.insert(key.clone(), id.clone()) {
            self.keys.remove(&other);
        }
        self.keys.insert(id, key);
    }
}

/// Serializes the orders as one flat list: keys of JSON objects can only be text.
pub(super) mod flat {
    use super::*;

    type Orders = BTreeMap<ConversationId, BlockOrder>;

    pub(in super::super) fn serialize<S: Serializer>(
        all: &Orders,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let blocks = all.iter().flat_map(|(conversation, order)| {
            order.iter().map(move |(key, block)| (conversation, key, block))
        });
        serializer.collect_seq(blocks.collect::<Vec<_>>())
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Orders, D::Error> {
        let mut all = Orders::new();
        for (conversation, key, block) in
            Vec::<(ConversationId, Key, BlockId)>::deserialize(deserializer)?
        {
            all.entry(conversation).or_default().place(key, &block);
        }
        Ok(all)
    }
}

/// A text that is still streaming.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OpenText {
    pub(super) conversation: ConversationId,
    pub(super) message: Arc<str>,
    /// How many bytes were emitted: the offset of the next delta.
    pub(super) length: u64,
}

/// The texts that are still streaming.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenTexts {
    texts: BTreeMap<BlockId, OpenText>,
    of_message: BTreeMap<Arc<str>, BTreeSet<BlockId>>,
    of_conversation: BTreeMap<ConversationId, BTreeSet<BlockId>>,
}

impl OpenTexts {
    pub(super) fn insert(&mut self, id: BlockId, text: OpenText) {
        self.remove(&id);
        self.of_message.entry(text.message.clone()).or_default().insert(id.clone());
        self.of_conversation.entry(text.conversation.clone()).or_default().insert(id.clone());
        self.texts.insert(id, text);
    }

    pub(super) fn get_mut(&mut self, id: &BlockId) -> Option<&mut OpenText> {
        self.texts.get_mut(id)
    }

    /// Notes that a text grows, and returns its block, its conversation and its old length.
    pub(super) fn grow(&mut self, id: &str, by: usize) -> Option<(BlockId, ConversationId, u64)> {
        let block = self.texts.get_key_value(id)?.0.clone();
        let text = self.texts.get_mut(id)?;
        let length = text.length;
        text.length += by as u64;
        Some((block, text.conversation.clone(), length))
    }

    pub(super) fn remove(&mut self, id: &BlockId) -> Option<OpenText> {
        let text = self.texts.remove(id)?;
        remove_from(&mut self.of_message, &text.message, id);
        remove_from(&mut self.of_conversation, &text.conversation, id);
        Some(text)
    }

    /// Removes the texts of a message, and returns them.
    pub(super) fn take_message(&mut self, message: &Arc<str>) -> Vec<(BlockId, OpenText)> {
        let ids = self.of_message.get(message).cloned().unwrap_or_default();
        self.take(ids)
    }

    /// Removes the texts of a conversation, and returns them.
    pub(super) fn take_conversation(
        &mut self,
        conversation: &ConversationId,
    ) -> Vec<(BlockId, OpenText)> {
        let ids = self.of_conversation.get(conversation).cloned().unwrap_or_default();
        self.take(ids)
    }

    /// Removes all texts, and returns them.
    pub(super) fn take_all(&mut self) -> Vec<(BlockId, OpenText)> {
        std::mem::take(self).texts.into_iter().collect()
    }

    fn take(&mut self, ids: BTreeSet<BlockId>) -> Vec<(BlockId, OpenText)> {
        let take = |id: BlockId| {
            visit();
            self.remove(&id).map(|text| (id, text))
        };
        ids.into_iter().filter_map(take).collect()
    }
}

fn remove_from<K: Ord>(sets: &mut BTreeMap<K, BTreeSet<BlockId>>, key: &K, id: &BlockId) {
    if let Some(set) = sets.get_mut(key) {
        set.remove(id);
        if set.is_empty() {
            sets.remove(key);
        }
    }
}

impl Serialize for OpenTexts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        crate::pairs::serialize(&self.texts, serializer)
    }
}

impl<'de> Deserialize<'de> for OpenTexts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut texts = Self::default();
        for (id, text) in Vec::<(BlockId, OpenText)>::deserialize(deserializer)? {
            texts.insert(id, text);
        }
        Ok(texts)
    }
}
