//! A running server of OpenCode: its bus, heard again after every interruption.
//!
//! The bus tells nothing twice: who connects late or again has missed something. So at every
//! connection the session and its children are asked for as they are, and what was not said yet is
//! told in the bus's own form before what comes next.

mod bus;
mod catch_up;
mod dedup;

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::{Client, Response, Url};
use serde::Deserialize;
use threadfold_convert::opencode::AGENT;
use threadfold_core::{Json, SessionEvent, SessionId};
use threadfold_fold::{Cutter, Record, RecordKind, SourceRole, SourceSpec, with_causes};

use crate::error::EngineError;
use crate::input::InputError;
use crate::server::{Server, ServerError, Stop};
use crate::session::Session;
use dedup::Deduplicator;

/// How long a connection may take.
const CONNECTING: Duration = Duration::from_secs(5);
/// How long a server may be silent: its bus says every ten seconds that it is there.
const SILENCE: Duration = Duration::from_secs(30);
/// How long is waited before the next attempt, at first and at most.
const WAITS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// A server of OpenCode.
#[derive(Clone, Debug)]
pub struct OpencodeServer {
    client: Client,
    base: Url,
    silence: Duration,
}

/// A session as a server tells it.
#[derive(Clone, Debug, Deserialize)]
pub struct ServerSession {
    /// Its name.
    pub id: String,
    /// The folder that it works in.
    pub directory: String,
    /// The session that made it.
    #[serde(default, rename = "parentID")]
    pub parent: Option<String>,
    /// Its title.
    #[serde(default)]
    pub title: Option<String>,
    /// When it was made and last changed.
    #[serde(default)]
    pub time: ServerTime,
}

/// When a session was made and last changed, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct ServerTime {
    /// Last changed.
    #[serde(default)]
    pub updated: f64,
}

impl OpencodeServer {
    /// Returns the server at an address.
    pub fn new(address: &str) -> Result<Self, InputError> {
        let refused = |reason: String| InputError::Address { address: address.to_owned(), reason };
        let parsed = Url::parse(address).and_then(|url| match url.cannot_be_a_base() {
            true => Err(url::ParseError::RelativeUrlWithoutBase),
            false => Ok(url),
        });
        let base = parsed.map_err(|error| refused(error.to_string()))?;
        let client = Client::builder().connect_timeout(CONNECTING).no_proxy().build();
        let client = client.map_err(|error| refused(with_causes(&error)))?;
        Ok(Self { client, base, silence: SILENCE })
    }

    /// Sets how long it may be silent while it is asked or heard.
    pub fn with_silence(mut self, silence: Duration) -> Self {
        self.silence = silence;
        self
    }

    /// Returns the sessions that were not made by others, the one that changed last first.
    pub async fn sessions(&self) -> Result<Vec<ServerSession>, ServerError> {
        let mut all: Vec<ServerSession> = self.json("session", None).await?;
        all.retain(|session| session.parent.is_none());
        all.sort_by(|one, other| other.time.updated.total_cmp(&one.time.updated));
        Ok(all)
    }

    /// Returns one session.
    pub async fn session(&self, id: &str) -> Result<ServerSession, ServerError> {
        let no_session = |error| match error {
            ServerError::Unreachable { is_refusal: true, .. } => {
                ServerError::NoSession { address: self.base.to_string(), session: id.to_owned() }
            }
            other => other,
        };
        self.json(&format!("session/{}", segment(id)), None).await.map_err(no_session)
    }

