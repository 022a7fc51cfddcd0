//! Events: facts about a session, all in one envelope.
//!
//! The envelope is `{ "type", "payload", "context" }`, in the log, on the wire and in the API.
//! The flat form of older programs, `{ "type", "conversationId", "block" }`, is read as well.
//! Unknown types and unknown fields are preserved.

use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::block::{Block, raw};
use crate::json::{Fields, Json};
use crate::json_object::{DecodeError, Object, RawFields, deserialize_with};

mod context;
mod payload;
mod turn;

pub use context::{Context, EventSource, Rank, SourceKind};
pub use payload::*;
pub use turn::*;

/// A fact about a session.
///
/// ```
/// use threadfold_core::{Payload, SessionEvent};
///
/// let line = r#"{"type":"session:idle","payload":{},"context":{"sessionId":"s1","conversationId":"main"}}"#;
/// let event = SessionEvent::from_json(line)?;
/// assert_eq!(event.payload.kind(), "session:idle");
/// assert_eq!(serde_json::to_string(&event)?, line);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SessionEvent {
    /// What happened.
    pub payload: Payload,
    /// Where and when it happened.
    pub context: Context,
    /// Fields that this version does not know, of the envelope and of the payload.
    pub unknown_fields: UnknownFields,
}

/// Fields of an event that this version does not know.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnknownFields {
    /// Those beside `type`, `payload` and `context`.
    pub event: Fields,
    /// Those of the payload.
    pub payload: Fields,
}

macro_rules! payloads {
    ($($(#[$doc:meta])* $variant:ident($type:ty) = $wire:literal,)*) => {
        /// What happened. A variant is its wire name in camel case: `BlockUpsert` is
        /// `block:upsert`.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Payload {
            $($(#[$doc])* $variant($type),)*
            /// A type that this version does not know.
            Unknown(UnknownPayload),
        }

        impl Payload {
            /// The wire names of all types that this version knows.
            pub const KINDS: &'static [&'static str] = &[$($wire),*];

            /// Returns the wire name of the type.
            pub fn kind(&self) -> &str {
                match self {
                    $(Self::$variant(_) => $wire,)*
                    Self::Unknown(unknown) => &unknown.kind,
                }
            }

            fn read(kind: Arc<str>, raw: Option<&RawValue>) -> Result<(Self, Fields), DecodeError> {
                let object = || RawFields::parse(raw.unwrap_or(empty_object()));
                match &*kind {
                    $($wire => {
                        let mut fields = object()?;
                        let payload = Object::take(&mut fields)?;
                        Ok((Self::$variant(payload), fields.rest()))
                    })*
                    _ => {
                        let payload = raw.map(Json::from);
                        Ok((Self::Unknown(UnknownPayload { kind, payload }), Fields::default()))
                    }
                }
            }

            /// Reads the payload of a flat event: its fields stand beside the type.
            fn read_flat(kind: Arc<str>, fields: &mut RawFields<'_>) -> Result<Self, DecodeError> {
                match &*kind {
                    $($wire => Object::take(fields).map(Self::$variant),)*
                    _ => Ok(Self::Unknown(UnknownPayload { kind, payload: None })),
                }
            }

            fn write_into<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
                match self {
                    $(Self::$variant(payload) => payload.write_into(map),)*
                    Self::Unknown(_) => Ok(()),
                }
            }
        }
    };
}

payloads! {
    /// A whole block: new, or replacing what the source reported before.
    BlockUpsert(BlockUpsert) = "block:upsert",
    /// Text appended to a block.
    BlockDelta(BlockDelta) = "block:delta",
    /// A block was removed.
    BlockRemove(BlockRemove) = "block:remove",
    /// The active path changed: a rewind, edit, revert, compaction or reset.
    ContextChanged(ContextChanged) = "context:changed",
    /// A call spawned a subagent.
    SubagentSpawned(SubagentSpawned) = "subagent:spawned",
    /// A subagent finished its call.
    SubagentCompleted(SubagentCompleted) = "subagent:completed",
    /// What kind of conversation a subagent is.
    SubagentMarked(SubagentMarked) = "subagent:marked",
    /// A turn ended.
    SessionIdle(EmptyPayload) = "session:idle",
    /// Usage, cost, model, title and similar facts.
    MetadataUpdate(MetadataUpdate) = "metadata:update",
    /// The agent received a query.
    QueryStarted(QueryStarted) = "query:started",
    /// The agent answered the query.
    QueryCompleted(QueryCompleted) = "query:completed",
    /// The agent failed to answer the query.
    QueryFailed(QueryFailed) = "query:failed",
    /// The execution environment is being created.
    EeCreating(EnvironmentPayload) = "ee:creating",
    /// The execution environment is ready.
    EeReady(EnvironmentPayload) = "ee:ready",
    /// The execution environment terminated.
    EeTerminated(EnvironmentPayload) = "ee:terminated",
    /// The execution environment reported an error.
    EeError(EnvironmentPayload) = "ee:error",
    /// The result of a health check of the execution environment.
    EeHealthCheck(EnvironmentPayload) = "ee:health_check",
    /// A file was created.
    FileCreated(FilePayload) = "file:created",
    /// A file was modified.
    FileModified(FilePayload) = "file:modified",
    /// A file was deleted.
    FileDeleted(FilePayload) = "file:deleted",
    /// An agent's transcript changed.
    TranscriptChanged(TranscriptPayload) = "transcript:changed",
    /// We wrote an agent's transcript.
    TranscriptWritten(TranscriptPayload) = "transcript:written",
    /// An agent asked a person for permission.
    PermissionRequested(PermissionRequested) = "permission:requested",
    /// A person answered a permission request.
    PermissionResolved(PermissionResolved) = "permission:resolved",
    /// A log line.
    Log(LogPayload) = "log",
    /// An error.
    Error(ErrorPayload) = "error",
    /// The session's options changed.
    OptionsUpdate(OptionsUpdate) = "options:update",
    /// The session began.
    SessionInitialized(EmptyPayload) = "session:initialized",
    /// The session ended.
    SessionEnded(SessionEnded) = "session:ended",
    /// A turn of our loop started.
    TurnStarted(TurnStarted) = "turn:started",
    /// The model answered.
    TurnAnswered(TurnAnswered) = "turn:answered",
    /// A turn of our loop is complete.
    TurnCompleted(TurnCompleted) = "turn:completed",
    /// The model requested a tool call.
    ToolRequested(ToolRequested) = "tool:requested",
    /// A tool is about to run.
    ToolStarted(ToolStarted) = "tool:started",
    /// A tool call has its result.
    ToolFinished(ToolFinished) = "tool:finished",
    /// An attempt at a tool call failed.
    ToolFailed(ToolFailed) = "tool:failed",
    /// The outcome of an attempt is unknown.
    ToolUnknown(ToolUnknown) = "tool:unknown",
    /// A checkpoint was saved.
    CheckpointSaved(CheckpointSaved) = "checkpoint:saved",
}

impl Payload {
    /// The wire names of the types that a conversation depends on. The others pass through the
    /// reducer and leave it as it was.
    pub const CONVERSATION_KINDS: &'static [&'static str] = &[
        "block:upsert",
        "block:delta",
        "block:remove",
        "context:changed",
        "subagent:spawned",
        "subagent:completed",
        "subagent:marked",
        "session:idle",
        "permission:requested",
        "permission:resolved",
        "turn:started",
        "turn:answered",
        "tool:finished",
        "tool:failed",
        "tool:unknown",
    ];

    /// Returns whether a conversation depends on the event.
    pub fn is_of_conversation(&self) -> bool {
        Self::CONVERSATION_KINDS.contains(&self.kind())
    }
}

