//! Parses frames from JSON.
//!
//! Serde's derived reader of a tagged enum buffers its fields, and the raw JSON of snapshots and
//! events cannot be read from such a buffer. So all fields are read first, and then the type
//! decides.

use serde::Deserialize;
use threadfold_core::{Change, Json, SessionEvent, SessionId};
use threadfold_fold::SliceChange;

use super::{Delivery, Frame};

/// The fields of all frames.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FrameFields {
    #[serde(rename = "type")]
    kind: String,
    session_id: SessionId,
    cursor: String,
    protocol: Option<u32>,
    reducer: Option<u32>,
    then: Option<Delivery>,
    notice: Option<String>,
    snapshot: Option<Json>,
    state: Option<Json>,
    events: Option<Vec<SessionEvent>>,
    changes: Option<Vec<Change>>,
    slices: Option<Json>,
    reason: Option<String>,
}

impl TryFrom<FrameFields> for Frame {
    type Error = String;

    fn try_from(fields: FrameFields) -> Result<Self, String> {
        let FrameFields { kind, session_id, cursor, .. } = fields;
        let reason = fields.reason.ok_or("`reason` is missing");
        Ok(match kind.as_str() {
            "snapshot" => Self::Snapshot {
                session_id,
                cursor,
                protocol: fields.protocol.ok_or("`protocol` is missing")?,
                reducer: fields.reducer.ok_or("`reducer` is missing")?,
                then: fields.then.ok_or("`then` is missing")?,
                notice: fields.notice,
                snapshot: fields.snapshot,
                state: fields.state,
                slices: fields.slices,
            },
            "resume" => Self::Resume {
                session_id,
                cursor,
                protocol: fields.protocol.ok_or("`protocol` is missing")?,
                reducer: fields.reducer.ok_or("`reducer` is missing")?,
                then: fields.then.ok_or("`then` is missing")?,
            },
            "events" => {
                let events = fields.events.ok_or("`events` is missing")?;
                Self::Events { session_id, cursor, events }
            }
            "changes" => {
                let changes = fields.changes.ok_or("`changes` is missing")?;
                let slices = fields.slices.map(|it| it.read::<Vec<SliceChange>>()).transpose();
                let slices = slices.map_err(|error| format!("`slices` cannot be read: {error}"))?;
                Self::Changes { session_id, cursor, changes, slices: slices.unwrap_or_default() }
            }
            "gap" => Self::Gap { session_id, cursor, reason: reason? },
            "heartbeat" => Self::Heartbeat { session_id, cursor },
            "end" => Self::End { session_id, cursor, reason: reason? },
            other => return Err(format!("`{other}` is not a frame")),
        })
    }
}
