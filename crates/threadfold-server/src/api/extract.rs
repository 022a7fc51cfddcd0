//! Reads the parts of a request, and refuses what cannot be read with a problem and a hint.

use std::time::Duration;

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::StatusCode;
use axum::http::request::Parts;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use threadfold_core::SessionId;

use crate::problem::Problem;

/// The longest id of a session that is looked for.
const LONGEST_ID: usize = 1024;

/// The id of a session in a path. It is looked up, and never becomes a path or an argument.
pub(crate) struct SessionPath(pub(crate) SessionId);

impl<S: Send + Sync> FromRequestParts<S> for SessionPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Path(id) = Path::<String>::from_request_parts(parts, state).await.map_err(bad_path)?;
        session_id(&id).map(Self)
    }
}

/// The id of a session, and another part of the path.
pub(crate) struct SessionPathAnd(pub(crate) SessionId, pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for SessionPathAnd {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::<(String, String)>::from_request_parts(parts, state).await;
        let Path((id, rest)) = path.map_err(bad_path)?;
        Ok(Self(session_id(&id)?, rest))
    }
}

fn bad_path(rejection: PathRejection) -> Problem {
    Problem::bad_request(rejection.body_text(), "an id in a path is percent-encoded UTF-8")
}

fn session_id(id: &str) -> Result<SessionId, Problem> {
    match id.is_empty() || id.len() > LONGEST_ID {
        true => Err(Problem::bad_request(
            format!("an id has between 1 and {LONGEST_ID} bytes, and this has {}", id.len()),
            "`GET /v1/sessions` lists the sessions",
        )),
        false => Ok(SessionId::from(id)),
    }
}

/// The parameters of a request.
pub(crate) struct Params<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let query = Query::<T>::from_request_parts(parts, state).await.map_err(|rejection| {
            let hint = "`GET /v1/openapi.json` describes the parameters";
            Problem::bad_request(rejection.body_text(), hint)
        })?;
        Ok(Self(query.0))
    }
}

/// A body as far as it arrived, and whether all of it did.
pub(crate) struct ReceivedBody {
    pub(crate) bytes: Bytes,
    pub(crate) is_whole: bool,
}

/// Reads a body of limited length in limited time. One that is cut is returned as far as it came.
pub(crate) async fn read_body(
    mut body: Body,
    most: usize,
    time: Duration,
) -> Result<ReceivedBody, Problem> {
    let mut bytes = BytesMut::new();
    let read = async {
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return Ok(false) };
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > most {
                let detail = format!("the body has more than {most} bytes");
                let hint = "send it in several requests, each with its position";
                return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail, hint));
            }
            bytes.extend_from_slice(&data);
        }
        Ok(true)
    };
    let is_whole = match tokio::time::timeout(time, read).await {
        Ok(read) => read?,
        Err(_) => {
            let detail = format!("the body did not arrive within {} seconds", time.as_secs());
            let hint = "send it in several requests, each with its position";
            return Err(Problem::new(StatusCode::REQUEST_TIMEOUT, detail, hint));
        }
    };
    Ok(ReceivedBody { bytes: bytes.freeze(), is_whole })
}