    /// Takes all that a session and its children say, until `stop` is done.
    ///
    /// When the server is gone it is waited for, and both are told in the log.
    pub async fn follow(
        &self,
        session: &mut Session,
        of: &ServerSession,
        stop: impl Future<Output = ()>,
    ) -> Result<(), EngineError> {
        let mut stop = std::pin::pin!(stop);
        let mut wait = WAITS.0;
        let mut hearing = Hearing::begin(session, of).await?;
        loop {
            let silence = tokio::select! {
                () = &mut stop => return Ok(()),
                silence = self.listen(session, of, &mut hearing) => silence?,
            };
            if silence.heard_something {
                wait = WAITS.0;
            }
            let why = format!("OpenCode cannot be heard: {}", silence.why);
            hearing.tell(session, "ee:error", why).await?;
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
        directory: Option<&str>,
    ) -> Result<T, ServerError> {
        let bytes = self.bytes(path, directory).await?;
        serde_json::from_slice(&bytes).map_err(|_| ServerError::NoSession {
            address: self.base.to_string(),
            session: path.to_owned(),
        })
    }

    async fn bytes(&self, path: &str, directory: Option<&str>) -> Result<Vec<u8>, ServerError> {
        let mut response = self.get(path, directory).await?;
        let mut bytes = Vec::new();
        while let Some(chunk) = self.heard(response.chunk()).await? {
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    async fn get(&self, path: &str, directory: Option<&str>) -> Result<Response, ServerError> {
        let mut url = self.base.clone();
        let base = url.path().trim_end_matches('/').to_owned();
        url.set_path(&format!("{base}/{path}"));
        if let Some(directory) = directory {
            url.query_pairs_mut().append_pair("directory", directory);
        }
        let asked = self.client.get(url).send();
        self.heard(async { asked.await?.error_for_status() }).await
    }

    /// Waits for an answer, or for more of one, as long as the server may be silent.
    async fn heard<T>(
        &self,
        answer: impl Future<Output = Result<T, reqwest::Error>>,
    ) -> Result<T, ServerError> {
        let address = || self.base.to_string();
        match tokio::time::timeout(self.silence, answer).await {
            Ok(answer) => answer.map_err(|error| ServerError::unreachable(address(), error)),
            Err(_) => Err(ServerError::Silent { address: address(), silence: self.silence }),
        }
    }
}

/// How a connection ended.
struct Silence {
    heard_something: bool,
    why: String,
}

impl Silence {
    fn after(heard_something: bool, why: &ServerError) -> Self {
        Self { heard_something, why: with_causes(why) }
    }
}

impl OpencodeServer {
    /// Listens until the connection ends.
    async fn listen(
        &self,
        session: &mut Session,
        of: &ServerSession,
        hearing: &mut Hearing,
    ) -> Result<Silence, EngineError> {
        let mut response = match self.get("event", Some(&of.directory)).await {
            Ok(response) => response,
            Err(error) => return Ok(Silence::after(false, &error)),
        };
        let told = match self.catch_up(of, &mut hearing.family).await {
            Ok(told) => told,
            Err(error) => return Ok(Silence::after(false, &error)),
        };
        let mut lines = Lines::new();
        let is_new = |line: &&[u8]| hearing.dedup.is_new(line);
        let news: Vec<&[u8]> = told.split_inclusive(|byte| *byte == b'\n').filter(is_new).collect();
        let taken = lines.take(&news.concat(), &mut hearing.family);
        lines.keep(session, taken).await?;
        let mut heard_something = false;
        loop {
            match self.heard(response.chunk()).await {
                Ok(Some(chunk)) => {
                    let taken = lines.take(&chunk, &mut hearing.family);
                    for cut in &taken {
                        hearing.dedup.is_new(&cut.bytes);
                    }
                    heard_something |= !taken.is_empty();
                    lines.keep(session, taken).await?;
                    hearing.tell(session, "ee:ready", "OpenCode is heard".to_owned()).await?;
                }
                Ok(None) => {
                    let why = "the connection was closed".to_owned();
                    return Ok(Silence { heard_something, why });
                }
                Err(error) => return Ok(Silence::after(heard_something, &error)),
            }
        }
    }
}

/// What is known of a session over all connections.
struct Hearing {
    /// It and its children.
    family: BTreeSet<String>,
    dedup: Deduplicator,
    /// What was told last of how the server is.
    told: Option<String>,
}

impl Hearing {
    async fn begin(session: &mut Session, of: &ServerSession) -> Result<Self, EngineError> {
        let family = BTreeSet::from([of.id.clone()]);
        Ok(Self { family, dedup: Deduplicator::of(session, &spec()).await?, told: None })
    }

    /// Tells in the log how the server is, if that is new.
    async fn tell(
        &mut self,
        session: &mut Session,
        kind: &str,
        status: String,
    ) -> Result<(), EngineError> {
        if self.told.as_ref() == Some(&status) {
            return Ok(());
        }
        let said = Json::string(&status);
        let line = format!(r#"{{"type":"{kind}","payload":{{"status":{said}}}}}"#);
        debug_assert!(SessionEvent::from_json(&line).is_ok());
        let event = Record::new(RecordKind::Event, 0, 0, line);
        session.accept(vec![event]).await?;
        self.told = Some(status);
        Ok(())
    }
}

/// The source that a bus is, in the log.
fn spec() -> SourceSpec {
    SourceSpec::new(AGENT, SourceRole::Stream, "events.sse")
}

/// The lines of a connection that belong to a session, on their way into its log.
struct Lines {
    cutter: Cutter,
    /// The part of the source that they are; nothing as long as there are none.
    source: Option<u32>,
    position: u64,
}

impl Lines {
    fn new() -> Self {
        Self { cutter: Cutter::new(0), source: None, position: 0 }
    }

    fn take(&mut self, bytes: &[u8], family: &mut BTreeSet<String>) -> Vec<Record> {
        let mut cuts = Vec::new();
        self.cutter.push(bytes, &mut cuts);
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
        // Lines of other sessions were left out, so positions are counted again.
        let mut records = cuts;
        for record in &mut records {
            (record.source, record.position) = (source, self.position);
            self.position += record.bytes.len() as u64;
        }
        session.accept(records).await?;
        Ok(())
    }
}

/// Returns a name as one segment of a path, whatever it holds.
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
