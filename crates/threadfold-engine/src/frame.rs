//! Frames: the messages to a session's listeners, the same over every transport.

mod read;

use std::fmt::{self, Display, Formatter};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use threadfold_core::{Change, ConversationState, Json, SessionEvent, SessionId, SessionMetadata};
use threadfold_fold::{
    Cursor, Fold, GENERATION, LogId, SliceChange, SliceSnapshot, Snapshot, Step,
};

use crate::snapshot_writer::header;

/// The version of the frames themselves.
pub const PROTOCOL: u32 = 1;

/// The version of the reducer: a client that folds events itself must have the same one.
///
/// Incremented with every reducer change that folds the same events into another state. The
/// converters do not count, because they run before events are sent.
pub const REDUCER: u32 = 1;

/// One message to a listener.
///
/// Every frame has a cursor: a client that reconnects with the last one it saw misses nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    try_from = "read::FrameFields"
)]
#[non_exhaustive]
pub enum Frame {
    /// The session at one record. It comes first, and again after every gap.
    Snapshot {
        /// The session.
        session_id: SessionId,
        /// The record that it is at.
        cursor: String,
        /// The version of the frames.
        protocol: u32,
        /// The version of the reducer that made it.
        reducer: u32,
        /// What follows: `events` or `changes`.
        then: Delivery,
        /// Why the client is not sent what it requested.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        notice: Option<String>,
        /// For a client that is sent events: all slices, with what later events need (what each
        /// source reported, aliases).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        snapshot: Option<Json>,
        /// For a client that is sent changes: the conversation to show.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<Json>,
        /// For a client that is sent changes: the items of the other slices, by name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        slices: Option<Json>,
    },
    /// The stream continues after the client's cursor, without a snapshot.
    Resume {
        /// The session.
        session_id: SessionId,
        /// The client's cursor.
        cursor: String,
        /// The version of the frames.
        protocol: u32,
        /// The version of the reducer.
        reducer: u32,
        /// What follows: `events` or `changes`.
        then: Delivery,
    },
    /// The events of one record.
    Events {
        /// The session.
        session_id: SessionId,
        /// The record.
        cursor: String,
        /// What it meant.
        events: Vec<SessionEvent>,
    },
    /// What one record changed, in the conversation and in the other slices.
    Changes {
        /// The session.
        session_id: SessionId,
        /// The record.
        cursor: String,
        /// What changed.
        changes: Vec<Change>,
        /// What changed in the other slices.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        slices: Vec<SliceChange>,
    },
    /// Frames were missed: a snapshot follows.
    Gap {
        /// The session.
        session_id: SessionId,
        /// The last record that the client has: a client that loses the connection before the
        /// snapshot receives the gap again.
        cursor: String,
        /// Why.
        reason: String,
    },
    /// Nothing happened, and the connection is alive.
    Heartbeat {
        /// The session.
        session_id: SessionId,
        /// The last record that was sent, which may not be the latest one.
        cursor: String,
    },
    /// No more frames follow.
    End {
        /// The session.
        session_id: SessionId,
        /// The last record that was sent.
        cursor: String,
        /// Why.
        reason: String,
    },
}

impl Frame {
    /// Returns the frame as one line of JSON, without a line end.
    pub fn to_json(&self) -> String {
        Json::of(self).as_str().to_owned()
    }
}

/// A frame as one line of JSON, for transports that frame it once for all listeners.
#[derive(Clone, Debug)]
pub struct FrameLine {
    /// What it is.
    pub kind: FrameKind,
    /// Its cursor.
    pub cursor: Cursor,
    /// The frame, without a line end.
    pub json: String,
}

/// The type of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// `snapshot`.
    Snapshot,
    /// `resume`.
    Resume,
    /// `events` or `changes`: one record.
    Record,
    /// `gap`.
    Gap,
    /// `heartbeat`.
    Heartbeat,
    /// `end`.
    End,
}

/// Why a client cannot continue from its cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GapReason {
    /// The session was removed and created again.
    OtherLog,
    /// Another generation made the events before the cursor.
    OtherGeneration,
    /// The log has no such record.
    BeyondEnd,
    /// A snapshot is cheaper than what was missed.
    TooFarBehind,
    /// The session was restored to an earlier snapshot.
    Restored,
}

impl Display for GapReason {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::OtherLog => {
                "the cursor is of another log: the session was removed and created again"
            }
            Self::OtherGeneration => {
                "the cursor is of another generation: the same records have other events now"
            }
            Self::BeyondEnd => "the cursor is beyond the end of the session",
            Self::TooFarBehind => "the client is too far behind: a snapshot is cheaper",
            Self::Restored => "the session was restored to an earlier snapshot",
        })
    }
}

