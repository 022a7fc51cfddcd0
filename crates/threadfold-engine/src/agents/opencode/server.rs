//! A running OpenCode server: reads its event bus, and reconnects after every interruption.
//!
//! The bus does not replay events, so a client that connects late or again has missed some. At
//! every connection the current state of the session and its children is requested, and what is
//! not in the log yet is added in the bus's own format before the next events.
//!
//! A server of version 2 has other paths, and answers on the old ones with a web page; see
//! [`newer`].

mod bus;
mod catch_up;
mod dedup;
mod environment;
mod newer;
mod password;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use reqwest::{Client, Response, StatusCode, Url};
use serde::Deserialize;
use threadfold_convert::opencode::AGENT;
use threadfold_core::SessionId;
use threadfold_fold::{Cutter, Record, SourceRole, SourceSpec, with_causes};

use crate::error::EngineError;
use crate::http_client::http_client;
use crate::open_path::InputError;
use crate::server::{Server, ServerError, Stop};
use crate::session::Session;
use crate::shown_address::without_password;
use dedup::Deduplicator;
use environment::{Disconnect, ServerEnvironment};
use password::Credentials;

pub(super) use password::password;

/// The most bytes of one answer: a whole history is one.
const MAX_ANSWER: usize = 256 << 20;

/// The timeout for a connection.
const CONNECTING: Duration = Duration::from_secs(5);
/// The timeout without data: the bus sends a heartbeat every ten seconds.
const SILENCE: Duration = Duration::from_secs(30);
/// The delay before the next attempt, at first and at most.
const WAITS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// A server of OpenCode.
#[derive(Clone, Debug)]
pub struct OpencodeServer {
    client: Client,
    /// Its address, without a user and a password.
    base: Url,
    credentials: Option<Credentials>,
    silence: Duration,
    /// It is one of version 2.
    is_newer: Arc<AtomicBool>,
}

/// A session as a server lists it.
#[derive(Clone, Debug, Deserialize)]
pub struct ServerSession {
    /// Its id.
    pub id: String,
    /// Its working directory.
    pub directory: String,
    /// Its parent session.
    #[serde(default, rename = "parentID")]
    pub parent: Option<String>,
    /// Its title.
    #[serde(default)]
    pub title: Option<String>,
    /// When it was created and last changed.
    #[serde(default)]
    pub time: ServerTime,
}

/// When a session was created and last changed, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct ServerTime {
    /// Last changed.
    #[serde(default)]
    pub updated: f64,
}

impl OpencodeServer {
    /// Returns the server at an address.
    ///
    /// A user and a password in the address are used, and never shown or stored.
    pub fn new(address: &str) -> Result<Self, InputError> {
        let shown = without_password(address);
        let refused = |reason: String| InputError::Address { address: shown.clone(), reason };
        let parsed = Url::parse(address).and_then(|url| match url.cannot_be_a_base() {
            true => Err(url::ParseError::RelativeUrlWithoutBase),
            false => Ok(url),
        });
        let mut base = parsed.map_err(|error| refused(error.to_string()))?;
        let credentials = Credentials::take(&mut base);
        let builder = http_client().map_err(|error| refused(error.to_string()))?;
        let client = builder.connect_timeout(CONNECTING).no_proxy().build();
        let client = client.map_err(|error| refused(with_causes(&error)))?;
        let is_newer = Arc::default();
        Ok(Self { client, base, credentials, silence: SILENCE, is_newer })
    }

    /// Sets the password, unless the address has one.
    pub fn with_password(mut self, password: Option<String>) -> Self {
        self.credentials = self.credentials.or(password.map(Credentials::of_password));
        self
    }

    fn is_newer(&self) -> bool {
        self.is_newer.load(Ordering::Relaxed)
    }

    fn set_newer(&self) {
        self.is_newer.store(true, Ordering::Relaxed);
    }

    /// Returns the address for messages.
    fn address(&self) -> String {
        self.base.to_string()
    }

    /// Sets the timeout without data, for requests and for the bus.
    pub fn with_silence(mut self, silence: Duration) -> Self {
        self.silence = silence;
        self
    }

    /// Returns the sessions without a parent, the last changed first.
    pub async fn sessions(&self) -> Result<Vec<ServerSession>, ServerError> {
        if self.is_newer() {
            return self.newer_sessions().await;
        }
        let mut all: Vec<ServerSession> = match self.json("session", &[]).await {
            Err(ServerError::Page { .. }) => {
                self.recognize().await?;
                return self.newer_sessions().await;
            }
            all => all?,
        };
        all.retain(|session| session.parent.is_none());
        all.sort_by(|one, other| other.time.updated.total_cmp(&one.time.updated));
        Ok(all)
    }

