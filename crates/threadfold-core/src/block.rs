//! The unit of a conversation: one piece of what was said, done or asked.

use std::fmt;
use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::id::{AgentId, BlockId, ConversationId, MessageId, RequestId, ToolUseId};
use crate::json::{Fields, Json};
use crate::object::{
    DecodeError, Field, Object, RawFields, deserialize_with, objects, value_fields,
};
use crate::text::Text;

mod content;
mod merge;

pub use content::{Content, FilePart, ImagePart, Part, PartBody, TextPart};

/// One piece of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Its name, unique within its conversation.
    pub id: BlockId,
    /// The conversation it stands in. In a state: the subagent's own name, whichever was said.
    pub conversation_id: ConversationId,
    /// When it was made, by its source's clock, as the source spelt it.
    pub timestamp: Option<Arc<str>>,
    /// How far it has come.
    pub status: BlockStatus,
    /// It was closed by the end of a turn, not by its source.
    pub interrupted: bool,
    /// It is off the active path, after a rewind, an edit, a revert or a compaction.
    pub inactive: bool,
    /// The model's message that it is a piece of.
    pub message_id: Option<MessageId>,
    /// What it hangs below in its source.
    pub parent: Option<BlockId>,
    /// More about it, by name.
    pub metadata: Fields,
    /// The record it came from; does not count for equality of states by hash.
    pub raw: Option<Json>,
    /// What it is.
    pub body: BlockBody,
    /// Fields that this version does not know.
    pub extra: Fields,
}

/// How far a block has come.
///
/// A `subagent` is pending, running, success or error; any other block is pending, complete or
/// error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockStatus {
    /// Not done yet.
    Pending,
    /// A subagent at work.
    Running,
    /// Done.
    Complete,
    /// A subagent that is done.
    Success,
    /// Ended badly.
    Error,
}

impl BlockStatus {
    /// Says whether there is more to come.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }
}

