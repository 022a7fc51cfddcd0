//! The page, and its files. They are the same for everybody, and hold no data.

use axum::body::Body;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};

use crate::page_files::{self, PageFile};
use crate::problem::Problem;

/// The name of a file contains the hash of its content, so it is never another one.
const FOR_EVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
const ASK_AGAIN: HeaderValue = HeaderValue::from_static("no-cache");

/// What a browser shows of a server that was built without its page.
const NO_PAGE: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Threadfold</title>\
    <h1>Threadfold</h1><p>The server runs. It was built without its page (<code>cargo xtask web</code> \
    builds it): use its API, which <code>GET /v1/openapi.json</code> describes, or \
    <code>threadfold watch URL</code>.\n";

/// What a browser shows
///
/// It needs no token and holds no data.
#[utoipa::path(
    get, path = "/", tag = "server", security(()),
    responses(
        (status = 200, description = "A page", body = String, content_type = "text/html"),
        (status = 403, description = "A host or an origin that is not allowed", body = Problem, content_type = "application/problem+json"),
        (status = 406, description = "The client does not accept gzip", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn page(headers: HeaderMap) -> Result<Response, Problem> {
    match page_files::find("index.html") {
        Some(file) => respond(file, &headers, ASK_AGAIN),
        None => Ok(Html(NO_PAGE).into_response()),
    }
}

/// A file of the page
///
/// It needs no token and holds no data.
#[utoipa::path(
    get, path = "/assets/{name}", tag = "server", security(()),
    params(("name" = String, Path, description = "The name of the file")),
    responses(
        (status = 200, description = "The file, compressed with gzip", body = String, content_type = "application/octet-stream"),
        (status = 400, description = "A name that is not understood", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "A host or an origin that is not allowed", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "The page has no such file", body = Problem, content_type = "application/problem+json"),
        (status = 406, description = "The client does not accept gzip", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn asset(
    path: Result<Path<String>, axum::extract::rejection::PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let Path(name) = path.map_err(|_| {
        Problem::bad_request("the name of the file is not text", "open `/` for the page")
    })?;
    // A program for debugging reads files, and there a name could lead to another folder.
    let file = match name.contains(['/', '\\']) {
        true => None,
        false => page_files::find(&format!("assets/{name}")),
    };
    let file = file.ok_or_else(|| {
        Problem::new(StatusCode::NOT_FOUND, "the page has no such file", "load `/` again")
    })?;
    respond(file, &headers, FOR_EVER)
}

/// Sends a file as it is stored. A client that says nothing about encodings accepts all of them.
fn respond(file: PageFile, headers: &HeaderMap, caching: HeaderValue) -> Result<Response, Problem> {
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|it| it.to_str().ok());
    if accepted.is_some_and(|it| !accepts_gzip(it)) {
        let hint = "send `Accept-Encoding: gzip`";
        return Err(Problem::new(StatusCode::NOT_ACCEPTABLE, "the page is sent with gzip", hint));
    }
    let mut response = Response::new(Body::from(file.compressed.into_owned()));
    let sent = response.headers_mut();
    sent.insert(header::CONTENT_TYPE, HeaderValue::from_static(file.media_type));
    sent.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    sent.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    sent.insert(header::CACHE_CONTROL, caching);
    Ok(response)
}

fn accepts_gzip(accepted: &str) -> bool {
    accepted.split(',').any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|it| ["gzip", "x-gzip", "*"].contains(&it));
        let is_refused = parts.any(|it| matches!(it, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"));
        is_gzip && !is_refused
    })
}
