//! The payloads of the events, one type each.

use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::block::Block;
use crate::id::{AgentId, BlockId, RequestId, ToolUseId};
use crate::json::{Fields, Json};
use crate::object::{DecodeError, Field, objects, value_fields};

objects! {
    /// Nothing but the fact itself.
    pub struct Empty {}

    /// A whole block: new, or in place of what was said of it before.
    pub struct BlockUpsert {
        /// The block.
        block: Block = "block",
        /// Where it stands in its source.
        after: Place = "after",
        /// A block whose place it takes, such as a prompt shown before its source named it.
        replaces: Option<BlockId> = "replaces",
        /// The source has not confirmed it yet and may take it back.
        preview: bool = "preview",
    }

    /// Text that a block grew by.
    pub struct BlockDelta {
        /// The block.
        block_id: BlockId = "blockId",
        /// The new text.
        delta: Arc<str> = "delta",
        /// Which of the block's texts.
        field: TextField = "field",
        /// How many UTF-8 bytes stand before it.
        offset: Option<u64> = "offset",
    }

    /// A block is taken out.
    pub struct BlockRemove {
        /// The block.
        block_id: BlockId = "blockId",
        /// Why.
        reason: RemoveReason = "reason",
    }

    /// The active path changed.
    pub struct ContextChanged {
        /// How.
        kind: ContextChange = "kind",
        /// For a compaction or a reset: the first block that stays active; all before it go.
        /// For a rewind, an edit or a revert: the last block that stays active; all after it go.
        /// Absent: all blocks go.
        head: Option<BlockId> = "head",
        /// What stands in place of the blocks that went.
        summary: Option<Arc<str>> = "summary",
    }

    /// A call made a subagent.
    pub struct SubagentSpawned {
        /// The call.
        tool_use_id: ToolUseId = "toolUseId",
        /// The subagent, if its name is known by now.
        agent_id: Option<AgentId> = "agentId",
        /// Another name of the subagent, as older programs gave it.
        subagent_id: Option<AgentId> = "subagentId",
        /// What it was asked.
        prompt: Option<Arc<str>> = "prompt",
        /// Its type.
        subagent_type: Option<Arc<str>> = "subagentType",
        /// What it is for.
        description: Option<Arc<str>> = "description",
        /// It works on after its caller's turn: the caller's idle does not close it.
        background: bool = "background",
    }

    /// A subagent answered its call.
    pub struct SubagentCompleted {
        /// The call.
        tool_use_id: ToolUseId = "toolUseId",
        /// The subagent.
        agent_id: Option<AgentId> = "agentId",
        /// Another name of the subagent, as older programs gave it.
        subagent_id: Option<AgentId> = "subagentId",
        /// How it ended.
        status: CompletedStatus = "status",
        /// What it answered.
        output: Option<Json> = "output",
        /// How long it took.
        duration_ms: Option<u64> = "durationMs",
    }

    /// Usage, cost, model, title and the like.
    pub struct MetadataUpdate {
        /// What is new, by name.
        metadata: Fields = "metadata",
    }

    /// The agent was asked something.
    pub struct QueryStarted {
        /// What.
        message: Option<Json> = "message",
    }

    /// The agent answered.
    pub struct QueryCompleted {
        /// How long it took.
        duration_ms: Option<u64> = "durationMs",
    }

    /// The agent could not answer.
    pub struct QueryFailed {
        /// Why.
        error: Option<Json> = "error",
    }

    /// The state of an execution environment: the agent's process or server.
    pub struct Environment {
        /// Its state, in its own words.
        status: Option<Arc<str>> = "status",
        /// What is wrong.
        error: Option<Json> = "error",
    }

    /// A file of the agent's work.
    pub struct File {
        /// Where it is.
        path: Arc<str> = "path",
        /// Its content, by reference.
        content: Option<Json> = "content",
    }

    /// An agent's own file.
    pub struct Transcript {
        /// Which file.
        file: Option<Arc<str>> = "file",
        /// How far.
        position: Option<Json> = "position",
    }

    /// An agent waits for a person.
    pub struct PermissionRequested {
        /// The question's name.
        request_id: RequestId = "requestId",
        /// The call that waits for it.
        tool_use_id: Option<ToolUseId> = "toolUseId",
        /// What is asked.
        question: Option<Json> = "question",
        /// What can be answered.
        options: Option<Json> = "options",
    }

    /// A person answered.
    pub struct PermissionResolved {
        /// The question's name.
        request_id: RequestId = "requestId",
        /// What was answered.
        answer: Option<Json> = "answer",
    }

    /// A line of a log.
    pub struct Log {
        /// How grave it is.
        level: Option<Arc<str>> = "level",
        /// What it says.
        message: Option<Arc<str>> = "message",
    }

    /// Something went wrong.
    pub struct ErrorPayload {
        /// What.
        message: Option<Arc<str>> = "message",
        /// The source's own mark for it.
        code: Option<Json> = "code",
    }

    /// The session's options changed.
    pub struct OptionsUpdate {
        /// What is new, by name.
        options: Option<Fields> = "options",
    }

    /// The session ended.
    pub struct SessionEnded {
        /// Why.
        reason: Option<Arc<str>> = "reason",
    }
}

