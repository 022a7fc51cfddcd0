//! OpenCode's JSON as types: events of the bus, and stored objects.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::borrowed::Str;

/// An event of the bus or of the log, or a wrapper around one.
///
/// Nearly all records are events, so this type has as few fields as possible.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Event<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Option<Str<'a>>,
    /// What a bus event is about.
    #[serde(borrow)]
    pub(super) properties: Option<&'a RawValue>,
    /// What an event of the log or of the newer protocol is about; or the event inside a
    /// recorder's wrapper.
    #[serde(borrow)]
    pub(super) data: Option<&'a RawValue>,
    /// The event of the global bus.
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    #[serde(borrow, rename = "syncEvent")]
    pub(super) sync_event: Option<&'a RawValue>,
    /// A server-sent comment, which keeps the connection open, inside a recorder's wrapper.
    #[serde(borrow)]
    pub(super) comment: Option<&'a RawValue>,
    /// The event beside a recorder's own fields.
    #[serde(borrow)]
    event: Option<&'a RawValue>,
}

impl<'a> Event<'a> {
    /// Returns the event inside a wrapper; nothing if this is not a wrapper.
    pub(super) fn wrapped(&self) -> Option<&'a RawValue> {
        let is_object = |it: &&RawValue| it.get().starts_with('{');
        let beside_fields = self.event.filter(is_object).filter(|_| self.properties.is_none());
        self.payload.or(beside_fields).or(self.data.filter(|_| self.kind.is_none()))
    }
}

/// A line of `opencode run`: a part or an error.
#[derive(Debug, Deserialize)]
pub(super) struct RunLine<'a> {
    #[serde(borrow, rename = "sessionID")]
    pub(super) session_id: Str<'a>,
    #[serde(borrow)]
    pub(super) timestamp: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) part: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

/// A stored object, in any of its forms.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StoredObject<'a> {
    /// A row of the database, with its table.
    #[serde(borrow)]
    pub(super) table: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) row: Option<&'a RawValue>,
    /// An export: the session, and its messages.
    #[serde(borrow)]
    pub(super) info: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) messages: Option<Vec<Exchange<'a>>>,
    #[serde(borrow)]
    pub(super) parts: Option<Vec<&'a RawValue>>,
    /// Fields that show what a file of the older storage is.
    #[serde(borrow)]
    pub(super) role: Option<Str<'a>>,
    #[serde(borrow, rename = "messageID")]
    pub(super) message_id: Option<Str<'a>>,
    #[serde(borrow, rename = "projectID")]
    pub(super) project_id: Option<Str<'a>>,
}

/// A message with its parts.
#[derive(Debug, Deserialize)]
pub(super) struct Exchange<'a> {
    #[serde(borrow)]
    pub(super) info: &'a RawValue,
    #[serde(borrow, default)]
    pub(super) parts: Vec<&'a RawValue>,
}

/// The properties of a delta. Most events are deltas.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta<'a> {
    #[serde(borrow, rename = "partID")]
    pub(super) part_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) field: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) delta: Option<Str<'a>>,
}

/// The properties of all other events, in one flat type.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Properties<'a> {
    #[serde(borrow, rename = "sessionID")]
    pub(super) session_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) info: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) part: Option<&'a RawValue>,
    #[serde(borrow, rename = "messageID")]
    pub(super) message_id: Option<Str<'a>>,
    #[serde(borrow, rename = "partID")]
    pub(super) part_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) delta: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) permission: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) patterns: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) questions: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) answers: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) reply: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) response: Option<&'a RawValue>,
    #[serde(borrow, rename = "requestID", alias = "permissionID")]
    pub(super) request_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) todos: Option<&'a RawValue>,

    #[serde(borrow, rename = "assistantMessageID")]
    pub(super) assistant_message_id: Option<Str<'a>>,
    #[serde(borrow, rename = "textID")]
    pub(super) text_id: Option<Str<'a>>,
    #[serde(borrow, rename = "reasoningID")]
    pub(super) reasoning_id: Option<Str<'a>>,
    #[serde(borrow, rename = "callID")]
    pub(super) call_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) text: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) tool: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) structured: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) prompt: Option<Prompt<'a>>,
    #[serde(borrow)]
    pub(super) model: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) tokens: Option<&'a RawValue>,
}

