//! Requests to a server.

use std::time::Duration;

use bytes::Bytes;
use reqwest::{Method, RequestBuilder, Response, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use threadfold_engine::{Delivery, http_client};

use crate::error::ClientError;
use crate::follow::FollowedSession;
use crate::frame_stream::FrameStream;

/// How long a connection, and the beginning of an answer, may take.
const CONNECTING: Duration = Duration::from_secs(5);
const ANSWERING: Duration = Duration::from_secs(60);
/// The most bytes of one answer that is no stream.
const MAX_ANSWER: usize = 16 << 20;

/// A client of one server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    token: Option<String>,
}

/// What a server says of itself.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemoteStatus {
    /// `threadfold`.
    pub server: String,
    /// Its version.
    pub version: String,
    /// The version of its reducer.
    pub reducer: u32,
    /// How many sessions it lists.
    pub sessions: usize,
}

/// What a server has of a pushed stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PushOutcome {
    /// How many bytes of it are stored.
    pub position: u64,
    /// How many records were added.
    pub records: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RemoteProblem {
    detail: String,
    #[serde(default)]
    hint: String,
    expected_position: Option<u64>,
}

impl Client {
    /// Returns a client of the server at an address.
    pub fn new(address: &str, token: Option<String>) -> Result<Self, ClientError> {
        let refused = |source| ClientError::Address { address: address.to_owned(), source };
        let mut base = Url::parse(address).map_err(|error| refused(error.into()))?;
        if base.cannot_be_a_base() || !matches!(base.scheme(), "http" | "https") {
            return Err(refused("it is not an HTTP address".into()));
        }
        base.set_query(None);
        base.set_fragment(None);
        let builder = http_client().map_err(refused)?;
        let http = builder.connect_timeout(CONNECTING).no_proxy().build();
        Ok(Self { http: http.map_err(|error| refused(error.into()))?, base, token })
    }

    /// Returns the address of the server, for messages.
    pub fn address(&self) -> &str {
        self.base.as_str()
    }

    /// Returns what the server says of itself.
    pub async fn status(&self) -> Result<RemoteStatus, ClientError> {
        let status: RemoteStatus = self.json(self.request(Method::GET, &["v1", "status"])).await?;
        match status.server.as_str() {
            "threadfold" => Ok(status),
            other => Err(self.odd(format!("it is a server of `{other}`"))),
        }
    }

    /// Returns the ids of the last changed sessions.
    pub async fn latest(&self, limit: usize) -> Result<Vec<String>, ClientError> {
        #[derive(Deserialize)]
        struct Row {
            id: String,
        }
        #[derive(Deserialize)]
        struct Page {
            sessions: Vec<Row>,
        }
        let request = self.request(Method::GET, &["v1", "sessions"]);
        let page: Page = self.json(request.query(&[("limit", limit)])).await?;
        Ok(page.sessions.into_iter().map(|it| it.id).collect())
    }

    /// Returns the hash of a session's state on the server, and the record that it is at.
    pub async fn state_hash(
        &self,
        session: &str,
        at: Option<u64>,
    ) -> Result<(u64, String), ClientError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct State {
            seq: u64,
            state_hash: String,
        }
        let mut request = self.request(Method::GET, &["v1", "sessions", session, "state"]);
        if let Some(at) = at {
            request = request.query(&[("at", at)]);
        }
        let state: State = self.json(request).await?;
        Ok((state.seq, state.state_hash))
    }

    /// Sends bytes of an agent's stream, which begin at a position of it.
    pub async fn push(
        &self,
        session: &str,
        stream: &str,
        position: u64,
        bytes: Bytes,
        is_end: bool,
    ) -> Result<PushOutcome, ClientError> {
        let request = self.request(Method::POST, &["v1", "sessions", session, "records"]);
        let request = request
            .query(&[("stream", stream)])
            .query(&[("position", position)])
            .query(&[("end", is_end)])
            .header("content-type", "application/x-ndjson")
            .body(bytes);
        self.json(request).await
    }

    /// Follows a session from its beginning.
    pub fn follow(&self, session: impl Into<String>) -> FollowedSession {
        FollowedSession::new(self.clone(), session.into())
    }

    /// Returns the frames of a session, after a cursor or from a snapshot on.
    pub fn frames(
        &self,
        session: impl Into<String>,
        delivery: Delivery,
        after: Option<String>,
    ) -> FrameStream {
        FrameStream::new(self.clone(), session.into(), delivery, after)
    }

    /// Returns a request to a path of the server; each part is encoded.
    pub(crate) fn request(&self, method: Method, path: &[&str]) -> RequestBuilder {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        let request = self.http.request(method, url);
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    /// Sends a request, and fails if the server refuses it.
    pub(crate) async fn send(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let sent = tokio::time::timeout(ANSWERING, request.send()).await;
        let response = match sent {
            Ok(sent) => sent.map_err(|error| self.unreachable(error))?,
            Err(elapsed) => {
                let (address, source) = (self.address().to_owned(), elapsed.into());
                return Err(ClientError::Unreachable { address, source });
            }
        };
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = self.bytes(response).await.unwrap_or_default();
        let problem: Option<RemoteProblem> = serde_json::from_slice(&body).ok();
        let address = self.address().to_owned();
        Err(match problem {
            Some(RemoteProblem { detail, hint, expected_position }) => {
                let status = status.as_u16();
                ClientError::Refused { address, status, detail, hint, expected_position }
            }
            None => ClientError::Refused {
                address,
                status: status.as_u16(),
                detail: status.canonical_reason().unwrap_or("error").to_owned(),
                hint: "check that it is a server of Threadfold".to_owned(),
                expected_position: None,
            },
        })
    }

    async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, ClientError> {
        let response = self.send(request).await?;
        let bytes = self.bytes(response).await?;
        serde_json::from_slice(&bytes).map_err(|error| self.odd(error.to_string()))
    }

    /// Reads an answer, which may not be endless.
    async fn bytes(&self, mut response: Response) -> Result<Vec<u8>, ClientError> {
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.unreachable(error))? {
            if bytes.len() + chunk.len() > MAX_ANSWER {
                return Err(self.odd(format!("more than {MAX_ANSWER} bytes in one answer")));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    pub(crate) fn unreachable(&self, error: reqwest::Error) -> ClientError {
        // The address in its text may contain a ticket; ours does not.
        let source = Box::new(error.without_url());
        ClientError::Unreachable { address: self.address().to_owned(), source }
    }

    /// Returns the error that a stream ended with, if its last frame is one.
    pub(crate) fn refused_frame(&self, json: &str) -> Option<ClientError> {
        #[derive(Deserialize)]
        struct ErrorFrame {
            #[serde(rename = "type")]
            kind: String,
            status: u16,
            #[serde(flatten)]
            problem: RemoteProblem,
        }
        let ErrorFrame { kind, status, problem } = serde_json::from_str(json).ok()?;
        let RemoteProblem { detail, hint, expected_position } = problem;
        let address = self.address().to_owned();
        (kind == "error").then_some(ClientError::Refused {
            address,
            status,
            detail,
            hint,
            expected_position,
        })
    }

    pub(crate) fn odd(&self, what: String) -> ClientError {
        ClientError::Odd { address: self.address().to_owned(), what }
    }
}
