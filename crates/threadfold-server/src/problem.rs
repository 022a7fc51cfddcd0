//! Errors as clients see them: `application/problem+json`, with a hint of what to do.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use threadfold_engine::{EngineError, PushError};
use threadfold_fold::with_causes;
use threadfold_store::StoreError;
use utoipa::ToSchema;

/// Why a request failed, as RFC 9457 describes it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// The kind of problem, in a few words.
    pub title: &'static str,
    /// What happened.
    pub detail: String,
    /// What to do about it.
    pub hint: String,
    /// For a stream that was pushed: how many bytes of it are stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_position: Option<u64>,
    /// How many seconds to wait before another attempt.
    #[serde(skip)]
    pub(crate) retry_after: Option<u32>,
}

impl Problem {
    pub(crate) fn new(
        status: StatusCode,
        detail: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        let title = status.canonical_reason().unwrap_or("error");
        let (detail, hint) = (detail.into(), hint.into());
        let status = status.as_u16();
        Self { status, title, detail, hint, expected_position: None, retry_after: None }
    }

    pub(crate) fn bad_request(detail: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail, hint)
    }

    pub(crate) fn no_session(id: &str) -> Self {
        let detail = format!("there is no session `{id}`");
        Self::new(StatusCode::NOT_FOUND, detail, "`GET /v1/sessions` lists the sessions")
    }

    /// Returns the problem of a server that has no room for more: another attempt may succeed.
    pub(crate) fn busy(detail: impl Into<String>) -> Self {
        let hint = "wait as long as `Retry-After` says, then try again";
        let problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, detail, hint);
        Self { retry_after: Some(2), ..problem }
    }

    pub(crate) fn read_only() -> Self {
        let detail = "the server was started with `--read-only`";
        Self::new(
            StatusCode::FORBIDDEN,
            detail,
            "start it without `--read-only` to change sessions",
        )
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if status.is_server_error() && status != StatusCode::SERVICE_UNAVAILABLE {
            tracing::error!(status = self.status, "{}", self.detail);
        }
        let json = serde_json::to_vec(&self).expect("a problem has no keys that are not text");
        let mut response = Response::new(Body::from(json));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        let kind = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, kind);
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let detail = with_causes(&error);
        match error {
            StoreError::NotFound { session } => Self::no_session(session.as_str()),
            StoreError::Held { remaining, .. } => {
                let seconds = u32::try_from(remaining.as_secs()).unwrap_or(30).clamp(1, 30);
                let hint = "wait until that process is done, then try again".into();
                Self { hint, retry_after: Some(seconds), ..Self::busy(detail) }
            }
            StoreError::Fenced { .. } | StoreError::Conflict { .. } => Self::new(
                StatusCode::CONFLICT,
                detail,
                "another process wrote the session; try again",
            ),
            StoreError::Unreachable { .. } | StoreError::Unwritable { .. } => {
                let problem = Self::busy(detail);
                Self { hint: "check the store and its disk, then try again".into(), ..problem }
            }
            StoreError::Newer { .. } => {
                let hint = "use a server of the newer version; this one no longer writes".into();
                Self { hint, ..Self::busy(detail) }
            }
            _ => {
                let hint = "`threadfold doctor` on the server reports what is wrong";
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, detail, hint)
            }
        }
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        let detail = with_causes(&error);
        match error {
            EngineError::Store(error) => error.into(),
            EngineError::IsRun { .. } | EngineError::NotTheLoop { .. } => {
                let hint = "push the records to a session of another id";
                Self::new(StatusCode::CONFLICT, detail, hint)
            }
            EngineError::Spill { .. } => {
                let problem = Self::busy(detail);
                Self { hint: "free disk space on the server, then try again".into(), ..problem }
            }
            _ => {
                let hint = "`threadfold reindex` on the server rebuilds snapshots and summaries";
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, detail, hint)
            }
        }
    }
}

impl From<PushError> for Problem {
    fn from(error: PushError) -> Self {
        let detail = error.to_string();
        match error {
            PushError::Gap { expected, .. } | PushError::Ended { end: expected } => {
                let hint = "send the stream from `expectedPosition` on, or begin another stream";
                let problem = Self::new(StatusCode::CONFLICT, detail, hint);
                Self { expected_position: Some(expected), ..problem }
            }
            PushError::Unrecognized { .. } => Self::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                detail,
                "send whole lines from the beginning of the stream, or name its format with `?format=`",
            ),
            PushError::OtherAgent { .. } => {
                let hint = "push the stream to a session of its own";
                Self::new(StatusCode::CONFLICT, detail, hint)
            }
            PushError::Engine(error) => error.into(),
            _ => Self::bad_request(detail, "check the request"),
        }
    }
}
