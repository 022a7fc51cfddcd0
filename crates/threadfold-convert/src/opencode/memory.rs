//! What the converter remembers between records, shared by the sources of one session.
//!
//! It is serialized into snapshots, so the JSON names of fields never change.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use threadfold_core::{BlockId, ConversationId, Placement};

/// What the converter remembers between records.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Memory {
    /// The session whose conversation is the main one.
    pub(super) root: Option<Arc<str>>,
    /// The parent of each session that has one.
    #[serde(with = "crate::pairs")]
    pub(super) parents: BTreeMap<Arc<str>, Arc<str>>,
    #[serde(with = "crate::pairs")]
    pub(super) messages: BTreeMap<Arc<str>, Message>,
    pub(super) stream: Side,
    pub(super) files: Side,
}

/// What one kind of source has reported so far.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Side {
    /// The blocks of each conversation, sorted by message and part, with each result after its call.
    ///
    /// OpenCode's ids sort by time, so the order follows from the ids, in whatever order records
    /// arrive.
    #[serde(with = "order")]
    pub(super) order: BTreeMap<ConversationId, BTreeMap<Key, BlockId>>,
    /// Texts that are still streaming.
    #[serde(with = "crate::pairs")]
    pub(super) open: BTreeMap<BlockId, OpenText>,
    /// The open step of each message.
    #[serde(with = "crate::pairs")]
    pub(super) steps: BTreeMap<Arc<str>, Arc<str>>,
    /// Sessions that are reverted, with the message they are reverted to.
    #[serde(with = "crate::pairs")]
    pub(super) reverted: BTreeMap<Arc<str>, Arc<str>>,
}

/// The sort key of a block: its message, its part, and 0 for the part's own block or 1 for its
/// result.
pub(super) type Key = (Arc<str>, Arc<str>, u8);

/// What is remembered about one message.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Message {
    pub(super) session: Arc<str>,
    pub(super) is_user: bool,
    pub(super) model: Option<Arc<str>>,
    pub(super) created: Option<Arc<str>>,
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

impl Side {
    /// Remembers a block under its key, and returns its place among the others.
    pub(super) fn place(
        &mut self,
        conversation: &ConversationId,
        key: Key,
        id: &BlockId,
    ) -> Placement {
        let order = self.order.entry(conversation.clone()).or_default();
        let before = order.range(..key.clone()).next_back().map(|(_, id)| id.clone());
        order.insert(key, id.clone());
        before.map_or(Placement::First, Placement::After)
    }
}

/// Serializes the orders as one flat list: keys of JSON objects can only be text.
mod order {
    use serde::{Deserializer, Serializer};

    use super::*;

    type Orders = BTreeMap<ConversationId, BTreeMap<Key, BlockId>>;

    pub(super) fn serialize<S: Serializer>(all: &Orders, serializer: S) -> Result<S::Ok, S::Error> {
        let blocks = all.iter().flat_map(|(conversation, order)| {
            order.iter().map(move |(key, block)| (conversation, key, block))
        });
        serializer.collect_seq(blocks.collect::<Vec<_>>())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Orders, D::Error> {
        let mut all = Orders::new();
        for (conversation, key, block) in
            Vec::<(ConversationId, Key, BlockId)>::deserialize(deserializer)?
        {
            all.entry(conversation).or_default().insert(key, block);
        }
        Ok(all)
    }
}
