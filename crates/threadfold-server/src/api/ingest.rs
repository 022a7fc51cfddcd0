//! Records of an agent that runs elsewhere.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use threadfold_engine::{PushError, PushReceipt, PushedBytes, accept_pushed};
use threadfold_fold::detection_named;
use utoipa::{IntoParams, ToSchema};

use super::extract::{Params, ReceivedBody, SessionPath, read_body};
use crate::problem::Problem;
use crate::shared::ServerShared;

/// The longest id of a session that clients create, and the longest name of a stream.
const LONGEST_NAME: usize = 200;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct PushParams {
    /// The name of the stream: letters, digits, `-`, `_` and `.`. Choose another one for each run of
    /// the agent.
    stream: String,
    /// Where the body begins in the stream, in bytes.
    #[serde(default)]
    #[param(default = 0)]
    position: u64,
    /// Nothing follows the body: an incomplete last line is stored as well.
    #[serde(default)]
    #[param(default = false)]
    end: bool,
    /// The format of the stream; by default, it is detected from the first lines.
    format: Option<String>,
}

/// What the session has of the stream.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PushAnswer {
    /// How many bytes of the stream are stored, and survive a power cut. Send what follows.
    position: u64,
    /// How many records were added.
    records: u64,
    /// The stream has ended.
    is_ended: bool,
}

/// Adds raw lines of an agent's stream to a session
///
/// Idempotent by stream and position: what is sent again is stored once. Complete lines are stored,
/// and the answer says up to where; a body that was cut is safe to send again.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/records", tag = "ingest",
    params(("id" = String, Path, description = "The id of the session, which the stream names"), PushParams),
    request_body(content = String, content_type = "application/x-ndjson", description = "Bytes of the stream, as the agent wrote them"),
    responses(
        (status = 200, description = "The lines are stored", body = PushAnswer),
        (status = 400, description = "An id, a parameter or a body that is not understood", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "No token, or a wrong one", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "A host or an origin that is not allowed, or the server is read-only", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "The body took too long", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The body does not continue the stream, see `expectedPosition`; or the session is of another agent", body = Problem, content_type = "application/problem+json"),
        (status = 410, description = "The session was removed", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "The body is too long", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "The format of the stream is unknown", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "The store cannot be written now, or another process writes the session", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn push_records(
    State(shared): State<Arc<ServerShared>>,
    SessionPath(id): SessionPath,
    Params(params): Params<PushParams>,
    body: Body,
) -> Result<Json<PushAnswer>, Problem> {
    shared.check_writable()?;
    check_name("an id", id.as_str())?;
    check_name("a stream", &params.stream)?;
    let format = match &params.format {
        Some(name) => Some(detection_named(name).ok_or_else(|| {
            let hint = "`threadfold fold --help` lists the formats";
            Problem::bad_request(format!("`{name}` is not a format"), hint)
        })?),
        None => None,
    };
    if shared.options.is_removed.as_ref().is_some_and(|it| it(&id)) {
        return Err(Problem::new(
            StatusCode::GONE,
            format!("session `{id}` was removed"),
            "`threadfold import ID` on the server brings it back",
        ));
    }
    let limits = &shared.options.limits;
    let ReceivedBody { bytes, is_whole } = read_body(body, limits.body, limits.body_time).await?;
    let pushed = PushedBytes {
        stream: params.stream,
        position: params.position,
        bytes,
        // The end of a body that was cut is not the end of the stream.
        is_end: params.end && is_whole,
        format,
    };
    let is_new = shared.host.store().head(&id).await?.is_none();
    if is_new && pushed.position > 0 {
        return Err(PushError::Gap { expected: 0, found: pushed.position }.into());
    }
    // Nothing is no session.
    if is_new && pushed.bytes.is_empty() {
        return Ok(Json(PushAnswer { position: 0, records: 0, is_ended: false }));
    }
    let mut session = shared.writers.write(&id).await?;
    let receipt = accept_pushed(&mut session, &pushed).await?;
    shared.metrics.records.add(receipt.records);
    let PushReceipt { position, records, is_ended } = receipt;
    Ok(Json(PushAnswer { position, records, is_ended }))
}

/// Refuses a name that could be mistaken for a path or an argument by whoever uses it later.
fn check_name(what: &str, name: &str) -> Result<(), Problem> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_allowed = (1..=LONGEST_NAME).contains(&name.len())
        && name.bytes().all(is_plain)
        && !name.starts_with(['-', '.']);
    match is_allowed {
        true => Ok(()),
        false => Err(Problem::bad_request(
            format!("{what} that a client chooses has letters, digits, `-`, `_` and `.`"),
            format!("it has at most {LONGEST_NAME} of them, and begins with a letter or a digit"),
        )),
    }
}
