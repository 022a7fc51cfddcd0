//! A message of a conversation with a model, in a provider-neutral form.

use std::fmt;
use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::block::raw;
use crate::id::{CallId, MessageId};
use crate::json::Fields;
use crate::json_object::{DecodeError, Field, RawFields, deserialize_with, value_fields};
use crate::turn::part::{MessagePart, MessagePartBody};

/// A message of a conversation with a model.
///
/// What only one provider understands is kept beside the rest, verbatim: see
/// [`NativePart`](crate::NativePart).
#[derive(Clone, Debug, PartialEq)]
pub struct ConversationMessage {
    /// The author's role.
    pub role: Role,
    /// The parts, in order.
    pub content: Vec<MessagePart>,
    /// The tool calls that the model requests, in order.
    pub tool_calls: Vec<ToolCall>,
    /// The call that a tool message answers.
    pub tool_call_id: Option<CallId>,
    /// The author's name, such as the tool's.
    pub name: Option<Arc<str>>,
    /// True for a tool message that reports a failure.
    pub is_error: bool,
    /// When the message was created, as its author wrote it.
    pub created_at: Option<Arc<str>>,
    /// The message id.
    pub message_id: Option<MessageId>,
    /// Fields that this version does not know.
    pub extra: Fields,
}

/// The role of a message's author.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The program that runs the loop.
    System,
    /// A person, or a program in their place.
    User,
    /// The model.
    Assistant,
    /// A tool that the model called.
    Tool,
}

value_fields! {
    Role: "a role: `system`, `user`, `assistant` or `tool`",
}

/// A tool call that the model requests.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The call's id, as the model chose it.
    pub call_id: CallId,
    /// The tool.
    pub name: Arc<str>,
    /// The arguments, exactly as the model wrote them. They need not be valid JSON.
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
    /// Returns a message without content.
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

    /// Returns a message with one text part.
    pub fn text(role: Role, text: &str) -> Self {
        Self { content: vec![MessagePart::text(text)], ..Self::new(role) }
    }

    /// Returns a tool message with the text result of `call`.
    pub fn result(call: impl Into<CallId>, text: &str) -> Self {
        Self { tool_call_id: Some(call.into()), ..Self::text(Role::Tool, text) }
    }

    /// Reads a message from JSON.
    pub fn from_json(text: &str) -> Result<Self, DecodeError> {
        Self::from_raw(raw(text)?)
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

    /// Renames a call, also in its native form.
    ///
    /// If several calls share an id, the nth of them corresponds to the nth native item with that
    /// id.
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

    /// Returns the text, without reasoning and images.
    pub fn to_text(&self) -> String {
        self.content.iter().filter_map(MessagePart::to_text).collect()
    }
}

impl ToolCall {
    /// Returns a tool call.
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
