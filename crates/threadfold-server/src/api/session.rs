//! One session: its summary and state kinds, its state at any record, its blobs, and its removal.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use threadfold_core::{ConversationState, SessionMetadata};
use threadfold_engine::{load_within, slices_of, verify_stored};
use threadfold_fold::{Cursor, GENERATION, SliceSnapshot, Slices};
use threadfold_store::BlobHash;
use utoipa::IntoParams;

use super::extract::{Params, SessionPath, SessionPathAnd};
use crate::problem::Problem;
use crate::shared::ServerShared;

/// A session, without its conversation.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SessionDocument<'a> {
    #[serde(flatten)]
    row: Option<crate::catalog::CatalogRow>,
    id: &'a str,
    /// Whom to listen after, for a client that has the state at this record.
    cursor: String,
    seq: u64,
    state_hash: String,
    /// The state kinds beside the conversation, by name.
    slices: BTreeMap<String, Vec<Box<RawValue>>>,
    /// Who writes the session, if anybody does.
    #[serde(skip_serializing_if = "Option::is_none")]
    writer: Option<String>,
}

/// Returns slices as JSON, by name.
fn slice_documents(slices: Vec<SliceSnapshot>) -> BTreeMap<String, Vec<Box<RawValue>>> {
    let raw = |json: &threadfold_core::Json| RawValue::from_string(json.as_str().to_owned()).ok();
    slices
        .into_iter()
        .map(|it| (it.slice_type, it.items.iter().filter_map(raw).collect()))
        .collect()
}

