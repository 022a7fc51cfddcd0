//! Health, metrics, status, and the description of the API.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use threadfold_fold::with_causes;
use threadfold_store::StoreError;
use utoipa::ToSchema;

use crate::metrics::Gauge;
use crate::problem::Problem;
use crate::shared::ServerShared;
use crate::status::StatusReport;

/// How long the store may take to answer before the server counts as not ready.
const READY_WITHIN: Duration = Duration::from_secs(3);

/// Whether the server answers
///
/// It needs no token and reveals nothing.
#[utoipa::path(
    get, path = "/healthz", tag = "server", security(()),
    responses(
        (status = 200, description = "The server answers", body = String, content_type = "text/plain"),
        (status = 403, description = "A host or an origin that is not allowed", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether the server can be used: its store answers, and no newer program has migrated it
///
/// It needs no token and reveals nothing. A server that is not ready still answers what it can; send
/// clients to another one.
#[utoipa::path(
    get, path = "/readyz", tag = "server", security(()),
    responses(
        (status = 200, description = "The server can be used", body = String, content_type = "text/plain"),
        (status = 403, description = "A host or an origin that is not allowed", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "The store cannot be used now", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn readyz(
    State(shared): State<Arc<ServerShared>>,
) -> Result<&'static str, Problem> {
    let checked = tokio::time::timeout(READY_WITHIN, shared.host.store().ready()).await;
    let why = match checked {
        Ok(Ok(())) => return Ok("ready\n"),
        Ok(Err(error)) => {
            tracing::warn!("not ready: {}", with_causes(&error));
            match error {
                StoreError::Newer { .. } => "a newer program has migrated the store",
                _ => "the store cannot be used",
            }
        }
        Err(_) => "the store does not answer",
    };
    Err(Problem::busy(why))
}

/// The server's numbers, for Prometheus
#[utoipa::path(
    get, path = "/metrics", tag = "server",
    responses(
        (status = 200, description = "The numbers", body = String, content_type = "text/plain"),
        (status = 401, description = "No token, or a wrong one", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "A host or an origin that is not allowed", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn metrics(State(shared): State<Arc<ServerShared>>) -> Response {
    let gauge = |name, help, value| Gauge { name, help, value };
    let gauges = [
        gauge("sessions", "Sessions in the list.", shared.catalog.len() as u64),
        gauge("sessions_open", "Sessions open for writing.", shared.writers.open_count() as u64),
        gauge("feeds", "Sessions in a view that somebody watches.", shared.feeds.count() as u64),
        gauge("uptime_seconds", "Seconds since the start.", shared.started.elapsed().as_secs()),
    ];
    let text = shared.metrics.text(&gauges);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}

/// The description of this API
#[utoipa::path(
    get, path = "/v1/openapi.json", tag = "server",
    responses(
        (status = 200, description = "OpenAPI 3.1", body = serde_json::Value),
        (status = 401, description = "No token, or a wrong one", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "A host or an origin that is not allowed", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn openapi() -> Json<utoipa::openapi::OpenApi> {
    Json(super::openapi())
}

/// What the server is, and what it knows of its sources.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    /// Always `threadfold`, by which a client recognizes the server.
    server: &'static str,
    /// The version of the program.
    version: &'static str,
    /// The version of the frames.
    protocol: u32,
    /// The version of the reducer.
    reducer: u32,
    /// Clients can only read.
    is_read_only: bool,
    /// How many sessions are listed.
    sessions: usize,
    /// All sessions of this machine were looked for.
    is_complete: bool,
    #[serde(flatten)]
    report: StatusReport,
}

/// Version, store, sources, what could not be read, and the progress of the import
#[utoipa::path(
    get, path = "/v1/status", tag = "server",
    responses(
        (status = 200, description = "The status", body = Status),
        (status = 401, description = "No token, or a wrong one", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "A host or an origin that is not allowed", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn status(State(shared): State<Arc<ServerShared>>) -> Json<Status> {
    let page = shared.catalog.list(&Default::default());
    Json(Status {
        server: "threadfold",
        version: env!("CARGO_PKG_VERSION"),
        protocol: threadfold_engine::PROTOCOL,
        reducer: threadfold_engine::REDUCER,
        is_read_only: shared.options.is_read_only,
        sessions: page.total,
        is_complete: page.is_complete,
        report: shared.options.status.as_ref().map(|it| it()).unwrap_or_default(),
    })
}