/// What a listener is sent between snapshots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Delivery {
    /// Events, for a client with a reducer of its own.
    Events,
    /// Changes, for a client without one.
    #[default]
    Changes,
}

/// A session at one record, for a client that shows it.
#[derive(Clone, Debug)]
pub struct View {
    /// The record.
    pub seq: u64,
    /// The log of the record.
    pub(crate) log: LogId,
    /// The conversation.
    pub conversation: ConversationState,
    /// The metadata of the session.
    pub metadata: SessionMetadata,
    /// All slices, for a client that continues folding by itself.
    pub(crate) snapshot: Arc<LazySnapshot>,
}

impl View {
    /// Returns the cursor of its record.
    ///
    /// The log id is taken together with the state, because the log may have been replaced since.
    pub fn cursor(&self) -> Cursor {
        Cursor { log: self.log.clone(), generation: GENERATION, seq: self.seq }
    }

    /// Returns the state kinds of the session beside the conversation: one slice each.
    pub fn slices(&self) -> Vec<SliceSnapshot> {
        slices_of(self.fold(), &self.log)
    }

    /// Returns the fold of the session, without the memory of its converter.
    pub fn fold(&self) -> &Fold {
        &self.snapshot.fold
    }
}

/// Returns the slices of a fold beside the conversation, and without the converter's memory.
pub fn slices_of(fold: &Fold, log: &LogId) -> Vec<SliceSnapshot> {
    let (_, mut slices) = fold.snapshot_frame(header(log, Default::default()));
    slices.retain(|it| !it.is_conversation() && !it.is_converter());
    slices
}

/// The slices of a session, serialized on first use, once for all listeners.
pub(crate) struct LazySnapshot {
    /// The fold without the converter's memory.
    fold: Fold,
    log: LogId,
    snapshot: OnceLock<Json>,
    slices: OnceLock<Json>,
}

impl LazySnapshot {
    pub(crate) fn new(fold: Fold, log: LogId) -> Self {
        Self { fold, log, snapshot: OnceLock::new(), slices: OnceLock::new() }
    }

    /// Returns all slices, with what later events need.
    pub(crate) fn json(&self) -> &Json {
        self.snapshot.get_or_init(|| {
            let snapshot: Snapshot = self.fold.snapshot(header(&self.log, Default::default()));
            Json::of(&snapshot)
        })
    }

    /// Returns the slices beside the conversation, as they are shown.
    pub(crate) fn slices(&self) -> &Json {
        self.slices.get_or_init(|| Json::of(&self.fold.shown_slices()))
    }
}

impl std::fmt::Debug for LazySnapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LazySnapshot")
    }
}

/// A frame of one record, without a copy of what it contains.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RecordFrame<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    session_id: &'a SessionId,
    cursor: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<&'a Vec<SessionEvent>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<&'a Vec<Change>>,
}

/// A step shared by all listeners. Each of its frames is serialized once, however many listeners
/// there are.
#[derive(Debug)]
pub struct SharedStep {
    /// What one record meant.
    pub step: Arc<Step>,
    events: OnceLock<Arc<str>>,
    changes: OnceLock<Arc<str>>,
}

impl SharedStep {
    pub(crate) fn new(step: Arc<Step>) -> Self {
        Self { step, events: OnceLock::new(), changes: OnceLock::new() }
    }

    /// Returns its frame as a line of JSON.
    pub(crate) fn json(&self, session: &SessionId, cursor: &str, delivery: Delivery) -> Arc<str> {
        let cell = match delivery {
            Delivery::Events => &self.events,
            Delivery::Changes => &self.changes,
        };
        cell.get_or_init(|| self.frame(session, cursor, delivery).to_json().into()).clone()
    }

    /// Returns its frame as JSON, for a caller that keeps it for all listeners.
    pub(crate) fn to_json(&self, session: &SessionId, cursor: &str, delivery: Delivery) -> String {
        let (events, changes) = (&self.step.events, &self.step.changes);
        let (kind, events, changes) = match delivery {
            Delivery::Events => ("events", Some(events), None),
            Delivery::Changes => ("changes", None, Some(changes)),
        };
        let frame = RecordFrame { kind, session_id: session, cursor, events, changes };
        serde_json::to_string(&frame).expect("a frame has no keys that are not text")
    }

    /// Returns its frame.
    pub(crate) fn frame(&self, session: &SessionId, cursor: &str, delivery: Delivery) -> Frame {
        let (session_id, cursor) = (session.clone(), cursor.to_owned());
        match delivery {
            Delivery::Events => {
                Frame::Events { session_id, cursor, events: self.step.events.clone() }
            }
            Delivery::Changes => {
                let (changes, slices) =
                    (self.step.changes.clone(), self.step.shown_slice_changes());
                Frame::Changes { session_id, cursor, changes, slices }
            }
        }
    }
}