macro_rules! bodies {
    ($($(#[$doc:meta])* $variant:ident = $wire:literal,)*) => {
        /// What a block is, with the fields of that type.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum BlockBody {
            $($(#[$doc])* $variant($variant),)*
            /// A type that this version does not know; its fields are the block's `extra`.
            Other(Arc<str>),
        }

        impl BlockBody {
            /// The names on the wire of all types that this version knows.
            pub const KINDS: &'static [&'static str] = &[$($wire),*];

            /// Returns the type's name on the wire.
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

        $(impl From<$variant> for BlockBody {
            fn from(body: $variant) -> Self {
                Self::$variant(body)
            }
        })*
    };
}

bodies! {
    /// What a person, or something in their place, said.
    UserMessage = "user_message",
    /// What the model said.
    AssistantText = "assistant_text",
    /// What the model thought.
    Thinking = "thinking",
    /// A tool call.
    ToolUse = "tool_use",
    /// What a tool call gave.
    ToolResult = "tool_result",
    /// A call that made a subagent.
    Subagent = "subagent",
    /// A question that waits for a person.
    Permission = "permission",
    /// A word of the agent's own.
    System = "system",
    /// A skill that was loaded.
    SkillLoad = "skill_load",
    /// Something went wrong.
    Error = "error",
    /// A record that was not understood, as it came.
    Unknown = "unknown",
}

objects! {
    /// What a person, or something in their place, said.
    pub struct UserMessage {
        /// Text, or parts.
        content: Content = "content",
    }

    /// What the model said.
    pub struct AssistantText {
        /// The text, as far as it has come.
        content: Text = "content",
        /// The model.
        model: Option<Arc<str>> = "model",
    }

    /// What the model thought. Always part of the state; hiding it is a matter of the view.
    pub struct Thinking {
        /// The text; some models keep it to themselves.
        content: Text = "content",
        /// The provider's mark that must go back unchanged.
        signature: Option<Arc<str>> = "signature",
        /// The provider keeps the text in a form that only it can read.
        redacted: bool = "redacted",
    }

    /// A tool call. Pending until its result is there.
    pub struct ToolUse {
        /// The tool.
        tool_name: Arc<str> = "toolName",
        /// The call.
        tool_use_id: ToolUseId = "toolUseId",
        /// The arguments, once they are whole.
        input: Option<Json> = "input",
        /// The arguments as they are being written; gone once they are whole.
        input_text: Option<Text> = "inputText",
        /// The tool's name for people.
        display_name: Option<Arc<str>> = "displayName",
        /// What the call is for.
        description: Option<Arc<str>> = "description",
    }

    /// What a tool call gave.
    pub struct ToolResult {
        /// The call that it answers.
        tool_use_id: ToolUseId = "toolUseId",
        /// What came back.
        output: Option<Json> = "output",
        /// The call failed.
        is_error: bool = "isError",
        /// How long the call took.
        duration_ms: Option<u64> = "durationMs",
    }

    /// A call that made a subagent: the edge from a conversation to the subagent's.
    pub struct Subagent {
        /// The call.
        tool_use_id: Option<ToolUseId> = "toolUseId",
        /// The subagent.
        agent_id: Option<AgentId> = "agentId",
        /// Its type.
        name: Arc<str> = "name",
        /// What it is for.
        description: Option<Arc<str>> = "description",
        /// What it was asked.
        input: Option<Json> = "input",
        /// What it answered.
        output: Option<Json> = "output",
        /// How long it took.
        duration_ms: Option<u64> = "durationMs",
    }

    /// A question that waits for a person.
    pub struct Permission {
        /// The question's name.
        request_id: RequestId = "requestId",
        /// The call that waits for it.
        tool_use_id: Option<ToolUseId> = "toolUseId",
        /// What is asked.
        question: Option<Json> = "question",
        /// What can be answered.
        options: Option<Json> = "options",
        /// What was answered.
        answer: Option<Json> = "answer",
    }

    /// A word of the agent's own: the start of a session, a compaction, a hook, a status.
    pub struct System {
        /// Which.
        subtype: Arc<str> = "subtype",
        /// What it says.
        message: Option<Text> = "message",
    }

    /// A skill that was loaded.
    pub struct SkillLoad {
        /// Which.
        skill_name: Arc<str> = "skillName",
        /// Its text.
        content: Option<Text> = "content",
    }

    /// Something went wrong.
    pub struct Error {
        /// What.
        message: Text = "message",
        /// The source's own mark for it.
        code: Option<Json> = "code",
    }

    /// A record that was not understood.
    pub struct Unknown {
        /// What came, as it came.
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
    /// Returns a block of the main conversation that is complete.
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
        Self::from_raw(&raw(text)?)
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

    /// Writes the block's fields, with or without the record it came from.
    pub(crate) fn write_into<M: SerializeMap>(
        &self,
        map: &mut M,
        record: Record,
    ) -> Result<(), M::Error> {
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("type", self.body.kind())?;
        self.timestamp.write("timestamp", map)?;
        self.status.write("status", map)?;
        map.serialize_entry("conversationId", &self.conversation_id)?;
        self.interrupted.write("interrupted", map)?;
        self.inactive.write("inactive", map)?;
        self.message_id.write("messageId", map)?;
        self.parent.write("parent", map)?;
        self.body.write_into(map)?;
        if !self.metadata.is_empty() {
            self.metadata.write("metadata", map)?;
        }
        if let Record::Shown = record {
            self.raw.write("raw", map)?;
        }
        self.extra.write_into(map)
    }
}

/// Whether a block is written with the record it came from.
#[derive(Clone, Copy)]
pub(crate) enum Record {
    Shown,
    LeftOut,
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
pub(crate) fn raw(text: &str) -> Result<Box<RawValue>, DecodeError> {
    serde_json::from_str(text).map_err(|error| {
        // An event is mostly one line of many, and then its own line 1 would mislead.
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
        self.write_into(&mut map, Record::Shown)?;
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
