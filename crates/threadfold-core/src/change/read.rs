//! Changes out of JSON.
//!
//! A derived reader of a tagged enum buffers its fields, and text that is kept as it is, as in
//! blocks, cannot be read out of such a buffer. So all fields are read first, and then the type.

use std::sync::Arc;

use serde::Deserialize;

use super::Change;
use crate::block::{Block, BlockStatus};
use crate::event::TextField;
use crate::id::{BlockId, ConversationId};
use crate::state::SubagentHeader;

/// The fields of all changes.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ChangeFields {
    #[serde(rename = "type")]
    kind: String,
    conversation_id: Option<ConversationId>,
    after: Option<BlockId>,
    block: Option<Arc<Block>>,
    block_id: Option<BlockId>,
    status: Option<BlockStatus>,
    interrupted: Option<bool>,
    inactive: Option<bool>,
    field: Option<TextField>,
    text: Option<Arc<str>>,
    subagent: Option<SubagentHeader>,
    from: Option<ConversationId>,
    to: Option<ConversationId>,
    into: Option<ConversationId>,
    blocks: Option<Vec<Arc<Block>>>,
}

impl TryFrom<ChangeFields> for Change {
    type Error = String;

    fn try_from(fields: ChangeFields) -> Result<Self, String> {
        let kind = fields.kind.as_str();
        let conversation_id = || fields.conversation_id.ok_or("`conversationId` is missing");
        let block_id = || fields.block_id.ok_or("`blockId` is missing");
        let block = || fields.block.ok_or("`block` is missing");
        Ok(match kind {
            "block:inserted" => Self::BlockInserted {
                conversation_id: conversation_id()?,
                after: fields.after,
                block: block()?,
            },
            "block:replaced" => {
                Self::BlockReplaced { conversation_id: conversation_id()?, block: block()? }
            }
            "block:marked" => Self::BlockMarked {
                conversation_id: conversation_id()?,
                block_id: block_id()?,
                status: fields.status.ok_or("`status` is missing")?,
                interrupted: fields.interrupted.ok_or("`interrupted` is missing")?,
                inactive: fields.inactive.ok_or("`inactive` is missing")?,
            },
            "block:moved" => Self::BlockMoved {
                conversation_id: conversation_id()?,
                block_id: block_id()?,
                after: fields.after,
            },
            "block:removed" => {
                Self::BlockRemoved { conversation_id: conversation_id()?, block_id: block_id()? }
            }
            "text:appended" => Self::TextAppended {
                conversation_id: conversation_id()?,
                block_id: block_id()?,
                field: fields.field.ok_or("`field` is missing")?,
                text: fields.text.ok_or("`text` is missing")?,
            },
            "subagent:changed" => Self::SubagentChanged {
                conversation_id: conversation_id()?,
                subagent: fields.subagent.ok_or("`subagent` is missing")?,
            },
            "conversation:renamed" => Self::ConversationRenamed {
                from: fields.from.ok_or("`from` is missing")?,
                to: fields.to.ok_or("`to` is missing")?,
            },
            "subagent:united" => Self::SubagentUnited {
                conversation_id: conversation_id()?,
                into: fields.into.ok_or("`into` is missing")?,
                blocks: fields.blocks.ok_or("`blocks` is missing")?,
            },
            other => return Err(format!("`{other}` is not a change")),
        })
    }
}
