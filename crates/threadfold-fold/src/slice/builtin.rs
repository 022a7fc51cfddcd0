//! The small built-in slices of every session: query, environment and transcript.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use threadfold_core::{Json, Payload, Rank, SessionEvent};

use super::{Item, Items, RestorePolicy, Slice};

/// The agent's current or last query.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryState {
    /// Its status.
    pub status: QueryStatus,
    /// The last message to the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Json>,
    /// The duration of the last answer, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The error of the last query, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Json>,
    /// The ids of open permission requests.
    #[serde(default)]
    pub waiting: Vec<Arc<str>>,
}

/// The status of a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum QueryStatus {
    /// The agent waits for a message.
    #[default]
    Idle,
    /// The agent is working.
    Running,
    /// The last query failed.
    Failed,
}

impl Item for QueryState {
    const TYPE: &'static str = "queryState";
}

/// The state of the environment that the agent runs in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentState {
    /// The type of the last event about it, such as `ee:ready`.
    pub event: String,
    /// Its own name for its state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Arc<str>>,
    /// Its error, if it reported one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Json>,
}

impl Item for EnvironmentState {
    const TYPE: &'static str = "environmentState";
}

/// A part of the agent's transcript, and how far it was written when that was last observed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TranscriptState {
    /// The file, or the database, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<Arc<str>>,
    /// The type of the last event about it, such as `transcript:changed`.
    pub event: String,
    /// The position in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<Json>,
}

impl Item for TranscriptState {
    const TYPE: &'static str = "transcriptState";
}

pub(super) fn query() -> Slice<QueryState> {
    Slice::new("query").on_event(|items: &mut Items<QueryState>, event| {
        let mut next = items.latest().cloned().unwrap_or_default();
        if apply_to_query(&mut next, event) {
            items.replace(next);
        }
    })
}

/// Applies an event to the query. Returns whether the query changed.
fn apply_to_query(query: &mut QueryState, event: &SessionEvent) -> bool {
    match &event.payload {
        Payload::QueryStarted(started) => {
            let message = started.message.clone();
            *query = QueryState { status: QueryStatus::Running, message, ..QueryState::default() };
        }
        Payload::QueryCompleted(completed) => {
            query.status = QueryStatus::Idle;
            query.duration_ms = completed.duration_ms;
            query.waiting.clear();
        }
        Payload::QueryFailed(failed) => {
            query.status = QueryStatus::Failed;
            query.error = failed.error.clone();
            query.waiting.clear();
        }
        Payload::SessionIdle(_) if is_live_idle(event) => {
            // A failed query stays failed; the agent becomes idle after it as well.
            if query.status != QueryStatus::Running && query.waiting.is_empty() {
                return false;
            }
            query.status = QueryStatus::Idle;
            query.waiting.clear();
        }
        Payload::PermissionRequested(requested) => {
            query.waiting.push(requested.request_id.as_str().into());
        }
        Payload::PermissionResolved(resolved) => {
            let before = query.waiting.len();
            query.waiting.retain(|it| **it != *resolved.request_id.as_str());
            return query.waiting.len() != before;
        }
        _ => return false,
    }
    true
}

/// Returns whether an event shows that the agent became idle just now.
///
/// A transcript that is read beside the stream reports the end of a turn with the next prompt, when
/// the agent works again.
fn is_live_idle(event: &SessionEvent) -> bool {
    event.context.conversation_id.is_main() && event.context.rank() == Rank::Stream
}

pub(super) fn environment() -> Slice<EnvironmentState> {
    Slice::new("environment").policy(RestorePolicy::Log).on_event(
        |items: &mut Items<EnvironmentState>, event| {
            let (Payload::EeCreating(report)
            | Payload::EeReady(report)
            | Payload::EeTerminated(report)
            | Payload::EeError(report)
            | Payload::EeHealthCheck(report)) = &event.payload
            else {
                return;
            };
            items.replace(EnvironmentState {
                event: event.payload.kind().to_owned(),
                status: report.status.clone(),
                error: report.error.clone(),
            });
        },
    )
}

pub(super) fn transcript() -> Slice<TranscriptState> {
    let key = |state: &TranscriptState| state.file.as_deref().unwrap_or_default().to_owned();
    Slice::new("transcript").policy(RestorePolicy::Log).upsert_by(key).on_event(
        move |items: &mut Items<TranscriptState>, event| {
            let (Payload::TranscriptChanged(report) | Payload::TranscriptWritten(report)) =
                &event.payload
            else {
                return;
            };
            let state = TranscriptState {
                file: report.file.clone(),
                event: event.payload.kind().to_owned(),
                position: report.position.clone(),
            };
            items.upsert(&key(&state), state);
        },
    )
}
