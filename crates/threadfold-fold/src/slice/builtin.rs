//! The built-in slices of every session: query, environment and files.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use threadfold_core::{Json, Payload, SessionEvent};

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

/// A file, and what last happened to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileState {
    /// Its path.
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
    /// It was created.
    Created,
    /// It was modified.
    Modified,
    /// It was deleted.
    Deleted,
}

impl Item for FileState {
    const TYPE: &'static str = "fileState";
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
        Payload::SessionIdle(_) if event.context.conversation_id.is_main() => {
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