/// The summary of a session, its state kinds and its sources
///
/// `slices` has the state kinds beside the conversation: `environment`, `query`, `metadata`,
/// `files`, and `transcript` with the sources and how far each was read.
#[utoipa::path(
    get, path = "/v1/sessions/{id}", tag = "sessions",
    params(("id" = String, Path, description = "The id of the session")),
    responses(
        (status = 200, description = "The session", body = serde_json::Value),
        (status = 400, description = "An id that is not understood", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "No token, or a wrong one", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "A host or an origin that is not allowed", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "No such session", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "The store cannot be read now", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn get(
    State(shared): State<Arc<ServerShared>>,
    SessionPath(id): SessionPath,
) -> Result<Response, Problem> {
    let entry = shared.entry(&id).await?;
    let view = shared.host.session(&id).await?.view();
    let row = shared.catalog.row(&id);
    let writer = entry.lease.filter(|it| !it.is_expired()).map(|it| it.holder.to_string());
    blocking(move || {
        json_response(&SessionDocument {
            row,
            id: id.as_str(),
            cursor: view.cursor().to_string(),
            seq: view.seq,
            state_hash: view.conversation.hash().to_string(),
            slices: slice_documents(view.slices()),
            writer,
        })
    })
    .await
}

/// Removes a session from the store
///
/// The agent's own files stay as they are, but the session is not imported from them again, not even
/// after a restart. `threadfold import ID` brings it back.
#[utoipa::path(
    delete, path = "/v1/sessions/{id}", tag = "sessions",
    params(("id" = String, Path, description = "The id of the session")),
    responses(
        (status = 204, description = "It is removed"),
        (status = 400, description = "An id that is not understood", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "No token, or a wrong one", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "A host or an origin that is not allowed, or the server is read-only", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "No such session", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "Another process wrote it meanwhile", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "The store cannot be written now, or another process writes the session", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn remove(
    State(shared): State<Arc<ServerShared>>,
    SessionPath(id): SessionPath,
) -> Result<StatusCode, Problem> {
    shared.remove(&id).await?;
    tracing::info!(session = %id, "a client removed the session");
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct StateParams {
    /// The state after this record; by default, after the last one.
    at: Option<u64>,
}

/// The state of a session at one record.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StateDocument<'a> {
    session_id: &'a str,
    cursor: String,
    seq: u64,
    state_hash: String,
    state: &'a ConversationState,
    metadata: &'a SessionMetadata,
    slices: BTreeMap<String, Vec<Box<RawValue>>>,
}

/// The state of a session, at its end or at any record
#[utoipa::path(
    get, path = "/v1/sessions/{id}/state", tag = "sessions",
    params(("id" = String, Path, description = "The id of the session"), StateParams),
    responses(
        (status = 200, description = "The conversation, with its hash, and the other state kinds", body = serde_json::Value),
        (status = 400, description = "A parameter that is not understood, or a record that does not exist", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "No token, or a wrong one", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "A host or an origin that is not allowed", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "No such session", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "The store cannot be read now", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn state(
    State(shared): State<Arc<ServerShared>>,
    SessionPath(id): SessionPath,
    Params(StateParams { at }): Params<StateParams>,
) -> Result<Response, Problem> {
    let entry = shared.entry(&id).await?;
    let Some(at) = at else {
        let view = shared.host.session(&id).await?.view();
        return blocking(move || {
            json_response(&StateDocument {
                session_id: id.as_str(),
                cursor: view.cursor().to_string(),
                seq: view.seq,
                state_hash: view.conversation.hash().to_string(),
                state: &view.conversation,
                metadata: &view.metadata,
                slices: slice_documents(view.slices()),
            })
        })
        .await;
    };
    let head = entry.head.seq;
    if at > head {
        let detail = format!("the session has {head} records, and `at` asks for {at}");
        return Err(Problem::bad_request(detail, "omit `at` for the state after all of them"));
    }
    let (store, budget) = (shared.host.store(), shared.options.budget.clone());
    let loaded = load_within(store, &id, at, Slices::default(), budget).await?;
    blocking(move || {
        let (fold, log) = (&loaded.fold, loaded.head.log.clone());
        let slices = slice_documents(slices_of(fold, &log));
        let response = json_response(&StateDocument {
            session_id: id.as_str(),
            cursor: Cursor { log, generation: GENERATION, seq: fold.seq() }.to_string(),
            seq: fold.seq(),
            state_hash: fold.state_hash(),
            state: fold.conversation(),
            metadata: fold.metadata(),
            slices,
        });
        // What is not in memory is read while it is written.
        loaded.parts.check()?;
        response
    })
    .await
}

/// Whether the stream of a session and its transcript fold to the same state
///
/// For sessions that have both: a stream that was pushed or followed, and the agent's own files.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/verify", tag = "sessions",
    params(("id" = String, Path, description = "The id of the session")),
    responses(
        (status = 200, description = "The verdict: `equal`, `partial` or `different`, with each difference", body = serde_json::Value),
        (status = 400, description = "An id that is not understood", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "No token, or a wrong one", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "A host or an origin that is not allowed", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "No such session", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The session has no stream, or no transcript", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "The store cannot be read now", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn verify(
    State(shared): State<Arc<ServerShared>>,
    SessionPath(id): SessionPath,
) -> Result<Response, Problem> {
    shared.entry(&id).await?;
    match verify_stored(&**shared.host.store(), &id).await? {
        Some(comparison) => json_response(&comparison),
        None => Err(Problem::new(
            StatusCode::CONFLICT,
            "the session does not have both a stream and a transcript",
            "push the agent's stream with `threadfold push` while the server watches its files",
        )),
    }
}

/// Content of a session that is stored by its hash
///
/// `Range` requests one part of it.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/blobs/{hash}", tag = "sessions",
    params(
        ("id" = String, Path, description = "The id of the session"),
        ("hash" = String, Path, description = "The hash of the content"),
    ),
    responses(
        (status = 200, description = "The content", content_type = "application/octet-stream"),
        (status = 206, description = "The part that was requested", content_type = "application/octet-stream"),
        (status = 400, description = "An id or a hash that is not understood", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "No token, or a wrong one", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "A host or an origin that is not allowed", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "No such session, or no such content", body = Problem, content_type = "application/problem+json"),
        (status = 416, description = "A range outside of the content", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "The store cannot be read now", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn blob(
    State(shared): State<Arc<ServerShared>>,
    SessionPathAnd(id, hash): SessionPathAnd,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let hash: BlobHash = hash.parse().map_err(|error| {
        Problem::bad_request(format!("`{hash}` is not a hash: {error}"), "a hash is hexadecimal")
    })?;
    shared.entry(&id).await?;
    let Some(bytes) = shared.host.store().blob(&hash).await? else {
        let detail = format!("there is no content with the hash `{hash}`");
        return Err(Problem::new(StatusCode::NOT_FOUND, detail, "check the hash"));
    };
    let length = bytes.len();
    let range = headers.get(header::RANGE).and_then(|it| it.to_str().ok());
    let (status, part) = match range.map(|it| parse_range(it, length)) {
        None | Some(RequestRange::Whole) => (StatusCode::OK, 0..length),
        Some(RequestRange::Part(part)) => (StatusCode::PARTIAL_CONTENT, part),
        Some(RequestRange::Outside) => {
            let detail = format!("the content has {length} bytes");
            let hint = "request a range within it";
            return Err(Problem::new(StatusCode::RANGE_NOT_SATISFIABLE, detail, hint));
        }
    };
    let shown = format!("bytes {}-{}/{length}", part.start, part.end.saturating_sub(1));
    let mut response = Response::new(Body::from(bytes.slice(part)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let kind = HeaderValue::from_static("application/octet-stream");
    headers.insert(header::CONTENT_TYPE, kind);
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if status == StatusCode::PARTIAL_CONTENT
        && let Ok(shown) = HeaderValue::from_str(&shown)
    {
        headers.insert(header::CONTENT_RANGE, shown);
    }
    Ok(response)
}

#[derive(Debug, PartialEq, Eq)]
enum RequestRange {
    /// A range that is not understood is ignored, as the standard says.
    Whole,
    Part(std::ops::Range<usize>),
    Outside,
}

fn parse_range(range: &str, length: usize) -> RequestRange {
    let parsed = range.strip_prefix("bytes=").and_then(|it| it.split_once('-'));
    let Some((start, end)) = parsed.map(|(start, end)| (start.trim(), end.trim())) else {
        return RequestRange::Whole;
    };
    let (start, end) = match (start.parse::<usize>(), end.parse::<usize>()) {
        (Ok(start), Ok(end)) if start <= end => (start, end.saturating_add(1).min(length)),
        (Ok(start), Err(_)) if end.is_empty() => (start, length),
        (Err(_), Ok(last)) if start.is_empty() => (length.saturating_sub(last), length),
        _ => return RequestRange::Whole,
    };
    if start < end { RequestRange::Part(start..end) } else { RequestRange::Outside }
}

/// Runs work that takes the processor for a while.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

fn json_response(document: &impl Serialize) -> Result<Response, Problem> {
    // What cannot be serialized is a defect of ours, and not of the request.
    match serde_json::value::to_raw_value(document) {
        Ok(json) => Ok(Json(json).into_response()),
        Err(error) => Err(Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("the document cannot be written as JSON: {error}"),
            "report this as a defect",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_is_a_part_and_what_is_not_understood_is_the_whole() {
        use RequestRange::{Outside, Part, Whole};
        for (range, expected) in [
            ("bytes=0-3", Part(0..4)),
            ("bytes=4-", Part(4..10)),
            ("bytes=-3", Part(7..10)),
            ("bytes=-30", Part(0..10)),
            ("bytes=8-99", Part(8..10)),
            ("bytes=10-", Outside),
            ("bytes=10-11", Outside),
            ("bytes=-0", Outside),
            ("bytes=3-1", Whole),
            ("bytes=0-1,3-4", Whole),
            ("bytes=18446744073709551615-18446744073709551615", Outside),
            ("lines=0-1", Whole),
            ("bytes=", Whole),
            ("bytes=-", Whole),
        ] {
            assert_eq!(parse_range(range, 10), expected, "{range}");
        }
    }
}
