//! A message of a conversation with a model, in words that are no provider's own.

use std::fmt;
use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::block::raw;
use crate::id::{CallId, MessageId};
use crate::json::Fields;
use crate::object::{DecodeError, Field, RawFields, deserialize_with, value_fields};
use crate::turn::part::{MessagePart, MessagePartBody};

/// A message of a conversation with a model.
///
/// What only one provider knows is kept beside the rest, as that provider spelt it: see
/// [`NativePart`](crate::NativePart).
#[derive(Clone, Debug, PartialEq)]
pub struct ConversationMessage {
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    pub content: Vec<MessagePart>,
    /// The tools that the model asks for, in order.
    pub tool_calls: Vec<ToolCall>,
    /// The call that a tool's message answers.
    pub tool_call_id: Option<CallId>,
    /// Who speaks, by name: the tool, for one.
    pub name: Option<Arc<str>>,
    /// A tool's message that tells of a failure.
    pub is_error: bool,
    /// When it was made, as its maker spelt it.
    pub created_at: Option<Arc<str>>,
    /// Its name.
    pub message_id: Option<MessageId>,
    /// Fields that this version does not know.
    pub extra: Fields,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Whoever runs the loop.
    System,
    /// The person, or something in their place.
    User,
    /// The model.
    Assistant,
    /// A tool that the model asked for.
    Tool,
}

value_fields! {
    Role: "a role: `system`, `user`, `assistant` or `tool`",
}

/// A tool that the model asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The call, as the model named it.
    pub call_id: CallId,
    /// The tool.
    pub name: Arc<str>,
    /// The arguments, exactly as the model wrote them; they need not be JSON.
    pub arguments: Arc<str>,
    /// Fields that this version does not know.
    pub extra: Fields,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        })
    }
}

impl ConversationMessage {
    /// Returns a message that says nothing yet.
    pub fn new(role: Role) -> Self {
        Self {
            role,
            content: Vec::new(),
            tool_calls: Vec::new(),
            tool_call_id: None,
            name: None,
            is_error: false,
            created_at: None,
            message_id: None,
            extra: Fields::default(),
        }
    }

    /// Returns a message of words.
    pub fn text(role: Role, text: &str) -> Self {
        Self { content: vec![MessagePart::text(text)], ..Self::new(role) }
    }

    /// Returns what `call` gave, in words.
    pub fn result(call: impl Into<CallId>, text: &str) -> Self {
        Self { tool_call_id: Some(call.into()), ..Self::text(Role::Tool, text) }
    }

    /// Reads a message from JSON.
    pub fn from_json(text: &str) -> Result<Self, DecodeError> {
        Self::from_raw(&raw(text)?)
    }

    fn from_raw(raw: &RawValue) -> Result<Self, DecodeError> {
        let mut fields = RawFields::parse(raw)?;
        Ok(Self {
            role: fields.read("role")?,
            content: fields.read("content")?,
            tool_calls: fields.read("toolCalls")?,
            tool_call_id: fields.read("toolCallId")?,
            name: fields.read("name")?,
            is_error: fields.read("isError")?,
            created_at: fields.read("createdAt")?,
            message_id: fields.read("messageId")?,
            extra: fields.rest(),
        })
    }

    /// Gives a call another name, also where its provider spelt it.
    ///
    /// Of calls of one name, the first that was not renamed yet stands first in both forms.
    pub fn rename_call(&mut self, ordinal: usize, to: CallId) {
        let Some(from) = self.tool_calls.get(ordinal).map(|call| call.call_id.clone()) else {
            return;
        };
        let before = self.tool_calls[..ordinal].iter().filter(|it| it.call_id == from).count();
        let natives = self.content.iter_mut().filter_map(|part| match &mut part.body {
            MessagePartBody::Native(native) => Some(native),
            _ => None,
        });
        let mut same = natives.filter(|it| it.call().as_deref() == Some(from.as_str()));
        if let Some(native) = same.nth(before) {
            native.rename_call(to.as_str());
        }
        self.tool_calls[ordinal].call_id = to;
    }

    /// Returns all its words, without thoughts and pictures.
    pub fn to_text(&self) -> String {
        self.content.iter().filter_map(MessagePart::to_text).collect()
    }
}

impl ToolCall {
    /// Returns a call.
    pub fn new(call_id: impl Into<CallId>, name: &str, arguments: &str) -> Self {
        Self {
            call_id: call_id.into(),
            name: name.into(),
            arguments: arguments.into(),
            extra: Fields::default(),
        }
    }

    fn from_raw(raw: &RawValue) -> Result<Self, DecodeError> {
        let mut fields = RawFields::parse(raw)?;
        Ok(Self {
            call_id: fields.read("callId")?,
            name: fields.read("name")?,
            arguments: fields.read("arguments")?,
            extra: fields.rest(),
        })
    }
}

impl Serialize for ConversationMessage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.role.write("role", &mut map)?;
        self.content.write("content", &mut map)?;
        self.tool_calls.write("toolCalls", &mut map)?;
        self.tool_call_id.write("toolCallId", &mut map)?;
        self.name.write("name", &mut map)?;
        self.is_error.write("isError", &mut map)?;
        self.created_at.write("createdAt", &mut map)?;
        self.message_id.write("messageId", &mut map)?;
        self.extra.write_into(&mut map)?;
        map.end()
    }
}

impl Serialize for ToolCall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.call_id.write("callId", &mut map)?;
        self.name.write("name", &mut map)?;
        self.arguments.write("arguments", &mut map)?;
        self.extra.write_into(&mut map)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for ConversationMessage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize_with(deserializer, Self::from_raw)
    }
}

impl Field for ConversationMessage {
    fn read(raw: Option<&RawValue>) -> Result<Self, DecodeError> {
        Self::from_raw(raw.unwrap_or(RawValue::NULL))
    }

    fn write<M: SerializeMap>(&self, name: &'static str, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry(name, self)
    }
}

impl Field for ToolCall {
    fn read(raw: Option<&RawValue>) -> Result<Self, DecodeError> {
        Self::from_raw(raw.unwrap_or(RawValue::NULL))
    }

    fn write<M: SerializeMap>(&self, name: &'static str, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry(name, self)
    }
}
