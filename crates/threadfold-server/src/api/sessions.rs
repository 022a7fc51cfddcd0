//! The list of sessions.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::extract::Params;
use crate::catalog::{CatalogPage, CatalogQuery};
use crate::problem::Problem;
use crate::shared::ServerShared;
use crate::status::UnreadReport;

/// How many sessions a page has, at most and by default.
const MOST: usize = 1_000;
const DEFAULT: usize = 100;
/// How long a list waits for the first search of the machine. After that it is not complete.
const FIRST_SEARCH: Duration = Duration::from_secs(5);

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ListParams {
    /// Only sessions of this agent.
    agent: Option<String>,
    /// Only sessions whose project contains this.
    project: Option<String>,
    /// Only sessions that are being written, or only others.
    live: Option<bool>,
    /// Only sessions with this in their title or first prompt, in any case.
    text: Option<String>,
    /// The `next` of the page before.
    after: Option<String>,
    /// How many sessions at most, up to 1,000; by default 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// A page of the list, and what is missing in it.
#[derive(Serialize)]
pub(super) struct ListAnswer {
    #[serde(flatten)]
    page: CatalogPage,
    /// What was found and cannot be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unread: Vec<UnreadReport>,
}

/// The sessions, the last changed first
///
/// Length, cost and subagents of a session that is not imported yet are among its `unknown` fields.
#[utoipa::path(
    get, path = "/v1/sessions", tag = "sessions", params(ListParams),
    responses(
        (status = 200, description = "A page of sessions: `sessions`, `next`, `total`, `isComplete`, and `unread` with what was found and cannot be read", body = serde_json::Value),
        (status = 400, description = "A parameter that is not understood", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "No token, or a wrong one", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "A host or an origin that is not allowed", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(
    State(shared): State<Arc<ServerShared>>,
    Params(params): Params<ListParams>,
) -> Result<Json<ListAnswer>, Problem> {
    let limit = params.limit.unwrap_or(DEFAULT);
    if !(1..=MOST).contains(&limit) {
        let detail = format!("`limit` is {limit}");
        return Err(Problem::bad_request(detail, format!("it is between 1 and {MOST}")));
    }
    // Whatever was found by then is listed, and marked as incomplete.
    tokio::time::timeout(FIRST_SEARCH, shared.catalog.complete()).await.ok();
    let ListParams { agent, project, live, text, after, .. } = params;
    let query = CatalogQuery { agent, project, is_live: live, text, after, limit };
    let unread = shared.options.status.as_ref().map(|it| it().unread).unwrap_or_default();
    Ok(Json(ListAnswer { page: shared.catalog.list(&query), unread }))
}