/// Where a block stands in its source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// Not said: a new block goes to the end.
    #[default]
    Unsaid,
    /// Before all others; `null` on the wire.
    First,
    /// Behind this one.
    After(BlockId),
}

/// One of a block's texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextField {
    /// What it says.
    #[default]
    Content,
    /// A tool's input as it is written.
    Input,
}

/// Why a block is taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemoveReason {
    /// A preview that its source never confirmed. Takes nothing that was confirmed.
    Abandoned,
    /// Another block stands for it now.
    Superseded,
    /// Its source deleted it.
    Deleted,
}

/// How the active path changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContextChange {
    /// Back to an earlier block.
    Rewind,
    /// A prompt was said anew.
    Edit,
    /// Work was undone, and perhaps done again.
    Revert,
    /// A summary stands for what went before.
    Compaction,
    /// Begun anew.
    Reset,
}

/// How a subagent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompletedStatus {
    /// Well.
    Completed,
    /// Badly.
    Error,
}

value_fields! {
    RemoveReason: "a reason: `abandoned`, `superseded` or `deleted`",
    ContextChange: "a kind: `rewind`, `edit`, `revert`, `compaction` or `reset`",
    CompletedStatus: "`completed` or `error`",
}

impl Field for TextField {
    fn read(raw: Option<&RawValue>) -> Result<Self, DecodeError> {
        match raw {
            None => Ok(Self::default()),
            raw => crate::object::read_value(raw, "`content` or `input`"),
        }
    }

    fn write<M: SerializeMap>(&self, name: &'static str, map: &mut M) -> Result<(), M::Error> {
        match self {
            Self::Content => Ok(()),
            Self::Input => map.serialize_entry(name, self),
        }
    }
}

impl Field for Place {
    fn read(raw: Option<&RawValue>) -> Result<Self, DecodeError> {
        match raw {
            None => Ok(Self::Unsaid),
            Some(raw) if raw.get() == "null" => Ok(Self::First),
            raw => BlockId::read(raw).map(Self::After),
        }
    }

    fn write<M: SerializeMap>(&self, name: &'static str, map: &mut M) -> Result<(), M::Error> {
        match self {
            Self::Unsaid => Ok(()),
            Self::First => map.serialize_entry(name, &()),
            Self::After(block) => map.serialize_entry(name, block),
        }
    }
}

impl SubagentSpawned {
    /// Returns the spawning by `call` of a subagent of which nothing else is known.
    pub fn by(call: impl Into<ToolUseId>) -> Self {
        Self {
            tool_use_id: call.into(),
            agent_id: None,
            subagent_id: None,
            prompt: None,
            subagent_type: None,
            description: None,
            background: false,
        }
    }
}
