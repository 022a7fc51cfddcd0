//! The events and the records of a session, one per line, as they are read from the store.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::stream;
use serde::{Deserialize, Serialize};
use threadfold_core::SessionId;
use threadfold_engine::{EngineError, load_within};
use threadfold_fold::{Slices, StoredRecord, with_causes};
use threadfold_store::Limit;
use tokio::sync::mpsc;
use utoipa::IntoParams;

use super::extract::{Params, SessionPath};
use crate::problem::Problem;
use crate::shared::ServerShared;

/// How many bytes of records are read at once.
const READ_BYTES: usize = 256 << 10;
/// How many chunks wait for the client.
const WAITING: usize = 4;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct LogParams {
    /// Only what follows this record; by default, everything.
    after: Option<u64>,
}

/// The events of a session, one JSON object per line
///
/// Each has the number of its record in `context.seq`.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/events", tag = "sessions",
    params(("id" = String, Path, description = "The id of the session"), LogParams),
    responses(
        (status = 200, description = "The events", body = String, content_type = "application/x-ndjson"),
        (status = 400, description = "A parameter that is not understood", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "No token, or a wrong one", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "A host or an origin that is not allowed", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "No such session", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "The store cannot be read now", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn events(
    State(shared): State<Arc<ServerShared>>,
    SessionPath(id): SessionPath,
    Params(LogParams { after }): Params<LogParams>,
) -> Result<Response, Problem> {
    let head = shared.entry(&id).await?.head.seq;
    let after = after.unwrap_or_default().min(head);
    let (store, budget) = (shared.host.store().clone(), shared.options.budget.clone());
    let mut fold = load_within(&store, &id, after, Slices::default(), budget).await?.fold;
    Ok(stream_lines(&shared, id, after, head, move |record, lines| {
        for event in fold.push(record).events {
            push_line(lines, &event);
        }
    }))
}

/// A record of a log.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RecordLine<'a> {
    seq: u64,
    received: i64,
    source: u32,
    kind: &'static str,
    position: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    /// The bytes, if they are not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

/// The records of a session, byte for byte, one JSON object per line
#[utoipa::path(
    get, path = "/v1/sessions/{id}/log", tag = "sessions",
    params(("id" = String, Path, description = "The id of the session"), LogParams),
    responses(
        (status = 200, description = "The records; bytes that are not text are in `base64`", body = String, content_type = "application/x-ndjson"),
        (status = 400, description = "A parameter that is not understood", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "No token, or a wrong one", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "A host or an origin that is not allowed", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "No such session", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "The store cannot be read now", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn log(
    State(shared): State<Arc<ServerShared>>,
    SessionPath(id): SessionPath,
    Params(LogParams { after }): Params<LogParams>,
) -> Result<Response, Problem> {
    let head = shared.entry(&id).await?.head.seq;
    Ok(stream_lines(&shared, id, after.unwrap_or_default(), head, |record, lines| {
        let text = std::str::from_utf8(&record.bytes).ok();
        let base64 = text.is_none().then(|| STANDARD.encode(&record.bytes));
        push_line(
            lines,
            &RecordLine {
                seq: record.seq,
                received: record.received.0,
                source: record.source,
                kind: record.kind.name(),
                position: record.position,
                text,
                base64,
            },
        );
    }))
}

fn push_line(lines: &mut Vec<u8>, line: &impl Serialize) {
    serde_json::to_writer(&mut *lines, line).expect("a line has no keys that are not text");
    lines.push(b'\n');
}

/// Returns a response that is written while records are read, as fast as the client takes it.
fn stream_lines(
    shared: &Arc<ServerShared>,
    id: SessionId,
    mut after: u64,
    head: u64,
    mut write: impl FnMut(&StoredRecord, &mut Vec<u8>) + Send + 'static,
) -> Response {
    let (sender, receiver) = mpsc::channel::<Result<Bytes, EngineError>>(WAITING);
    let store = shared.host.store().clone();
    tokio::spawn(async move {
        while after < head {
            let limit = Limit { until: head, bytes: READ_BYTES };
            let records = match store.read(&id, after, limit).await {
                Ok(records) => records,
                Err(error) => {
                    tracing::warn!(session = %id, "a log was not read: {}", with_causes(&error));
                    // The client sees that the body is cut.
                    sender.send(Err(error.into())).await.ok();
                    return;
                }
            };
            let Some(last) = records.last() else { return };
            after = last.seq;
            let mut lines = Vec::new();
            records.iter().for_each(|record| write(record, &mut lines));
            // A client that is gone needs no more.
            if sender.send(Ok(lines.into())).await.is_err() {
                return;
            }
        }
    });
    let kind = HeaderValue::from_static("application/x-ndjson");
    streamed(receiver, kind)
}

/// Returns a response whose body comes in chunks.
pub(super) fn streamed<E: Into<axum::BoxError> + Send + 'static>(
    receiver: mpsc::Receiver<Result<Bytes, E>>,
    kind: HeaderValue,
) -> Response {
    let chunks = stream::unfold(receiver, |mut receiver| async {
        let chunk = receiver.recv().await?;
        Some((chunk, receiver))
    });
    let mut response = Response::new(Body::from_stream(chunks));
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
