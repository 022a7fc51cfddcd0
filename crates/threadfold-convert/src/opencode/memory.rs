//! What the converter remembers between records, shared by the sources of one session.
//!
//! It is serialized into snapshots, so the JSON names of fields never change.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use threadfold_core::{BlockId, ConversationId, Json, Placement};

use super::order::{BlockOrder, Key, OpenTexts};

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
    /// The call that started each subagent of version 2, with its conversation: the end of one in
    /// the background does not name it.
    #[serde(default, with = "crate::pairs", skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) calls: BTreeMap<Arc<str>, (ConversationId, Arc<str>)>,
    /// The stream has reported that the main session works, and not yet that it stopped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_busy: bool,
    /// The folder of the main session of version 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) folder: Option<Arc<str>>,
}

/// What one kind of source has reported so far.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Side {
    /// The blocks of each conversation.
    #[serde(with = "super::order::flat")]
    pub(super) order: BTreeMap<ConversationId, BlockOrder>,
    /// Texts that are still streaming.
    pub(super) open: OpenTexts,
    /// The open step of each message.
    #[serde(with = "crate::pairs")]
    pub(super) steps: BTreeMap<Arc<str>, Arc<str>>,
    /// Sessions that are reverted, with the message they are reverted to.
    #[serde(with = "crate::pairs")]
    pub(super) reverted: BTreeMap<Arc<str>, Arc<str>>,
    /// The position of each message of version 2.
    #[serde(default, with = "crate::pairs", skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) places: BTreeMap<Arc<str>, Arc<str>>,
    /// The last position in each conversation of version 2.
    #[serde(default, with = "crate::pairs", skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) tails: BTreeMap<ConversationId, Arc<str>>,
    /// Calls and thoughts of version 2 that have not ended, by block.
    #[serde(default, with = "crate::pairs", skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) items: BTreeMap<BlockId, OpenItem>,
    /// Commands and compactions of version 2 that have not ended, by what their end names.
    #[serde(default, with = "crate::pairs", skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) begun: BTreeMap<Arc<str>, OpenMessage>,
    /// What waits in the inboxes of version 2, by id.
    #[serde(default, with = "crate::pairs", skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) inbox: BTreeMap<Arc<str>, WaitingItem>,
    /// The session that the last stored record named: messages of the API do not name theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) session: Option<Arc<str>>,
}

/// A call or a thought that has not ended; its end does not repeat what its start reported.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OpenItem {
    /// The tool of a call.
    pub(super) name: Arc<str>,
    pub(super) input: Option<Json>,
    pub(super) created: Option<f64>,
    pub(super) ran: Option<f64>,
}

/// A message whose end does not name it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OpenMessage {
    pub(super) id: Arc<str>,
    pub(super) created: Option<f64>,
}

/// Something that waits in an inbox.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WaitingItem {
    pub(super) kind: Arc<str>,
    pub(super) payload: Json,
}

/// What is remembered about one message.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Message {
    pub(super) session: Arc<str>,
    pub(super) is_user: bool,
    pub(super) model: Option<Arc<str>>,
    pub(super) created: Option<Arc<str>>,
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
        order.place(key, id).map_or(Placement::First, Placement::After)
    }
}
