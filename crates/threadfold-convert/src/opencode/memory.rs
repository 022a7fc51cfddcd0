//! What the converter remembers between records, shared by the sources of one session.

use std::collections::BTreeMap;
use std::sync::Arc;

use threadfold_core::{BlockId, ConversationId, Place};

/// What the converter remembers between records.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    /// The session whose conversation is the main one.
    pub(super) root: Option<Arc<str>>,
    /// The parent of each session that has one.
    pub(super) parents: BTreeMap<Arc<str>, Arc<str>>,
    pub(super) messages: BTreeMap<Arc<str>, Message>,
    pub(super) stream: Side,
    pub(super) files: Side,
}

/// What one kind of source has said so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Side {
    /// The blocks of each conversation in their order: by message, part, and a result behind its
    /// call.
    pub(super) order: BTreeMap<ConversationId, BTreeMap<Key, BlockId>>,
    /// Texts that are not at their end, with their length so far.
    pub(super) open: BTreeMap<BlockId, OpenText>,
    /// The step that each message is in.
    pub(super) steps: BTreeMap<Arc<str>, Arc<str>>,
    /// Sessions that are taken back to a message.
    pub(super) reverted: BTreeMap<Arc<str>, Arc<str>>,
}

/// Where a block stands: its message, its part, and what of the part it is.
pub(super) type Key = (Arc<str>, Arc<str>, u8);

/// What is remembered of a message.
#[derive(Clone, Debug, Default)]
pub(super) struct Message {
    pub(super) session: Arc<str>,
    pub(super) is_user: bool,
    pub(super) model: Option<Arc<str>>,
    pub(super) created: Option<Arc<str>>,
}

/// A text that is not at its end.
#[derive(Clone, Debug)]
pub(super) struct OpenText {
    pub(super) conversation: ConversationId,
    pub(super) message: Arc<str>,
    pub(super) length: u64,
}

impl Side {
    /// Remembers a block in its place, and returns where that is.
    pub(super) fn place(&mut self, conversation: &ConversationId, key: Key, id: &BlockId) -> Place {
        let order = self.order.entry(conversation.clone()).or_default();
        let before = order.range(..key.clone()).next_back().map(|(_, id)| id.clone());
        order.insert(key, id.clone());
        before.map_or(Place::First, Place::After)
    }
}
