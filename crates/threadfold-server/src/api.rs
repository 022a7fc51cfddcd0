//! The routes of the server. The description for clients is made from the same functions that are
//! registered here, so no route is undocumented.

mod extract;
mod ingest;
mod live;
mod log;
mod meta;
mod page;
mod session;
mod sessions;
mod stored_export;

use std::sync::Arc;

use axum::Router;
use utoipa::OpenApi;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::problem::Problem;
use crate::shared::ServerShared;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Threadfold",
        description = "Sessions of AI agents: one state, any number of clients, no gap.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    components(schemas(Problem)),
    security(("token" = []))
)]
struct Description;

/// Returns all routes, and their description.
pub(crate) fn routes() -> (Router<Arc<ServerShared>>, utoipa::openapi::OpenApi) {
    let (router, mut description) = OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(page::page))
        .routes(routes!(page::asset))
        .routes(routes!(meta::healthz))
        .routes(routes!(meta::readyz))
        .routes(routes!(meta::metrics))
        .routes(routes!(meta::openapi))
        .routes(routes!(meta::status))
        .routes(routes!(sessions::list))
        .routes(routes!(session::get, session::remove))
        .routes(routes!(session::state))
        .routes(routes!(session::verify))
        .routes(routes!(session::blob))
        .routes(routes!(log::events))
        .routes(routes!(log::log))
        .routes(routes!(stored_export::export))
        .routes(routes!(ingest::push_records))
        .routes(routes!(live::ticket))
        .routes(routes!(live::live))
        .routes(routes!(live::session_stream))
        .routes(routes!(live::summary_stream))
        .split_for_parts();
    let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    let components = description.components.get_or_insert_default();
    components.add_security_scheme("token", scheme);
    (router, description)
}

/// Returns the description of the API, for docs and clients.
pub fn openapi() -> utoipa::openapi::OpenApi {
    routes().1
}