/// An event of a type that this version does not know, verbatim.
#[derive(Clone, Debug, PartialEq)]
pub struct UnknownPayload {
    /// The wire name of the type.
    pub kind: Arc<str>,
    /// The payload.
    pub payload: Option<Json>,
}

impl SessionEvent {
    /// Returns an event in the main conversation, without a source.
    pub fn new(payload: Payload) -> Self {
        Self { payload, context: Context::default(), unknown_fields: UnknownFields::default() }
    }

    /// Returns a `block:upsert` event in the block's own conversation.
    pub fn upsert(block: Block) -> Self {
        let conversation_id = block.conversation_id.clone();
        let mut event = Self::new(Payload::BlockUpsert(BlockUpsert {
            block,
            after: Placement::Unspecified,
            replaces: None,
            preview: false,
        }));
        event.context.conversation_id = conversation_id;
        event
    }

    /// Returns the event, attributed to a source of `kind`.
    pub fn from_source(mut self, kind: SourceKind) -> Self {
        self.context.source = Some(EventSource::of_kind(kind));
        self
    }

    /// Returns the event, moved to `conversation`.
    pub fn within(mut self, conversation: impl Into<crate::id::ConversationId>) -> Self {
        self.context.conversation_id = conversation.into();
        self
    }

    /// Reads an event from JSON.
    pub fn from_json(text: &str) -> Result<Self, DecodeError> {
        Self::from_raw(raw(text)?)
    }

    fn from_raw(raw: &RawValue) -> Result<Self, DecodeError> {
        let mut fields = RawFields::parse(raw)?;
        let kind: Arc<str> = fields.read("type")?;
        let context = fields.take("context");
        let (payload, rest) = match fields.take("payload") {
            Some(payload) => {
                Payload::read(kind, Some(payload)).map_err(|error| error.within("payload"))?
            }
            None => (Payload::read_flat(kind, &mut fields)?, Fields::default()),
        };
        let context = match context {
            Some(raw) => {
                Context::from_raw(raw, &mut fields).map_err(|error| error.within("context"))?
            }
            None => Context::from_flat(&mut fields, &payload)?,
        };
        let unknown_fields = UnknownFields { payload: rest, event: fields.rest() };
        Ok(Self { payload, context, unknown_fields })
    }
}

/// The default payload for an event without one.
fn empty_object() -> &'static RawValue {
    serde_json::from_str("{}").expect("an empty object is JSON")
}

struct PayloadWithRest<'a>(&'a SessionEvent);

impl Serialize for PayloadWithRest<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.0.payload.write_into(&mut map)?;
        self.0.unknown_fields.payload.write_into(&mut map)?;
        map.end()
    }
}

impl Serialize for SessionEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", self.payload.kind())?;
        match &self.payload {
            Payload::Unknown(UnknownPayload { payload: None, .. }) => {}
            Payload::Unknown(UnknownPayload { payload, .. }) => {
                map.serialize_entry("payload", payload)?;
            }
            _ => map.serialize_entry("payload", &PayloadWithRest(self))?,
        }
        map.serialize_entry("context", &self.context)?;
        self.unknown_fields.event.write_into(&mut map)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for SessionEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize_with(deserializer, Self::from_raw)
    }
}