    /// Returns one session.
    pub async fn session(&self, id: &str) -> Result<ServerSession, ServerError> {
        let no_session = |error| match error {
            ServerError::Unreachable { is_refusal: true, .. } => {
                ServerError::NoSession { address: self.address(), session: id.to_owned() }
            }
            other => other,
        };
        if !self.is_newer() {
            match self.json(&format!("session/{}", segment(id)), &[]).await {
                Err(ServerError::Page { .. }) => self.recognize().await?,
                session => return session.map_err(no_session),
            }
        }
        self.newer_session(id).await.map_err(no_session)
    }

    /// Reads everything that a session and its children emit, until `stop` is done.
    ///
    /// If the server goes away, retries until it is back, and logs both.
    pub async fn follow(
        &self,
        session: &mut Session,
        of: &ServerSession,
        stop: impl Future<Output = ()>,
    ) -> Result<(), EngineError> {
        let mut stop = std::pin::pin!(stop);
        let mut wait = WAITS.0;
        let mut hearing = BusConnectionState::begin(session, of).await?;
        loop {
            let silence = tokio::select! {
                () = &mut stop => return Ok(()),
                silence = self.listen(session, of, &mut hearing) => silence?,
            };
            if silence.has_received {
                wait = WAITS.0;
            }
            hearing.environment.record_disconnect(session, &silence).await?;
            tokio::select! {
                () = &mut stop => return Ok(()),
                () = tokio::time::sleep(wait) => {}
            }
            wait = (wait * 2).min(WAITS.1);
        }
    }

