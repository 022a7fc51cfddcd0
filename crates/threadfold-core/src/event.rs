//! What is heard: facts about a session, one envelope for all of them.
//!
//! `{ "type", "payload", "context" }`, in the log, on the wire and in the API. A type that this
//! version does not know is kept whole, and so are unknown fields of known types.

use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::block::{Block, raw};
use crate::json::{Fields, Json};
use crate::object::{DecodeError, Object, RawFields, deserialize_with};

mod context;
mod payload;
mod turn;

pub use context::{Context, Rank, Source, SourceKind};
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
    /// Where and when.
    pub context: Context,
    /// Fields that this version does not know, of the envelope and of the payload.
    pub unread: Unread,
}

/// Fields of an event that this version does not know.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Unread {
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
            /// The names on the wire of all types that this version knows.
            pub const KINDS: &'static [&'static str] = &[$($wire),*];

            /// Returns the type's name on the wire.
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
    /// A whole block: new, or in place of what was said of it before.
    BlockUpsert(BlockUpsert) = "block:upsert",
    /// Text that a block grew by.
    BlockDelta(BlockDelta) = "block:delta",
    /// A block is taken out.
    BlockRemove(BlockRemove) = "block:remove",
    /// The active path changed: a rewind, an edit, a revert, a compaction, a reset.
    ContextChanged(ContextChanged) = "context:changed",
    /// A call made a subagent.
    SubagentSpawned(SubagentSpawned) = "subagent:spawned",
    /// A subagent answered its call.
    SubagentCompleted(SubagentCompleted) = "subagent:completed",
    /// A turn is over.
    SessionIdle(Empty) = "session:idle",
    /// Usage, cost, model, title and the like.
    MetadataUpdate(MetadataUpdate) = "metadata:update",
    /// The agent was asked something.
    QueryStarted(QueryStarted) = "query:started",
    /// The agent answered.
    QueryCompleted(QueryCompleted) = "query:completed",
    /// The agent could not answer.
    QueryFailed(QueryFailed) = "query:failed",
    /// The execution environment is being made.
    EeCreating(Environment) = "ee:creating",
    /// The execution environment is there.
    EeReady(Environment) = "ee:ready",
    /// The execution environment is gone.
    EeTerminated(Environment) = "ee:terminated",
    /// The execution environment has a problem.
    EeError(Environment) = "ee:error",
    /// The execution environment was asked how it is.
    EeHealthCheck(Environment) = "ee:health_check",
    /// A file was made.
    FileCreated(File) = "file:created",
    /// A file was changed.
    FileModified(File) = "file:modified",
    /// A file was deleted.
    FileDeleted(File) = "file:deleted",
    /// An agent's own file changed.
    TranscriptChanged(Transcript) = "transcript:changed",
    /// An agent's own file was written by us.
    TranscriptWritten(Transcript) = "transcript:written",
    /// An agent waits for a person.
    PermissionRequested(PermissionRequested) = "permission:requested",
    /// A person answered.
    PermissionResolved(PermissionResolved) = "permission:resolved",
    /// A line of a log.
    Log(Log) = "log",
    /// Something went wrong.
    Error(ErrorPayload) = "error",
    /// The session's options changed.
    OptionsUpdate(OptionsUpdate) = "options:update",
    /// The session began.
    SessionInitialized(Empty) = "session:initialized",
    /// The session ended.
    SessionEnded(SessionEnded) = "session:ended",
    /// A turn of a loop began.
    TurnStarted(TurnStarted) = "turn:started",
    /// The model answered.
    TurnAnswered(TurnAnswered) = "turn:answered",
    /// A turn of a loop is closed.
    TurnCompleted(TurnCompleted) = "turn:completed",
    /// The model asked for a tool.
    ToolRequested(ToolRequested) = "tool:requested",
    /// A tool is about to run.
    ToolStarted(ToolStarted) = "tool:started",
    /// A tool gave its result.
    ToolFinished(ToolFinished) = "tool:finished",
    /// A tool failed.
    ToolFailed(ToolFailed) = "tool:failed",
    /// What became of a tool is not known.
    ToolUnknown(ToolUnknown) = "tool:unknown",
    /// There is a place to resume from.
    CheckpointSaved(CheckpointSaved) = "checkpoint:saved",
}

/// An event of a type that this version does not know, as it came.
#[derive(Clone, Debug, PartialEq)]
pub struct UnknownPayload {
    /// The type's name.
    pub kind: Arc<str>,
    /// Its payload.
    pub payload: Option<Json>,
}

impl SessionEvent {
    /// Returns an event of the main conversation, from no source in particular.
    pub fn new(payload: Payload) -> Self {
        Self { payload, context: Context::default(), unread: Unread::default() }
    }

    /// Returns `block:upsert` of `block`, in the conversation that the block names.
    pub fn upsert(block: Block) -> Self {
        let conversation_id = block.conversation_id.clone();
        let mut event = Self::new(Payload::BlockUpsert(BlockUpsert {
            block,
            after: Place::Unsaid,
            replaces: None,
            preview: false,
        }));
        event.context.conversation_id = conversation_id;
        event
    }

    /// Returns the same event, heard from a source of `kind`.
    pub fn from_source(mut self, kind: SourceKind) -> Self {
        self.context.source = Some(Source::of_kind(kind));
        self
    }

    /// Returns the same event, in `conversation`.
    pub fn within(mut self, conversation: impl Into<crate::id::ConversationId>) -> Self {
        self.context.conversation_id = conversation.into();
        self
    }

    /// Reads an event from JSON.
    pub fn from_json(text: &str) -> Result<Self, DecodeError> {
        Self::from_raw(&raw(text)?)
    }

    fn from_raw(raw: &RawValue) -> Result<Self, DecodeError> {
        let mut fields = RawFields::parse(raw)?;
        let kind: Arc<str> = fields.read("type")?;
        let (payload, rest) =
            Payload::read(kind, fields.take("payload")).map_err(|error| error.within("payload"))?;
        let context = match fields.take("context") {
            Some(raw) => Context::from_raw(raw).map_err(|error| error.within("context"))?,
            None => Context::default(),
        };
        let unread = Unread { payload: rest, event: fields.rest() };
        Ok(Self { payload, context, unread })
    }
}

/// The payload of an event that has none.
fn empty_object() -> &'static RawValue {
    serde_json::from_str("{}").expect("an empty object is JSON")
}

struct PayloadWithRest<'a>(&'a SessionEvent);

impl Serialize for PayloadWithRest<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.0.payload.write_into(&mut map)?;
        self.0.unread.payload.write_into(&mut map)?;
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
        self.unread.event.write_into(&mut map)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for SessionEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize_with(deserializer, Self::from_raw)
    }
}
