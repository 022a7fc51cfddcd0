//! The payloads of events, one type each.

use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::block::Block;
use crate::id::{AgentId, BlockId, RequestId, ToolUseId};
use crate::json::{Fields, Json};
use crate::json_object::{DecodeError, Field, objects, value_fields};

objects! {
    /// The payload of an event that carries no data.
    pub struct EmptyPayload {}

    /// A whole block: new, or replacing what the source reported before.
    pub struct BlockUpsert {
        /// The block.
        block: Block = "block",
        /// The block's position in its source.
        after: Placement = "after",
        /// A block that this one replaces, such as a prompt shown before its source assigned an id.
        replaces: Option<BlockId> = "replaces",
        /// The source has not confirmed the block yet and may abandon it.
        preview: bool = "preview",
    }

    /// Text appended to a block.
    pub struct BlockDelta {
        /// The block.
        block_id: BlockId = "blockId",
        /// The appended text.
        delta: Arc<str> = "delta",
        /// The text field.
        field: TextField = "field",
        /// The number of UTF-8 bytes before the delta, if known. Makes the delta idempotent.
        offset: Option<u64> = "offset",
    }

    /// A block was removed.
    pub struct BlockRemove {
        /// The block.
        block_id: BlockId = "blockId",
        /// The reason.
        reason: RemoveReason = "reason",
    }

    /// The active path changed.
    pub struct ContextChanged {
        /// The kind of change.
        kind: ContextChange = "kind",
        /// For a compaction or reset: the first block that stays active; all earlier blocks become
        /// inactive. For a rewind, edit or revert: the last block that stays active; all later
        /// blocks become inactive. Absent: all blocks become inactive.
        head: Option<BlockId> = "head",
        /// The text that replaces the inactive blocks.
        summary: Option<Arc<str>> = "summary",
        /// For a microcompaction: the blocks that left the context; all others stay as they are.
        blocks: Vec<BlockId> = "blocks",
    }

    /// A call spawned a subagent.
    pub struct SubagentSpawned {
        /// The call.
        tool_use_id: ToolUseId = "toolUseId",
        /// The subagent's id, if known.
        agent_id: Option<AgentId> = "agentId",
        /// Another id of the subagent, from older versions.
        subagent_id: Option<AgentId> = "subagentId",
        /// The prompt.
        prompt: Option<Arc<str>> = "prompt",
        /// The subagent's type.
        subagent_type: Option<Arc<str>> = "subagentType",
        /// The task, in a few words.
        description: Option<Arc<str>> = "description",
        /// The subagent outlives its caller's turn: the caller's idle does not close it.
        background: bool = "background",
        /// The caller is not known yet: the event's conversation is not the caller's.
        unplaced: bool = "unplaced",
    }

    /// A subagent finished its call.
    pub struct SubagentCompleted {
        /// The call.
        tool_use_id: ToolUseId = "toolUseId",
        /// The subagent.
        agent_id: Option<AgentId> = "agentId",
        /// Another id of the subagent, from older versions.
        subagent_id: Option<AgentId> = "subagentId",
        /// How the run ended.
        status: CompletedStatus = "status",
        /// The answer.
        output: Option<Json> = "output",
        /// How long the run took.
        duration_ms: Option<u64> = "durationMs",
        /// The caller is not known yet: the event's conversation is not the caller's.
        unplaced: bool = "unplaced",
    }

    /// What kind of conversation the event's subagent is.
    pub struct SubagentMarked {
        /// It is a helper of the agent itself, which nobody called.
        internal: bool = "internal",
    }

    /// Usage, cost, model, title and similar facts.
    pub struct MetadataUpdate {
        /// The updated values.
        metadata: Fields = "metadata",
    }

    /// The agent received a query.
    pub struct QueryStarted {
        /// The query.
        message: Option<Json> = "message",
    }

    /// The agent answered the query.
    pub struct QueryCompleted {
        /// How long the query took.
        duration_ms: Option<u64> = "durationMs",
    }

    /// The agent failed to answer the query.
    pub struct QueryFailed {
        /// The error.
        error: Option<Json> = "error",
    }

    /// The state of an execution environment, which is the agent's process or server.
    pub struct EnvironmentPayload {
        /// The status, in the environment's own terms.
        status: Option<Arc<str>> = "status",
        /// The error.
        error: Option<Json> = "error",
    }

    /// A file in the agent's workspace.
    pub struct FilePayload {
        /// The path.
        path: Arc<str> = "path",
        /// A reference to the content.
        content: Option<Json> = "content",
        /// When it happened, where that is not the event's own time.
        changed_at: Option<Arc<str>> = "changedAt",
    }

    /// An agent's transcript.
    pub struct TranscriptPayload {
        /// The file.
        file: Option<Arc<str>> = "file",
        /// The position in the file.
        position: Option<Json> = "position",
    }

    /// An agent asked a person for permission.
    pub struct PermissionRequested {
        /// The id of the question.
        request_id: RequestId = "requestId",
        /// The call that waits for the answer.
        tool_use_id: Option<ToolUseId> = "toolUseId",
        /// The question.
        question: Option<Json> = "question",
        /// The possible answers.
        options: Option<Json> = "options",
    }

    /// A person answered a permission request.
    pub struct PermissionResolved {
        /// The id of the question.
        request_id: RequestId = "requestId",
        /// The answer.
        answer: Option<Json> = "answer",
    }

    /// A log line.
    pub struct LogPayload {
        /// The severity.
        level: Option<Arc<str>> = "level",
        /// The message.
        message: Option<Arc<str>> = "message",
    }

    /// An error.
    pub struct ErrorPayload {
        /// The message.
        message: Option<Arc<str>> = "message",
        /// The source's error code.
        code: Option<Json> = "code",
    }

    /// The session's options changed.
    pub struct OptionsUpdate {
        /// The updated options.
        options: Option<Fields> = "options",
    }

    /// The session ended.
    pub struct SessionEnded {
        /// The reason.
        reason: Option<Arc<str>> = "reason",
    }
}