    async fn json<T: for<'de> Deserialize<'de>>(
        &self,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<T, ServerError> {
        let mut response = self.get(path, query).await?;
        // A server of version 2 answers on every path that it does not know with its web page.
        let content = response.headers().get("content-type").and_then(|it| it.to_str().ok());
        if content.is_some_and(|it| it.starts_with("text/html")) {
            return Err(ServerError::Page { address: self.address() });
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = self.with_timeout(response.chunk()).await? {
            if bytes.len() + chunk.len() > MAX_ANSWER {
                return Err(ServerError::TooLarge { address: self.address(), limit: MAX_ANSWER });
            }
            bytes.extend_from_slice(&chunk);
        }
        serde_json::from_slice(&bytes).map_err(|_| ServerError::NoSession {
            address: self.address(),
            session: path.to_owned(),
        })
    }

    async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Response, ServerError> {
        let mut url = self.base.clone();
        let base = url.path().trim_end_matches('/').to_owned();
        url.set_path(&format!("{base}/{path}"));
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let mut request = self.client.get(url);
        if let Some(Credentials { user, password }) = &self.credentials {
            request = request.basic_auth(user, Some(password));
        }
        let response = self.with_timeout(request.send()).await?;
        if response.status() == StatusCode::UNAUTHORIZED {
            let has_password = self.credentials.is_some();
            let (address, variable) = (self.address(), password::VARIABLES[0]);
            return Err(ServerError::Unauthorized { address, has_password, variable });
        }
        if response.status().is_redirection() {
            return Err(ServerError::Redirect { address: self.address() });
        }
        let failed = |error| ServerError::unreachable(self.address(), error);
        response.error_for_status().map_err(failed)
    }

    /// Waits for a response, or for more of one, until the timeout.
    async fn with_timeout<T>(
        &self,
        answer: impl Future<Output = Result<T, reqwest::Error>>,
    ) -> Result<T, ServerError> {
        let address = || self.address();
        match tokio::time::timeout(self.silence, answer).await {
            Ok(answer) => answer.map_err(|error| ServerError::unreachable(address(), error)),
            Err(_) => Err(ServerError::Silent { address: address(), silence: self.silence }),
        }
    }
}

impl OpencodeServer {
    /// Reads events until the connection ends.
    async fn listen(
        &self,
        session: &mut Session,
        of: &ServerSession,
        hearing: &mut BusConnectionState,
    ) -> Result<Disconnect, EngineError> {
        let (path, query) = match self.is_newer() {
            true => ("api/event", Vec::new()),
            false => ("event", vec![("directory", of.directory.as_str())]),
        };
        let mut response = match self.get(path, &query).await {
            Ok(response) => response,
            Err(error) => return Ok(Disconnect::after(false, &error)),
        };
        let mut lines = BusLineFilter::new();
        if let Err(error) = self.catch_up_into(session, of, hearing, &mut lines).await? {
            return Ok(Disconnect::after(false, &error));
        }
        let mut has_received = false;
        loop {
            match self.with_timeout(response.chunk()).await {
                Ok(Some(chunk)) => {
                    let taken = lines.take(&chunk, &mut hearing.family);
                    for cut in &taken {
                        hearing.dedup.is_new(&cut.bytes);
                    }
                    has_received |= !taken.is_empty();
                    lines.keep(session, taken).await?;
                    // The bus drops events of a slow reader.
                    if hearing.dedup.has_gap
                        && let Err(error) =
                            self.catch_up_into(session, of, hearing, &mut lines).await?
                    {
                        return Ok(Disconnect::after(has_received, &error));
                    }
                    hearing.environment.record_connection(session).await?;
                }
                Ok(None) => return Ok(Disconnect::by_server(has_received)),
                Err(error) => return Ok(Disconnect::after(has_received, &error)),
            }
        }
    }
}

impl OpencodeServer {
    /// Adds what is not in the log yet of the server's current state.
    async fn catch_up_into(
        &self,
        session: &mut Session,
        of: &ServerSession,
        hearing: &mut BusConnectionState,
        lines: &mut BusLineFilter,
    ) -> Result<Result<(), ServerError>, EngineError> {
        let BusConnectionState { family, dedup, .. } = hearing;
        let missed = match self.is_newer() {
            true => self.newer_catch_up(&of.id, family, dedup).await,
            false => self.catch_up(of, family).await,
        };
        let missed = match missed {
            Ok(missed) => missed,
            Err(error) => return Ok(Err(error)),
        };
        dedup.has_gap = false;
        let is_new = |line: &&[u8]| dedup.is_new(line);
        let news: Vec<&[u8]> =
            missed.split_inclusive(|byte| *byte == b'\n').filter(is_new).collect();
        let taken = lines.take_whole(&news.concat(), family);
        lines.keep(session, taken).await?;
        Ok(Ok(()))
    }
}

/// The state of a session across connections.
struct BusConnectionState {
    /// The ids of the session and its children.
    family: BTreeSet<String>,
    dedup: Deduplicator,
    environment: ServerEnvironment,
}

impl BusConnectionState {
    async fn begin(session: &mut Session, of: &ServerSession) -> Result<Self, EngineError> {
        let family = BTreeSet::from([of.id.clone()]);
        let dedup = Deduplicator::of(session, &spec()).await?;
        Ok(Self { family, dedup, environment: ServerEnvironment::default() })
    }
}

/// The source of the bus in the log.
fn spec() -> SourceSpec {
    SourceSpec::new(AGENT, SourceRole::Stream, "events.sse")
}

/// The lines of a connection that belong to a session, before they are stored in its log.
struct BusLineFilter {
    cutter: Cutter,
    /// The part of the source that they belong to; `None` until the first line.
    source: Option<u32>,
    position: u64,
}

impl BusLineFilter {
    fn new() -> Self {
        Self { cutter: Cutter::new(0), source: None, position: 0 }
    }

    fn take(&mut self, bytes: &[u8], family: &mut BTreeSet<String>) -> Vec<Record> {
        let mut cuts = Vec::new();
        self.cutter.push(bytes, &mut cuts);
        cuts.retain(|cut| bus::is_of(&cut.bytes, family));
        cuts
    }

    /// Returns lines that are complete, beside what was received of the next one.
    fn take_whole(&mut self, bytes: &[u8], family: &mut BTreeSet<String>) -> Vec<Record> {
        let mut cuts = Vec::new();
        Cutter::new(0).push(bytes, &mut cuts);
        cuts.retain(|cut| bus::is_of(&cut.bytes, family));
        cuts
    }

    async fn keep(&mut self, session: &mut Session, cuts: Vec<Record>) -> Result<(), EngineError> {
        if cuts.is_empty() {
            return Ok(());
        }
        let source = match self.source {
            Some(source) => source,
            None => {
                let is_known = session.fold().source(&spec()).is_some();
                match is_known {
                    true => session.new_part(&spec()).await?,
                    false => session.source(&spec()).await?,
                }
            }
        };
        self.source = Some(source);
        // Lines of other sessions were dropped, so positions are counted again.
        let mut records = cuts;
        for record in &mut records {
            (record.source, record.position) = (source, self.position);
            self.position += record.bytes.len() as u64;
        }
        session.accept_in_batches(records).await?;
        Ok(())
    }
}

/// Returns a name as one percent-encoded segment of a URL path.
fn segment(name: &str) -> String {
    let mut out = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[async_trait]
impl Server for OpencodeServer {
    fn address(&self) -> String {
        OpencodeServer::address(self)
    }

    async fn sessions(&self) -> Result<Vec<SessionId>, EngineError> {
        let sessions = OpencodeServer::sessions(self).await?;
        Ok(sessions.into_iter().map(|it| SessionId::from(it.id.as_str())).collect())
    }

    async fn check(&self, session: &SessionId) -> Result<(), EngineError> {
        self.session(session.as_str()).await?;
        Ok(())
    }

    async fn follow(&self, session: &mut Session, stop: Stop<'_>) -> Result<(), EngineError> {
        let of = self.session(session.id().as_str()).await?;
        OpencodeServer::follow(self, session, &of, stop).await
    }
}