/// A person's prompt, in the newer protocol.
#[derive(Debug, Deserialize)]
pub(super) struct Prompt<'a> {
    #[serde(borrow)]
    pub(super) text: Option<Str<'a>>,
}

/// A session.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SessionInfo<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Str<'a>>,
    #[serde(borrow, rename = "parentID", alias = "parent_id")]
    pub(super) parent_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) title: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) directory: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) version: Option<Str<'a>>,
    pub(super) cost: Option<f64>,
    #[serde(borrow)]
    pub(super) revert: Option<Revert<'a>>,
}

/// The message that a session was reverted to.
#[derive(Debug, Deserialize)]
pub(super) struct Revert<'a> {
    #[serde(borrow, rename = "messageID")]
    pub(super) message_id: Option<Str<'a>>,
}

/// A message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct MessageInfo<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Str<'a>>,
    #[serde(borrow, rename = "sessionID", alias = "session_id")]
    pub(super) session_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) role: Option<Str<'a>>,
    #[serde(borrow, rename = "modelID")]
    pub(super) model_id: Option<Str<'a>>,
    pub(super) time: Option<Time>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) tokens: Option<&'a RawValue>,
}

/// Times, in milliseconds.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct Time {
    pub(super) created: Option<f64>,
    pub(super) start: Option<f64>,
    pub(super) end: Option<f64>,
}

/// A part of a message, of any type.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Part<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Str<'a>>,
    #[serde(borrow, rename = "sessionID", alias = "session_id")]
    pub(super) session_id: Option<Str<'a>>,
    #[serde(borrow, rename = "messageID", alias = "message_id")]
    pub(super) message_id: Option<Str<'a>>,
    #[serde(borrow, rename = "type")]
    pub(super) kind: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) text: Option<Str<'a>>,
    pub(super) synthetic: Option<bool>,
    pub(super) ignored: Option<bool>,
    pub(super) time: Option<Time>,
    #[serde(borrow)]
    pub(super) metadata: Option<&'a RawValue>,
    #[serde(borrow, rename = "callID")]
    pub(super) call_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) tool: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) state: Option<ToolState<'a>>,
    #[serde(borrow)]
    pub(super) mime: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) filename: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) url: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) files: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) tail_start_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) tokens: Option<&'a RawValue>,
}

/// The state of a tool call.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ToolState<'a> {
    #[serde(borrow)]
    pub(super) status: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) output: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) title: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) metadata: Option<&'a RawValue>,
    pub(super) time: Option<Time>,
}

/// The child session in the metadata of a task call.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TaskMetadata<'a> {
    #[serde(borrow, rename = "sessionId", alias = "sessionID")]
    pub(super) session_id: Option<Str<'a>>,
}

/// The input of a task call.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TaskInput<'a> {
    #[serde(borrow)]
    pub(super) prompt: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) description: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) subagent_type: Option<Str<'a>>,
    pub(super) background: bool,
}

/// A row of a table of messages or parts.
#[derive(Debug, Deserialize)]
pub(super) struct Row<'a> {
    #[serde(borrow)]
    pub(super) id: Str<'a>,
    #[serde(borrow)]
    pub(super) session_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) message_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) data: Option<&'a RawValue>,
}

/// The token counts of a message, under OpenCode's names.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Tokens {
    pub(super) input: f64,
    pub(super) output: f64,
    pub(super) cache: CachedTokens,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct CachedTokens {
    pub(super) read: f64,
    pub(super) write: f64,
}
