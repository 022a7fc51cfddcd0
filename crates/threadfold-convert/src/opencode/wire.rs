//! OpenCode's JSON as types: events of the bus here, stored objects in [`object`].

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::borrowed::Str;

mod object;

pub(super) use object::{
    Exchange, FileDetail, FileInput, FileMetadata, MessageInfo, Part, Row, SessionInfo,
    StoredObject, TaskInput, TaskMetadata, Tokens, ToolState,
};

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
    /// What version 2 adds to an event.
    #[serde(borrow)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) created: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) durable: Option<&'a RawValue>,
    /// The session of an entry in the log of version 1.
    #[serde(borrow)]
    pub(super) aggregate_id: Option<&'a RawValue>,
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
    #[serde(borrow)]
    pub(super) status: Option<&'a RawValue>,

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

/// Whether a session works: `busy`, `retry` or `idle`.
#[derive(Debug, Deserialize)]
pub(super) struct SessionStatus<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Str<'a>,
}

/// A person's prompt, in the newer protocol.
#[derive(Debug, Deserialize)]
pub(super) struct Prompt<'a> {
    #[serde(borrow)]
    pub(super) text: Option<Str<'a>>,
}
