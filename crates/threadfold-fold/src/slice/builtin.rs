//! The slices that every session has beside its conversation.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use threadfold_core::{Json, Payload, SessionEvent};

use super::{Item, Items, RestorePolicy, Slice};

/// Whether the agent is asked something right now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryState {
    /// How it stands.
    pub status: QueryStatus,
    /// What was asked last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Json>,
    /// How long the last answer took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Why the last answer did not come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Json>,
    /// Questions that wait for a person.
    #[serde(default)]
    pub waiting: Vec<Arc<str>>,
}

/// How a query stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum QueryStatus {
    /// Nothing is asked.
    #[default]
    Idle,
    /// The agent works.
    Running,
    /// The last one failed.
    Failed,
}

impl Item for QueryState {
    const TYPE: &'static str = "queryState";
}

/// The state of the environment that the agent runs in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentState {
    /// The event that told it last: `ee:ready` and the like.
    pub event: String,
    /// Its state, in its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Arc<str>>,
    /// What is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Json>,
}

impl Item for EnvironmentState {
    const TYPE: &'static str = "environmentState";
}

/// What became of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileState {
    /// Where it is.
    pub path: Arc<str>,
    /// What happened to it last.
    pub status: FileStatus,
    /// Its content, by reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Json>,
}

/// What happened to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FileStatus {
    /// It was made.
    Created,
    /// It was altered.
    Modified,
    /// It was taken away.
    Deleted,
}

impl Item for FileState {
    const TYPE: &'static str = "fileState";
}

pub(super) fn query() -> Slice<QueryState> {
    Slice::new("query").on_event(|items: &mut Items<QueryState>, event| {
        let mut next = items.latest().cloned().unwrap_or_default();
        if hear_query(&mut next, event) {
            items.replace(next);
        }
    })
}

/// Says whether the event told anything of the query.
fn hear_query(query: &mut QueryState, event: &SessionEvent) -> bool {
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
        Payload::SessionIdle(_) if event.context.conversation_id.is_main() => {
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

pub(super) fn environment() -> Slice<EnvironmentState> {
    Slice::new("environment").policy(RestorePolicy::Log).on_event(
        |items: &mut Items<EnvironmentState>, event| {
            let (Payload::EeCreating(told)
            | Payload::EeReady(told)
            | Payload::EeTerminated(told)
            | Payload::EeError(told)
            | Payload::EeHealthCheck(told)) = &event.payload
            else {
                return;
            };
            items.replace(EnvironmentState {
                event: event.payload.kind().to_owned(),
                status: told.status.clone(),
                error: told.error.clone(),
            });
        },
    )
}

pub(super) fn files() -> Slice<FileState> {
    Slice::new("files").upsert_by(|file: &FileState| file.path.to_string()).on_event(
        |items, event| {
            let (status, file) = match &event.payload {
                Payload::FileCreated(file) => (FileStatus::Created, file),
                Payload::FileModified(file) => (FileStatus::Modified, file),
                Payload::FileDeleted(file) => (FileStatus::Deleted, file),
                _ => return,
            };
            let content = file.content.clone();
            items.upsert(&file.path, FileState { path: file.path.clone(), status, content });
        },
    )
}
