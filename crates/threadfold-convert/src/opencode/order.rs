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
    blocks: BTreeMap<Key, BlockId>,
    keys: BTreeMap<BlockId, Key>,
}

impl BlockOrder {
    /// Adds a block or moves it, and returns the block before it.
    pub(super) fn place(&mut self, key: Key, id: &BlockId) -> Option<BlockId> {
        if self.keys.get(id) != Some(&key) {
            self.remove(id);
            if let Some(other) = self.blocks.insert(key.clone(), id.clone()) {
                self.keys.remove(&other);
            }
            self.keys.insert(id.clone(), key.clone());
        }
        self.blocks.range(..key).next_back().map(|(_, id)| id.clone())
    }

    pub(super) fn remove(&mut self, id: &BlockId) {
        if let Some(key) = self.keys.remove(id) {
            self.blocks.remove(&key);
        }
    }

    pub(super) fn key_of(&self, id: &BlockId) -> Option<&Key> {
        self.keys.get(id)
    }

    pub(super) fn last(&self) -> Option<&BlockId> {
        self.blocks.last_key_value().map(|(_, id)| id)
    }

    /// Returns the last block before a message.
    pub(super) fn before_message(&self, message: &str) -> Option<&BlockId> {
        let first: Key = (message.into(), "".into(), 0);
        self.blocks.range(..first).next_back().map(|(_, id)| id)
    }

    /// Returns the blocks from a message on.
    pub(super) fn since_message(
        &self,
        message: &str,
    ) -> impl DoubleEndedIterator<Item = (&Key, &BlockId)> {
        let first: Key = (message.into(), "".into(), 0);
        self.blocks.range(first..).inspect(|_| visit())
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
        let last = self.blocks.range(first..end).next_back();
        last.and_then(|(key, _)| key.1.parse::<u64>().ok()).map_or(0, |last| last + 1)
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
            order.blocks.iter().map(move |(key, block)| (conversation, key, block))
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
