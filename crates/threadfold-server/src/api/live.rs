//! Live sessions: streams of events, and the upgrade to a WebSocket.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use sha1::{Digest, Sha1};
use utoipa::{IntoParams, ToSchema};

use super::extract::{Params, SessionPath};
use crate::event_stream::{EventSource, EventStream};
use crate::live::LiveConnection;
use crate::problem::Problem;
use crate::shared::ServerShared;
use crate::shared_log::Signal;
use crate::subscription::{SubscribeOptions, Subscription};
use crate::summary_feed::SummarySubscription;
use crate::view_options::{parse_after, parse_view};

/// What a WebSocket's key is hashed with (RFC 6455).
const ACCEPT_SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// A ticket for one WebSocket.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Ticket {
    /// The ticket, for `GET /v1/live?ticket=…`.
    ticket: String,
    /// How many seconds it can be used.
    expires_in: u64,
}

/// A ticket for one WebSocket
///
/// A browser cannot send the token with a WebSocket. Each connect and reconnect needs another ticket.
#[utoipa::path(
    post, path = "/v1/tickets", tag = "live",
    responses(
        (status = 200, description = "The ticket", body = Ticket),
        (status = 401, description = "No token, or a wrong one", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "A host or an origin that is not allowed", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "Too many tickets were not used, or the store cannot be used now", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn ticket(
    State(shared): State<Arc<ServerShared>>,
) -> Result<Json<Ticket>, Problem> {
    let ticket = shared.tickets.issue().await?;
    Ok(Json(Ticket { ticket, expires_in: shared.tickets.lifetime().as_secs() }))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct LiveParams {
    /// A ticket of `POST /v1/tickets`, which is used up.
    ticket: Option<String>,
}

/// A WebSocket for any number of sessions
///
/// The client sends `{"type":"subscribe","sessionId":"…"}`, with `after`, `view` and `reducer` if it
/// wants, `unsubscribe`, `subscribeSummaries` and `unsubscribeSummaries`. The server sends frames.
#[utoipa::path(
    get, path = "/v1/live", tag = "live", params(LiveParams), security(()),
    responses(
        (status = 101, description = "The connection is a WebSocket"),
        (status = 400, description = "A parameter that is not understood", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "No ticket, or one that was used or has expired", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "A host or an origin that is not allowed", body = Problem, content_type = "application/problem+json"),
        (status = 426, description = "The request is not one for a WebSocket", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "The store cannot be used now", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn live(
    State(shared): State<Arc<ServerShared>>,
    Params(LiveParams { ticket }): Params<LiveParams>,
    mut request: Request,
) -> Result<Response, Problem> {
    if shared.options.access.has_token() {
        shared.tickets.redeem(ticket.as_deref()).await?;
    }
    let accept = accept_key(request.headers())?;
    let Some(upgrade) = request.extensions_mut().remove::<OnUpgrade>() else {
        return Err(not_a_websocket("the connection cannot be upgraded"));
    };
    tokio::spawn(async move {
        match upgrade.await {
            Ok(upgraded) => LiveConnection::new(TokioIo::new(upgraded), shared).run().await,
            Err(error) => tracing::debug!("a WebSocket was not opened: {error}"),
        }
    });
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    Ok(response)
}

/// Returns the answer to the key of a WebSocket.
fn accept_key(headers: &HeaderMap) -> Result<HeaderValue, Problem> {
    let has = |name: header::HeaderName, wanted: &str| {
        let values = headers.get_all(name).iter().filter_map(|it| it.to_str().ok());
        let mut words = values.flat_map(|it| it.split(',')).map(str::trim);
        words.any(|word| word.eq_ignore_ascii_case(wanted))
    };
    if !has(header::CONNECTION, "upgrade") || !has(header::UPGRADE, "websocket") {
        return Err(not_a_websocket("the request is not one for a WebSocket"));
    }
    if !has(header::SEC_WEBSOCKET_VERSION, "13") {
        return Err(not_a_websocket("only version 13 of WebSocket is supported"));
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY);
    let key = key.filter(|key| STANDARD.decode(key).is_ok_and(|it| it.len() == 16));
    let key = key.ok_or_else(|| not_a_websocket("`Sec-WebSocket-Key` is missing or not valid"))?;
    let hash = Sha1::new().chain_update(key.as_bytes()).chain_update(ACCEPT_SUFFIX).finalize();
    let accept = HeaderValue::from_str(&STANDARD.encode(hash));
    accept.map_err(|_| not_a_websocket("`Sec-WebSocket-Key` is not valid"))
}

fn not_a_websocket(detail: &str) -> Problem {
    let hint = "connect with a WebSocket client; `GET /v1/sessions/{id}/stream` needs none";
    Problem::new(StatusCode::UPGRADE_REQUIRED, detail, hint)
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct StreamParams {
    /// The cursor of the last frame that the client has. The header `Last-Event-ID` takes precedence.
    after: Option<String>,
    /// `events` for a client with a reducer, or `changes` (the default) for one without.
    view: Option<String>,
    /// The version of the client's reducer, with `view=events`.
    reducer: Option<u32>,
}

/// A session as server-sent events: what the client missed, then everything new
///
/// Each event is a frame, and its `id` is the cursor. Read it with `fetch` and a header for the
/// token; a browser's `EventSource` cannot send one.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/stream", tag = "live",
    params(
        ("id" = String, Path, description = "The id of the session"),
        StreamParams,
        ("Last-Event-ID" = Option<String>, Header, description = "The cursor of the last frame that the client has"),
    ),
    responses(
        (status = 200, description = "The frames", body = String, content_type = "text/event-stream"),
        (status = 400, description = "A parameter that is not understood", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "No token, or a wrong one", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "A host or an origin that is not allowed", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "No such session", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "The store cannot be read now", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn session_stream(
    State(shared): State<Arc<ServerShared>>,
    SessionPath(session): SessionPath,
    Params(params): Params<StreamParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let after = parse_after(last_event(&headers).or(params.after.as_deref()))?;
    let is_events = parse_view(params.view.as_deref())?;
    shared.entry(&session).await?;
    let signal = Arc::new(Signal::default());
    let options = SubscribeOptions { session, after, is_events, reducer: params.reducer };
    let subscription = Subscription::new(&shared.feeds, &shared.metrics, &signal, options);
    Ok(EventStream::respond(&shared, signal, EventSource::Session(subscription)))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct SummaryStreamParams {
    /// The cursor of the last frame that the client has. The header `Last-Event-ID` takes precedence.
    after: Option<String>,
}

/// The summaries of all sessions as they change, as server-sent events
///
/// The first frame is `ready`: whoever lists the sessions after it misses nothing. After a `gap`,
/// list them again.
#[utoipa::path(
    get, path = "/v1/stream", tag = "live",
    params(
        SummaryStreamParams,
        ("Last-Event-ID" = Option<String>, Header, description = "The cursor of the last frame that the client has"),
    ),
    responses(
        (status = 200, description = "The frames", body = String, content_type = "text/event-stream"),
        (status = 400, description = "A parameter that is not understood", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "No token, or a wrong one", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "A host or an origin that is not allowed", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn summary_stream(
    State(shared): State<Arc<ServerShared>>,
    Params(SummaryStreamParams { after }): Params<SummaryStreamParams>,
    headers: HeaderMap,
) -> Response {
    let signal = Arc::new(Signal::default());
    let after = last_event(&headers).or(after.as_deref()).filter(|it| !it.is_empty());
    let subscription = SummarySubscription::new(&shared.catalog.feed, &signal, after);
    EventStream::respond(&shared, signal, EventSource::Summaries(subscription)).into_response()
}

fn last_event(headers: &HeaderMap) -> Option<&str> {
    headers.get("last-event-id").and_then(|it| it.to_str().ok()).filter(|it| !it.is_empty())
}
