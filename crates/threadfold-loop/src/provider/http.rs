//! One HTTP request: the body is sent verbatim, and the response is bounded in size and time.

use std::fmt;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use jiff::Timestamp;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Client, Response, Url};
use threadfold_engine::http_client;
use tokio::time::timeout;

use super::access::AccessError;
use super::error::ProviderError;
use super::failure::{Failure, message_in, status_in};
use super::key::Key;
use super::retry_after::retry_after;

/// The maximum size of an answer's content in bytes: ten times what a model writes, or several
/// images. It is in memory up to eight times while it is recorded, stored and shown.
const CONTENT_LIMIT: usize = 6 * 1024 * 1024;
/// The maximum size of a response in bytes. A stream repeats an envelope with every piece, and is
/// not in memory as a whole.
const ANSWER_LIMIT: usize = 512 * 1024 * 1024;
/// How much of a refusal is read.
const REFUSAL_LIMIT: usize = 64 * 1024;

/// The timeouts of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For establishing a connection; default: 30 seconds.
    pub connect: Duration,
    /// For the first byte of the answer, and between its parts; default: 120 seconds.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { connect: Duration::from_secs(30), idle: Duration::from_secs(120) }
    }
}

/// The address and headers of a provider.
#[derive(Clone)]
pub(super) struct Endpoint {
    provider: &'static str,
    url: Url,
    headers: HeaderMap,
    key: Key,
    timeouts: Timeouts,
    client: Client,
}

impl Endpoint {
    /// Returns the endpoint for `address`. `path` derives the full path from the address's own.
    pub(super) fn new(
        provider: &'static str,
        address: &str,
        key: Key,
        headers: &[(&'static str, HeaderValue)],
        path: fn(&str) -> String,
    ) -> Result<Self, AccessError> {
        let wrong = |what: String| AccessError::Address { address: address.to_owned(), what };
        let mut url = Url::parse(address).map_err(|error| wrong(error.to_string()))?;
        if !url.username().is_empty() || url.password().is_some() {
            let address = url.host_str().unwrap_or_default().to_owned();
            let what = "it contains a user name or password".to_owned();
            return Err(AccessError::Address { address, what });
        }
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(wrong("it does not start with `http://` or `https://`".to_owned()));
        }
        let path = path(url.path().trim_end_matches('/'));
        url.set_path(&path);

        let named = |(name, value): &(&'static str, HeaderValue)| {
            (HeaderName::from_static(name), value.clone())
        };
        let mut headers: HeaderMap = headers.iter().map(named).collect();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let timeouts = Timeouts::default();
        let client = client(timeouts)?;
        Ok(Self { provider, url, headers, key, timeouts, client })
    }

    pub(super) fn with_timeouts(self, timeouts: Timeouts) -> Result<Self, AccessError> {
        Ok(Self { timeouts, client: client(timeouts)?, ..self })
    }

    /// Sends `request`, and returns the body once the response starts.
    pub(super) async fn post(&self, request: Bytes) -> Result<Body<'_>, ProviderError> {
        let request =
            self.client.post(self.url.clone()).headers(self.headers.clone()).body(request);
        let response = match timeout(self.timeouts.idle, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) if error.is_connect() => {
                return Err(self.lost("connecting failed", error));
            }
            Ok(Err(error)) => return Err(self.lost("the connection was lost", error)),
            Err(_) => return Err(self.silent()),
        };
        match response.status().is_success() {
            true => Ok(Body::new(self, response, ANSWER_LIMIT)),
            false => Err(self.refusal(response).await),
        }
    }

    async fn refusal(&self, response: Response) -> ProviderError {
        let status = response.status();
        let mut effective_status = status.as_u16();
        let after = retry_after(response.headers(), Timestamp::now());
        let target = response.headers().get(LOCATION).and_then(|it| it.to_str().ok());
        let message = match target.filter(|_| status.is_redirection()) {
            Some(target) => format!("redirected to `{target}`, where the key is not sent"),
            None => {
                let mut body = Body::new(self, response, REFUSAL_LIMIT);
                // A truncated error message is more useful than the error that truncated it.
                while let Ok(true) = body.fill().await {}
                let text = String::from_utf8_lossy(&body.waiting);
                effective_status = status_in(&text, effective_status);
                message_in(&text)
                    .or_else(|| status.canonical_reason().map(str::to_owned))
                    .unwrap_or_default()
            }
        };
        let message = self.key.hide_in(message);
        let error = ProviderError::of_status(self.provider, effective_status, message);
        match after {
            Some(delay) => error.with_retry_after(delay),
            None => error,
        }
    }

    /// Returns the error for an answer that cannot be used.
    pub(super) fn failed(&self, failure: Failure) -> ProviderError {
        match failure {
            Failure::Reported { status, message } => {
                let message = self.key.hide_in(message);
                ProviderError::of_status(self.provider, status, message)
            }
            Failure::Malformed { what, cause } => {
                // A parser error quotes its input, which may contain the key.
                let source = cause.map(|cause| self.key.hide_in(cause.to_string()).into());
                let (provider, what) = (self.provider.to_owned(), self.key.hide_in(what));
                ProviderError::Broken { provider, what, source }
            }
        }
    }

    pub(super) fn broken(&self, what: &str) -> ProviderError {
        let (provider, what) = (self.provider.to_owned(), what.to_owned());
        ProviderError::Broken { provider, what, source: None }
    }

    /// Returns an error if an answer of this size is too large.
    pub(super) fn check_size(&self, bytes: usize) -> Result<(), ProviderError> {
        match bytes > CONTENT_LIMIT {
            true => Err(ProviderError::TooLarge {
                provider: self.provider.to_owned(),
                limit: CONTENT_LIMIT,
            }),
            false => Ok(()),
        }
    }

    fn silent(&self) -> ProviderError {
        self.broken(&format!("no data for {:?}", self.timeouts.idle))
    }

    fn lost(&self, what: &str, error: reqwest::Error) -> ProviderError {
        let (provider, what) = (self.provider.to_owned(), what.to_owned());
        let source = Some(error.without_url().into());
        ProviderError::Broken { provider, what, source }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("provider", &self.provider)
            .field("host", &self.url.host_str())
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

fn client(timeouts: Timeouts) -> Result<Client, AccessError> {
    http_client()
        .map_err(AccessError::Client)?
        .connect_timeout(timeouts.connect)
        .build()
        .map_err(|error| AccessError::Client(error.into()))
}

/// The body of a response.
pub(super) struct Body<'a> {
    endpoint: &'a Endpoint,
    response: Response,
    limit: usize,
    /// The number of bytes received.
    read: usize,
    /// The bytes that were not consumed yet.
    waiting: BytesMut,
    /// How many of those were already searched for a line end.
    scanned: usize,
    is_closed: bool,
}