/// The position of a block in its source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// The source does not specify it. A new block is appended at the end.
    #[default]
    Unspecified,
    /// Before all other blocks; `null` on the wire.
    First,
    /// After this block.
    After(BlockId),
}

/// One of a block's text fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextField {
    /// The content.
    #[default]
    Content,
    /// A tool's input while it streams in.
    Input,
}

/// Why a block was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemoveReason {
    /// A preview that its source never confirmed. A confirmed block is kept.
    Abandoned,
    /// Another block replaces it.
    Superseded,
    /// Its source deleted it.
    Deleted,
}

/// How the active path changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContextChange {
    /// Returned to an earlier block.
    Rewind,
    /// A prompt was edited and sent again.
    Edit,
    /// Work was undone, and perhaps redone.
    Revert,
    /// A summary replaces the earlier blocks.
    Compaction,
    /// Single blocks left the context, mostly outputs of tools.
    Microcompaction,
    /// The conversation started over.
    Reset,
}

/// How a subagent's run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompletedStatus {
    /// Successfully.
    Completed,
    /// With an error.
    Error,
}

value_fields! {
    RemoveReason: "a reason: `abandoned`, `superseded` or `deleted`",
    ContextChange: "a kind: `rewind`, `edit`, `revert`, `compaction`, `microcompaction` or `reset`",
    CompletedStatus: "`completed` or `error`",
}

impl Field for TextField {
    fn read(raw: Option<&RawValue>) -> Result<Self, DecodeError> {
        match raw {
            None => Ok(Self::default()),
            raw => crate::json_object::read_value(raw, "`content` or `input`"),
        }
    }

    fn write<M: SerializeMap>(&self, name: &'static str, map: &mut M) -> Result<(), M::Error> {
        match self {
            Self::Content => Ok(()),
            Self::Input => map.serialize_entry(name, self),
        }
    }
}

impl Field for Placement {
    fn read(raw: Option<&RawValue>) -> Result<Self, DecodeError> {
        match raw {
            None => Ok(Self::Unspecified),
            Some(raw) if raw.get() == "null" => Ok(Self::First),
            raw => BlockId::read(raw).map(Self::After),
        }
    }

    fn write<M: SerializeMap>(&self, name: &'static str, map: &mut M) -> Result<(), M::Error> {
        match self {
            Self::Unspecified => Ok(()),
            Self::First => map.serialize_entry(name, &()),
            Self::After(block) => map.serialize_entry(name, block),
        }
    }
}

impl SubagentSpawned {
    /// Returns a spawn by `call` with nothing else known.
    pub fn by(call: impl Into<ToolUseId>) -> Self {
        Self {
            tool_use_id: call.into(),
            agent_id: None,
            subagent_id: None,
            prompt: None,
            subagent_type: None,
            description: None,
            background: false,
            unplaced: false,
        }
    }
}
