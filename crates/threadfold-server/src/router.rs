//! The router: every request is checked in one order, before any route sees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use threadfold_engine::{Host, Writers};

use crate::api;
use crate::options::ServerOptions;
use crate::problem::Problem;
use crate::server::Server;
use crate::shared::ServerShared;

/// The routes that are free, and hold no data.
const FREE: [&str; 3] = ["/", "/healthz", "/readyz"];
/// The files of the page are free as well.
const ASSETS: &str = "/assets/";
/// A WebSocket has a ticket instead of the token.
const LIVE: &str = "/v1/live";

/// What a page of this server may do: load its own scripts, styles and images, and nothing else.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; \
     img-src 'self' data:; font-src 'self'; connect-src 'self'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'";

/// Returns a router with all sessions of a host, to be mounted in any axum program.
///
/// The program that serves it passes requests on as they came: with their `Host` and `Origin`.
pub fn router(host: Host, options: ServerOptions) -> Router {
    Server::new(host, options).router()
}

pub(crate) fn router_of(shared: Arc<ServerShared>) -> Router {
    let (routes, _) = api::routes();
    let check = from_fn_with_state(shared.clone(), check);
    routes.fallback(no_route).method_not_allowed_fallback(no_method).layer(check).with_state(shared)
}

pub(crate) fn shared(
    host: Host,
    writers: Option<Writers>,
    options: ServerOptions,
) -> Arc<ServerShared> {
    ServerShared::new(host, writers, options)
}

async fn no_route() -> Problem {
    let hint = "`GET /v1/openapi.json` describes all routes";
    Problem::new(StatusCode::NOT_FOUND, "there is no such route", hint)
}

async fn no_method(method: Method) -> Problem {
    let detail = format!("the route does not accept `{method}`");
    let hint = "`GET /v1/openapi.json` describes all routes";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail, hint)
}

/// Checks a request: its host and origin, then its token; and adds the headers of every response.
async fn check(State(shared): State<Arc<ServerShared>>, request: Request, next: Next) -> Response {
    shared.metrics.requests.add(1);
    let id = request_id();
    // Never with the query: a ticket may be in it.
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let mut response = match permit(&shared, &request) {
        Ok(()) => next.run(request).await,
        Err(problem) => {
            shared.metrics.refused.add(1);
            problem.into_response()
        }
    };
    let status = response.status();
    if status.is_server_error() && status != StatusCode::SERVICE_UNAVAILABLE {
        shared.metrics.failures.add(1);
    }
    tracing::info!(request = %id, %method, path, status = status.as_u16(), "answered");
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert("x-request-id", id);
    }
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, CONTENT_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

fn permit(shared: &ServerShared, request: &Request) -> Result<(), Problem> {
    let access = &shared.options.access;
    access.check_names(request.uri(), request.headers())?;
    match request.uri().path() {
        LIVE => Ok(()),
        path if FREE.contains(&path) || path.starts_with(ASSETS) => Ok(()),
        _ => access.check_token(request.headers()),
    }
}

/// Returns an id for a request, by which its lines in the log are found.
fn request_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("r{}", NEXT.fetch_add(1, Ordering::Relaxed))
}
