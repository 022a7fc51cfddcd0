//! What the converter remembers between records, shared by the sources of one session.

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

/// What one kind of source has said so far.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Side {
    /// The blocks of each conversation in their order: by message, part, and a result behind its
    /// call.
    #[serde(with = "order")]
    pub(super) order: BTreeMap<ConversationId, BTreeMap<Key, BlockId>>,
    /// Texts that are not at their end, with their length so far.
    #[serde(with = "crate::pairs")]
    pub(super) open: BTreeMap<BlockId, OpenText>,
    /// The step that each message is in.
    #[serde(with = "crate::pairs")]
    pub(super) steps: BTreeMap<Arc<str>, Arc<str>>,
    /// Sessions that are taken back to a message.
    #[serde(with = "crate::pairs")]
    pub(super) reverted: BTreeMap<Arc<str>, Arc<str>>,
}

/// Where a block stands: its message, its part, and what of the part it is.
pub(super) type Key = (Arc<str>, Arc<str>, u8);

/// What is remembered of a message.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Message {
    pub(super) session: Arc<str>,
    pub(super) is_user: bool,
    pub(super) model: Option<Arc<str>>,
    pub(super) created: Option<Arc<str>>,
}

/// A text that is not at its end.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OpenText {
    pub(super) conversation: ConversationId,
    pub(super) message: Arc<str>,
    pub(super) length: u64,
}

impl Side {
    /// Remembers a block in its place, and returns where that is.
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

/// The orders of the conversations as one list of blocks with their places.
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
