//! Where and when an event was heard.

use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::id::{ConversationId, SessionId, SourceId};
use crate::json::{Fields, Json};
use crate::object::{DecodeError, Field, RawFields, value_fields};

/// Where and when an event was heard.
#[derive(Clone, Debug, PartialEq)]
pub struct Context {
    /// The session.
    pub session_id: Option<SessionId>,
    /// The conversation: `main`, or any name of the subagent.
    pub conversation_id: ConversationId,
    /// The source's own time, as it spelt it; many stream messages have none.
    pub timestamp: Option<Arc<str>>,
    /// Who says so.
    pub source: Option<Source>,
    /// The record's place in the session's log, once stored.
    pub seq: Option<u64>,
    /// The version of the event's form, once stored.
    pub v: Option<u64>,
    /// Fields that this version does not know.
    pub extra: Fields,
}

/// Who says something.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Its name.
    pub id: Option<SourceId>,
    /// The agent that it belongs to.
    pub agent: Option<Arc<str>>,
    /// What it is.
    pub kind: SourceKind,
    /// How far it has been read.
    pub position: Option<Json>,
    /// Fields that this version does not know.
    pub extra: Fields,
}

/// What a source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// What an agent says while it works.
    Stream,
    /// What an agent keeps on disk.
    Transcript,
    /// The server that runs the agent.
    Server,
    /// A loop of our own.
    Loop,
}

/// How much a source's word counts against another's.
///
/// A lower rank only fills what is absent; an equal one replaces; a higher one replaces and
/// keeps what it lacks. Events that name no source are of one rank, the stream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rank {
    /// What is said while it happens.
    Stream,
    /// What is kept on disk.
    Transcript,
}

value_fields! {
    SourceKind: "a kind of source: `stream`, `transcript`, `server` or `loop`",
}

impl Context {
    /// Returns how much this source's word counts.
    pub fn rank(&self) -> Rank {
        match &self.source {
            Some(Source { kind: SourceKind::Transcript, .. }) => Rank::Transcript,
            _ => Rank::Stream,
        }
    }

    pub(super) fn from_raw(raw: &RawValue) -> Result<Self, DecodeError> {
        let mut fields = RawFields::parse(raw)?;
        Ok(Self {
            session_id: fields.read("sessionId")?,
            conversation_id: fields
                .read::<Option<ConversationId>>("conversationId")?
                .unwrap_or_else(ConversationId::main),
            timestamp: fields.read("timestamp")?,
            source: fields.read("source")?,
            seq: fields.read("seq")?,
            v: fields.read("v")?,
            extra: fields.rest(),
        })
    }
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

impl Source {
    /// Returns a source of which only the kind is known.
    pub fn of_kind(kind: SourceKind) -> Self {
        Self { id: None, agent: None, kind, position: None, extra: Fields::default() }
    }
}

impl Field for Source {
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

impl Serialize for Source {
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
