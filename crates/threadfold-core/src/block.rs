//! The unit of a conversation: a message, a tool call, a result, a question.

use std::fmt;
use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::id::{AgentId, BlockId, ConversationId, MessageId, RequestId, ToolUseId};
use crate::json::{Fields, Json};
use crate::json_object::{
    DecodeError, Field, Object, RawFields, deserialize_with, objects, value_fields,
};
use crate::text::Text;

mod content;
mod merge;

pub use content::{Content, FilePart, ImagePart, Part, PartBody, TextPart};

/// One piece of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Unique within its conversation.
    pub id: BlockId,
    /// The conversation that contains the block. In a state, this is always the name that the
    /// conversation is shown under, whichever of its names the event used.
    pub conversation_id: ConversationId,
    /// When the source created the block, verbatim, by the source's clock.
    pub timestamp: Option<Arc<str>>,
    /// The block's progress.
    pub status: BlockStatus,
    /// The end of a turn closed the block, not its source.
    pub interrupted: bool,
    /// The block is off the active path, after a rewind, edit, revert or compaction.
    pub inactive: bool,
    /// The model message that the block is part of.
    pub message_id: Option<MessageId>,
    /// The block's parent in its source.
    pub parent: Option<BlockId>,
    /// Additional named values.
    pub metadata: Fields,
    /// The record that the block came from. Excluded from the state hash.
    pub raw: Option<Json>,
    /// The block's type and its fields.
    pub body: BlockBody,
    /// Fields that this version does not know.
    pub extra: Fields,
}

/// The progress of a block.
///
/// A `subagent` is pending, running, success or error; every other block is pending, complete or
/// error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockStatus {
    /// Not finished.
    Pending,
    /// A subagent that is working.
    Running,
    /// Finished.
    Complete,
    /// A subagent that finished.
    Success,
    /// Failed.
    Error,
}

impl BlockStatus {
    /// Returns true if more content may follow.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }
}

