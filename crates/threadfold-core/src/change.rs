//! What moved: the small facts that turn the state before a step into the state after it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::block::{Block, BlockStatus};
use crate::event::TextField;
use crate::id::{BlockId, ConversationId};
use crate::state::SubagentHeader;

mod apply;
mod read;

pub use apply::apply_changes;

/// What a step altered in the state, small enough to send and to redraw from.
///
/// A conversation is named as its blocks name it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase", try_from = "read::ChangeFields")]
#[non_exhaustive]
pub enum Change {
    /// A block is new.
    #[serde(rename = "block:inserted")]
    BlockInserted {
        /// Where.
        conversation_id: ConversationId,
        /// The block before it; none if it is the first.
        after: Option<BlockId>,
        /// The block.
        block: Arc<Block>,
    },
    /// A block is another now, in its place.
    #[serde(rename = "block:replaced")]
    BlockReplaced {
        /// Where.
        conversation_id: ConversationId,
        /// The block.
        block: Arc<Block>,
    },
    /// Only a block's status and marks are others now.
    #[serde(rename = "block:marked")]
    BlockMarked {
        /// Where.
        conversation_id: ConversationId,
        /// The block.
        block_id: BlockId,
        /// How far it has come.
        status: BlockStatus,
        /// It was closed by the end of a turn.
        interrupted: bool,
        /// It is off the active path.
        inactive: bool,
    },
    /// A block stands elsewhere now.
    #[serde(rename = "block:moved")]
    BlockMoved {
        /// Where.
        conversation_id: ConversationId,
        /// The block.
        block_id: BlockId,
        /// The block before it; none if it is the first.
        after: Option<BlockId>,
    },
    /// A block is gone.
    #[serde(rename = "block:removed")]
    BlockRemoved {
        /// Where.
        conversation_id: ConversationId,
        /// The block.
        block_id: BlockId,
    },
    /// A block's text grew.
    #[serde(rename = "text:appended")]
    TextAppended {
        /// Where.
        conversation_id: ConversationId,
        /// The block.
        block_id: BlockId,
        /// Which of its texts.
        field: TextField,
        /// The new text.
        text: Arc<str>,
    },
    /// A subagent is new, or something about it is.
    #[serde(rename = "subagent:changed")]
    SubagentChanged {
        /// The subagent's conversation.
        conversation_id: ConversationId,
        /// All that is shown of it but its blocks.
        subagent: SubagentHeader,
    },
    /// A subagent's conversation goes by another name.
    #[serde(rename = "conversation:renamed")]
    ConversationRenamed {
        /// The name until now.
        from: ConversationId,
        /// The name from now on.
        to: ConversationId,
    },
    /// A subagent turned out to be another.
    #[serde(rename = "subagent:united")]
    SubagentUnited {
        /// The one that is no more.
        conversation_id: ConversationId,
        /// The one that it is.
        into: ConversationId,
        /// All blocks of the latter, in order.
        blocks: Vec<Arc<Block>>,
    },
}
