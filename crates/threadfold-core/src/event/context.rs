//! The context of an event: session, conversation, source and time.

use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use super::Payload;
use crate::id::{ConversationId, SessionId, SourceId};
use crate::json::{Fields, Json};
use crate::json_object::{DecodeError, Field, RawFields, value_fields};

/// The context of an event.
#[derive(Clone, Debug, PartialEq)]
pub struct Context {
    /// The session.
    pub session_id: Option<SessionId>,
    /// The conversation: `main`, or any name of a subagent.
    pub conversation_id: ConversationId,
    /// The source's own time, verbatim; many stream messages have none.
    pub timestamp: Option<Arc<str>>,
    /// The source that reported the event.
    pub source: Option<EventSource>,
    /// The sequence number of the record in the session's log, once stored.
    pub seq: Option<u64>,
    /// The version of the event format, once stored.
    pub v: Option<u64>,
    /// Fields that this version does not know.
    pub extra: Fields,
}

/// The source that reported an event.
#[derive(Clone, Debug, PartialEq)]
pub struct EventSource {
    /// Its id.
    pub id: Option<SourceId>,
    /// The agent that it belongs to.
    pub agent: Option<Arc<str>>,
    /// Its kind.
    pub kind: SourceKind,
    /// The position in the source.
    pub position: Option<Json>,
    /// Fields that this version does not know.
    pub extra: Fields,
}

/// The kind of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// An agent's live output.
    Stream,
    /// An agent's files on disk.
    Transcript,
    /// The server that runs the agent.
    Server,
    /// Our own agent loop.
    Loop,
}

/// The precedence of a source.
///
/// A report of lower rank only fills in missing fields, one of equal rank replaces the earlier
/// report, and one of higher rank wins but keeps fields that it lacks. Events without a source have
/// the stream's rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rank {
    /// Reported live.
    Stream,
    /// Read from disk.
    Transcript,
}

value_fields! {
    SourceKind: "a kind of source: `stream`, `transcript`, `server` or `loop`",
}

impl Context {
    /// Returns the rank of the event's source.
    pub fn rank(&self) -> Rank {
        match &self.source {
            Some(EventSource { kind: SourceKind::Transcript, .. }) => Rank::Transcript,
            _ => Rank::Stream,
        }
    }

    /// Reads a context. If it names no conversation, one that stands beside it counts: an event
    /// that names a conversation never goes to another one.
    pub(super) fn from_raw(raw: &RawValue, event: &mut RawFields<'_>) -> Result<Self, DecodeError> {
        let mut fields = RawFields::parse(raw)?;
        let conversation_id = match fields.read::<Option<ConversationId>>("conversationId")? {
            Some(named) => named,
            None => conversation_beside(event)?.unwrap_or_else(ConversationId::main),
        };
        Ok(Self {
            session_id: fields.read("sessionId")?,
            conversation_id,
            timestamp: fields.read("timestamp")?,
            source: fields.read("source")?,
            seq: fields.read("seq")?,
            v: fields.read("v")?,
            extra: fields.rest(),
        })
    }
}

impl Context {
    /// Reads the context of a flat event, whose fields stand beside the type.
    ///
    /// Without a conversation of its own it belongs to the conversation that its block names.
    pub(super) fn from_flat(
        fields: &mut RawFields<'_>,
        payload: &Payload,
    ) -> Result<Self, DecodeError> {
        let of_block = || match payload {
            Payload::BlockUpsert(upsert) => upsert.block.conversation_id.clone(),
            _ => ConversationId::main(),
        };
        Ok(Self {
            conversation_id: conversation_beside(fields)?.unwrap_or_else(of_block),
            session_id: fields.read("sessionId")?,
            timestamp: fields.read("timestamp")?,
            ..Self::default()
        })
    }
}

fn conversation_beside(event: &mut RawFields<'_>) -> Result<Option<ConversationId>, DecodeError> {
    event.read("conversationId")
}

impl Default for Context {
    fn default() -> Self {
        Self {
            session_id: None,
            conversation_id: ConversationId::main(),
            timestamp: None,
            source: None,
            seq: None,
            v: None,
            extra: Fields::default(),
        }
    }
}

impl EventSource {
    /// Returns a source of which only the kind is known.
    pub fn of_kind(kind: SourceKind) -> Self {
        Self { id: None, agent: None, kind, position: None, extra: Fields::default() }
    }
}

impl Field for EventSource {
    fn read(raw: Option<&RawValue>) -> Result<Self, DecodeError> {
        let mut fields = RawFields::parse(raw.unwrap_or(RawValue::NULL))?;
        Ok(Self {
            id: fields.read("id")?,
            agent: fields.read("agent")?,
            kind: fields.read("kind")?,
            position: fields.read("position")?,
            extra: fields.rest(),
        })
    }

    fn write<M: SerializeMap>(&self, name: &'static str, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry(name, self)
    }
}

impl Serialize for EventSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.id.write("id", &mut map)?;
        self.agent.write("agent", &mut map)?;
        self.kind.write("kind", &mut map)?;
        self.position.write("position", &mut map)?;
        self.extra.write_into(&mut map)?;
        map.end()
    }
}

impl Serialize for Context {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.session_id.write("sessionId", &mut map)?;
        map.serialize_entry("conversationId", &self.conversation_id)?;
        self.timestamp.write("timestamp", &mut map)?;
        self.source.write("source", &mut map)?;
        self.seq.write("seq", &mut map)?;
        self.v.write("v", &mut map)?;
        self.extra.write_into(&mut map)?;
        map.end()
    }
}