macro_rules! bodies {
    ($($(#[$doc:meta])* $variant:ident($type:ident) = $wire:literal,)*) => {
        /// The type of a block, with the fields of that type.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum BlockBody {
            $($(#[$doc])* $variant($type),)*
            /// A type that this version does not know. Its fields are in the block's `extra`.
            Other(Arc<str>),
        }

        impl BlockBody {
            /// The wire names of all types that this version knows.
            pub const KINDS: &'static [&'static str] = &[$($wire),*];

            /// Returns the wire name of the type.
            pub fn kind(&self) -> &str {
                match self {
                    $(Self::$variant(_) => $wire,)*
                    Self::Other(kind) => kind,
                }
            }

            fn take(kind: &str, fields: &mut RawFields<'_>) -> Result<Self, DecodeError> {
                Ok(match kind {
                    $($wire => Self::$variant(Object::take(fields)?),)*
                    other => Self::Other(other.into()),
                })
            }

            fn write_into<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
                match self {
                    $(Self::$variant(body) => body.write_into(map),)*
                    Self::Other(_) => Ok(()),
                }
            }
        }

        $(impl From<$type> for BlockBody {
            fn from(body: $type) -> Self {
                Self::$variant(body)
            }
        })*
    };
}

bodies! {
    /// A message from a person, or from a program in their place.
    UserMessage(UserMessageBlock) = "user_message",
    /// Text from the model.
    AssistantText(AssistantTextBlock) = "assistant_text",
    /// The model's reasoning.
    Thinking(ThinkingBlock) = "thinking",
    /// A tool call.
    ToolUse(ToolUseBlock) = "tool_use",
    /// The result of a tool call.
    ToolResult(ToolResultBlock) = "tool_result",
    /// A tool call that spawned a subagent.
    Subagent(SubagentBlock) = "subagent",
    /// A question to a person.
    Permission(PermissionBlock) = "permission",
    /// A notice from the agent itself.
    System(SystemBlock) = "system",
    /// A loaded skill.
    SkillLoad(SkillLoadBlock) = "skill_load",
    /// An error that the agent reported.
    Error(ErrorBlock) = "error",
    /// A record that the converter could not interpret, verbatim.
    Unknown(UnknownBlock) = "unknown",
}

objects! {
    /// A message from a person, or from a program in their place.
    pub struct UserMessageBlock {
        /// Text, or a list of parts.
        content: Content = "content",
    }

    /// Text from the model.
    pub struct AssistantTextBlock {
        /// The text received so far.
        content: Text = "content",
        /// The model.
        model: Option<Arc<str>> = "model",
    }

    /// The model's reasoning. Always part of the state; a view may hide it.
    pub struct ThinkingBlock {
        /// The text. Empty if the provider does not reveal it.
        content: Text = "content",
        /// The provider's signature, which must be sent back unchanged.
        signature: Option<Arc<str>> = "signature",
        /// The provider returned the text encrypted.
        redacted: bool = "redacted",
    }

    /// A tool call. Pending until its result arrives.
    pub struct ToolUseBlock {
        /// The tool.
        tool_name: Arc<str> = "toolName",
        /// The call.
        tool_use_id: ToolUseId = "toolUseId",
        /// The arguments, once complete.
        input: Option<Json> = "input",
        /// The arguments while they stream in; absent once complete.
        input_text: Option<Text> = "inputText",
        /// A human-readable name of the tool.
        display_name: Option<Arc<str>> = "displayName",
        /// The purpose of the call.
        description: Option<Arc<str>> = "description",
    }

    /// The result of a tool call.
    pub struct ToolResultBlock {
        /// The call that the result answers.
        tool_use_id: ToolUseId = "toolUseId",
        /// The tool's output.
        output: Option<Json> = "output",
        /// The call failed.
        is_error: bool = "isError",
        /// How long the call took.
        duration_ms: Option<u64> = "durationMs",
    }

    /// A tool call that spawned a subagent: the edge from the caller's conversation to the
    /// subagent's.
    pub struct SubagentBlock {
        /// The call.
        tool_use_id: Option<ToolUseId> = "toolUseId",
        /// The subagent.
        agent_id: Option<AgentId> = "agentId",
        /// The subagent's type.
        name: Arc<str> = "name",
        /// The task, in a few words.
        description: Option<Arc<str>> = "description",
        /// The prompt.
        input: Option<Json> = "input",
        /// The subagent's answer.
        output: Option<Json> = "output",
        /// How long the run took.
        duration_ms: Option<u64> = "durationMs",
    }

    /// A question to a person.
    pub struct PermissionBlock {
        /// The id of the question.
        request_id: RequestId = "requestId",
        /// The call that waits for the answer.
        tool_use_id: Option<ToolUseId> = "toolUseId",
        /// The question.
        question: Option<Json> = "question",
        /// The possible answers.
        options: Option<Json> = "options",
        /// The answer.
        answer: Option<Json> = "answer",
    }

    /// A notice from the agent itself: session start, compaction, hook, status.
    pub struct SystemBlock {
        /// The kind of notice.
        subtype: Arc<str> = "subtype",
        /// The text of the notice.
        message: Option<Text> = "message",
    }

    /// A loaded skill.
    pub struct SkillLoadBlock {
        /// The skill.
        skill_name: Arc<str> = "skillName",
        /// The skill's text.
        content: Option<Text> = "content",
    }

    /// An error that the agent reported.
    pub struct ErrorBlock {
        /// The error message.
        message: Text = "message",
        /// The source's error code.
        code: Option<Json> = "code",
    }

    /// A record that the converter could not interpret.
    pub struct UnknownBlock {
        /// The record, verbatim.
        record: Json = "record",
    }
}

value_fields! {
    BlockStatus: "a status: `pending`, `running`, `complete`, `success` or `error`",
}

impl Field for Block {
    fn read(raw: Option<&RawValue>) -> Result<Self, DecodeError> {
        Self::from_raw(raw.unwrap_or(RawValue::NULL))
    }

    fn write<M: SerializeMap>(&self, name: &'static str, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry(name, self)
    }
}

impl Block {
    /// Returns a completed block in the main conversation.
    pub fn new(id: impl Into<BlockId>, body: impl Into<BlockBody>) -> Self {
        let body = body.into();
        let status = match body {
            BlockBody::Subagent(_) => BlockStatus::Success,
            _ => BlockStatus::Complete,
        };
        Self {
            id: id.into(),
            conversation_id: ConversationId::main(),
            timestamp: None,
            status,
            interrupted: false,
            inactive: false,
            message_id: None,
            parent: None,
            metadata: Fields::default(),
            raw: None,
            body,
            extra: Fields::default(),
        }
    }

    /// Reads a block from JSON.
    pub fn from_json(text: &str) -> Result<Self, DecodeError> {
        Self::from_raw(raw(text)?)
    }

    fn from_raw(raw: &RawValue) -> Result<Self, DecodeError> {
        let mut fields = RawFields::parse(raw)?;
        let kind: Arc<str> = fields.read("type")?;
        let body = BlockBody::take(&kind, &mut fields)?;
        let status: BlockStatus = fields.read("status")?;
        check_status(&body, status)?;
        Ok(Self {
            id: fields.read("id")?,
            conversation_id: fields
                .read::<Option<ConversationId>>("conversationId")?
                .unwrap_or_else(ConversationId::main),
            timestamp: fields.read("timestamp")?,
            status,
            interrupted: fields.read("interrupted")?,
            inactive: fields.read("inactive")?,
            message_id: fields.read("messageId")?,
            parent: fields.read("parent")?,
            metadata: fields.read::<Option<Fields>>("metadata")?.unwrap_or_default(),
            raw: fields.read("raw")?,
            body,
            extra: fields.rest(),
        })
    }

    /// Writes the fields of the block that belong to `form`.
    pub(crate) fn write_into<M: SerializeMap>(
        &self,
        map: &mut M,
        form: BlockForm,
    ) -> Result<(), M::Error> {
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("type", self.body.kind())?;
        self.timestamp.write("timestamp", map)?;
        self.status.write("status", map)?;
        if let BlockForm::Whole = form {
            map.serialize_entry("conversationId", &self.conversation_id)?;
        }
        self.interrupted.write("interrupted", map)?;
        self.inactive.write("inactive", map)?;
        self.message_id.write("messageId", map)?;
        self.parent.write("parent", map)?;
        self.body.write_into(map)?;
        if !self.metadata.is_empty() {
            self.metadata.write("metadata", map)?;
        }
        if let BlockForm::Whole = form {
            self.raw.write("raw", map)?;
        }
        self.extra.write_into(map)
    }

    /// Returns whether two blocks are equal, apart from the names of their conversations.
    pub(crate) fn shows_same(&self, other: &Self) -> bool {
        let Self {
            id,
            conversation_id: _,
            timestamp,
            status,
            interrupted,
            inactive,
            message_id,
            parent,
            metadata,
            raw,
            body,
            extra,
        } = self;
        *id == other.id
            && *timestamp == other.timestamp
            && *status == other.status
            && *interrupted == other.interrupted
            && *inactive == other.inactive
            && *message_id == other.message_id
            && *parent == other.parent
            && *metadata == other.metadata
            && *raw == other.raw
            && *body == other.body
            && *extra == other.extra
    }
}

/// Which fields of a block are written.
#[derive(Clone, Copy)]
pub(crate) enum BlockForm {
    /// All of them.
    Whole,
    /// Those that count for the state hash: not the raw record, and not the name of the
    /// conversation, which is the first of several that the sources used.
    Hashed,
}

fn check_status(body: &BlockBody, status: BlockStatus) -> Result<(), DecodeError> {
    let (fits, wanted) = match body {
        BlockBody::Other(_) => return Ok(()),
        BlockBody::Subagent(_) => (
            status != BlockStatus::Complete,
            "`pending`, `running`, `success` or `error` for a subagent",
        ),
        _ => (
            !matches!(status, BlockStatus::Running | BlockStatus::Success),
            "`pending`, `complete` or `error`",
        ),
    };
    if fits {
        return Ok(());
    }
    Err(DecodeError {
        path: "status".into(),
        expected: wanted.into(),
        found: format!("`{}`", Json::of(&status)),
    })
}

/// Checks that `text` is one JSON value.
pub(crate) fn raw(text: &str) -> Result<&RawValue, DecodeError> {
    serde_json::from_str(text).map_err(|error| {
        // An event is usually one line of many, so "line 1" would mislead.
        let reason = error.to_string().replace(" at line 1 column", " at column");
        DecodeError {
            path: String::new(),
            expected: "one JSON object".into(),
            found: format!("text that is not JSON ({reason})"),
        }
    })
}

impl Serialize for Block {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.write_into(&mut map, BlockForm::Whole)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Block {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize_with(deserializer, Self::from_raw)
    }
}

impl fmt::Display for BlockStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Complete => "complete",
            Self::Success => "success",
            Self::Error => "error",
        })
    }
}