impl<'a> Body<'a> {
    fn new(endpoint: &'a Endpoint, response: Response, limit: usize) -> Self {
        let waiting = BytesMut::new();
        Self { endpoint, response, limit, read: 0, waiting, scanned: 0, is_closed: false }
    }

    pub(super) fn endpoint(&self) -> &'a Endpoint {
        self.endpoint
    }

    /// Returns true if the body is one JSON object instead of a stream. Also strips a byte order
    /// mark.
    pub(super) async fn is_json(&mut self) -> Result<bool, ProviderError> {
        const MARK: &[u8] = b"\xef\xbb\xbf";
        while self.waiting.len() < MARK.len() && self.fill().await? {}
        if self.waiting.starts_with(MARK) {
            self.waiting.advance(MARK.len());
        }
        let mut at = 0;
        loop {
            let rest = self.waiting.get(at..).unwrap_or_default();
            match rest.iter().find(|it| !it.is_ascii_whitespace()) {
                Some(first) => return Ok(*first == b'{'),
                None => at = self.waiting.len(),
            }
            if !self.fill().await? {
                return Ok(false);
            }
        }
    }

    /// Reads the whole body.
    pub(super) async fn text(mut self) -> Result<String, ProviderError> {
        while self.fill().await? {
            self.endpoint.check_size(self.waiting.len())?;
        }
        String::from_utf8(self.waiting.to_vec()).map_err(|_| self.endpoint.broken(NO_TEXT))
    }

    /// Reads the next line, including its line end.
    ///
    /// The last line is followed by an empty one, so that the end of the body completes an event
    /// that the server did not terminate.
    pub(super) async fn line(&mut self) -> Result<Option<Bytes>, ProviderError> {
        loop {
            let fresh = self.waiting.get(self.scanned..).unwrap_or_default();
            if let Some(at) = fresh.iter().position(|it| *it == b'\n') {
                let line = self.waiting.split_to(self.scanned + at + 1).freeze();
                self.scanned = 0;
                return self.checked(line).map(Some);
            }
            self.scanned = self.waiting.len();
            self.endpoint.check_size(self.scanned)?;
            if self.is_closed {
                return Ok(None);
            }
            if !self.fill().await? {
                self.is_closed = true;
                self.waiting.extend_from_slice(b"\n\n");
            }
        }
    }

    fn checked(&self, line: Bytes) -> Result<Bytes, ProviderError> {
        match std::str::from_utf8(&line) {
            Ok(_) => Ok(line),
            Err(_) => Err(self.endpoint.broken(NO_TEXT)),
        }
    }

    /// Reads more data. Returns false at the end of the body.
    async fn fill(&mut self) -> Result<bool, ProviderError> {
        let endpoint = self.endpoint;
        let chunk = match timeout(endpoint.timeouts.idle, self.response.chunk()).await {
            Ok(Ok(Some(chunk))) => chunk,
            Ok(Ok(None)) => return Ok(false),
            Ok(Err(error)) => return Err(endpoint.lost("the connection was lost", error)),
            Err(_) => return Err(endpoint.silent()),
        };
        self.read += chunk.len();
        if self.read > self.limit {
            let limit = self.limit;
            return Err(endpoint.broken(&format!("the response exceeds {limit} bytes")));
        }
        self.waiting.extend_from_slice(&chunk);
        Ok(true)
    }
}

const NO_TEXT: &str = "the response is not valid UTF-8";
