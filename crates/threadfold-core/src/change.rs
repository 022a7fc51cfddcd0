//! The changes that turn the state before a step into the state after it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::block::{Block, BlockStatus};
use crate::event::TextField;
use crate::id::{BlockId, ConversationId};
use crate::state::SubagentHeader;

mod apply;
mod read;

pub use apply::apply_changes;

/// One change that a step made to the state, small enough to send and to redraw from.
///
/// A conversation is identified by the name that its blocks carry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase", try_from = "read::ChangeFields")]
#[non_exhaustive]
pub enum Change {
    /// A block was added.
    #[serde(rename = "block:inserted")]
    BlockInserted {
        /// The conversation.
        conversation_id: ConversationId,
        /// The preceding block; `None` if the block is first.
        after: Option<BlockId>,
        /// The block.
        block: Arc<Block>,
    },
    /// A block's content was replaced.
    #[serde(rename = "block:replaced")]
    BlockReplaced {
        /// The conversation.
        conversation_id: ConversationId,
        /// The block.
        block: Arc<Block>,
    },
    /// Only the status or the flags of a block changed.
    #[serde(rename = "block:marked")]
    BlockMarked {
        /// The conversation.
        conversation_id: ConversationId,
        /// The block.
        block_id: BlockId,
        /// The new status.
        status: BlockStatus,
        /// The end of a turn closed it.
        interrupted: bool,
        /// It is off the active path.
        inactive: bool,
    },
    /// A block moved within its conversation.
    #[serde(rename = "block:moved")]
    BlockMoved {
        /// The conversation.
        conversation_id: ConversationId,
        /// The block.
        block_id: BlockId,
        /// The preceding block; `None` if the block is first.
        after: Option<BlockId>,
    },
    /// A block was removed.
    #[serde(rename = "block:removed")]
    BlockRemoved {
        /// The conversation.
        conversation_id: ConversationId,
        /// The block.
        block_id: BlockId,
    },
    /// Text was appended to a block.
    #[serde(rename = "text:appended")]
    TextAppended {
        /// The conversation.
        conversation_id: ConversationId,
        /// The block.
        block_id: BlockId,
        /// The text field.
        field: TextField,
        /// The appended text.
        text: Arc<str>,
    },
    /// A subagent was added, or its header changed.
    #[serde(rename = "subagent:changed")]
    SubagentChanged {
        /// The subagent's conversation.
        conversation_id: ConversationId,
        /// Everything about the subagent except its blocks.
        subagent: SubagentHeader,
    },
    /// A subagent's conversation is shown under another name.
    #[serde(rename = "conversation:renamed")]
    ConversationRenamed {
        /// The old name.
        from: ConversationId,
        /// The new name.
        to: ConversationId,
    },
    /// Two subagents turned out to be the same one.
    #[serde(rename = "subagent:united")]
    SubagentUnited {
        /// The conversation that no longer exists.
        conversation_id: ConversationId,
        /// The conversation that remains.
        into: ConversationId,
        /// All blocks of the remaining conversation, in order.
        blocks: Vec<Arc<Block>>,
    },
}
