//! Exports of a session, in every format of the program.

use std::io::{self, Write};
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use serde::Deserialize;
use threadfold_export::{ExportFormat, file_name, has_files, write_export, write_original};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use utoipa::IntoParams;

use super::extract::{Params, SessionPath};
use super::log::streamed;
use crate::problem::Problem;
use crate::shared::ServerShared;

/// How many bytes are written at once, and how many chunks wait for the client.
const CHUNK: usize = 64 << 10;
const WAITING: usize = 4;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ExportParams {
    /// `original` (the default), `events`, `json` or `markdown`.
    format: Option<String>,
}

/// A session in another format, or as its original files
///
/// Original files come as they were, byte for byte; several of them in one tar archive.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/export", tag = "sessions",
    params(("id" = String, Path, description = "The id of the session"), ExportParams),
    responses(
        (status = 200, description = "The export", content_type = "application/octet-stream"),
        (status = 400, description = "A parameter that is not understood", body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "No token, or a wrong one", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "A host or an origin that is not allowed", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "No such session", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The session has no original files", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "The store cannot be read now", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn export(
    State(shared): State<Arc<ServerShared>>,
    SessionPath(id): SessionPath,
    Params(ExportParams { format }): Params<ExportParams>,
) -> Result<Response, Problem> {
    let format = match format.as_deref() {
        None => ExportFormat::Original,
        Some(name) => ExportFormat::from_name(name).ok_or_else(|| {
            let hint = "`format` is `original`, `events`, `json` or `markdown`";
            Problem::bad_request(format!("`{name}` is not a format"), hint)
        })?,
    };
    let entry = shared.entry(&id).await?;
    let store = shared.host.store().clone();
    let budget = shared.options.budget.clone();
    let (kind, ending) = match format {
        ExportFormat::Original => {
            if !has_files(&*store, &id).await? {
                return Err(Problem::new(
                    axum::http::StatusCode::CONFLICT,
                    "the session has no original files",
                    "export it as `events`, `json` or `markdown`",
                ));
            }
            ("application/x-tar", "tar")
        }
        ExportFormat::Events => ("application/x-ndjson", format.ending()),
        ExportFormat::Json => ("application/json", format.ending()),
        ExportFormat::Markdown => ("text/markdown; charset=utf-8", format.ending()),
    };
    let (sender, receiver) = mpsc::channel(WAITING);
    let (runtime, session) = (Handle::current(), id.clone());
    tokio::task::spawn_blocking(move || {
        let mut out = io::BufWriter::with_capacity(CHUNK, ChunkWriter(sender.clone()));
        let written = match format {
            ExportFormat::Original => {
                write_original(&runtime, &*store, &session, &mut out).map_err(io::Error::other)
            }
            format => write_export(&runtime, &store, &entry, format, budget, &mut out),
        };
        if let Err(error) = written.and_then(|()| out.flush())
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            tracing::warn!(%session, "an export failed: {error}");
            // The client sees that the body is cut.
            sender.blocking_send(Err(error)).ok();
        }
    });
    let mut response = streamed(receiver, HeaderValue::from_static(kind));
    let name = format!("{}.{ending}", file_name(id.as_str()));
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "-_.%".contains(it);
    let name: String = name.chars().map(|it| if is_plain(it) { it } else { '_' }).collect();
    if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")) {
        response.headers_mut().insert(header::CONTENT_DISPOSITION, value);
    }
    Ok(response)
}

/// Sends what is written to a response.
struct ChunkWriter(mpsc::Sender<io::Result<Bytes>>);

impl Write for ChunkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(Ok(Bytes::copy_from_slice(bytes)));
        // The client is gone.
        sent.map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
