//! A running server of OpenCode: its bus, heard again after every interruption.
//!
//! The bus tells nothing twice: who connects late or again has missed something. So at every
//! connection the session and its children are asked for as they are, and what was not said yet is
//! told in the bus's own form before what comes next.

mod bus;
mod catch_up;
mod said;

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use reqwest::{Client, Response, Url};
use serde::Deserialize;
use threadfold_convert::Agent;
use threadfold_core::{Json, SessionEvent};
use threadfold_store::RecordKind;

use crate::cut::{Cut, Cutter};
use crate::error::EngineError;
use crate::session::{Incoming, Session};
use crate::source::{SourceSpec, SpecKind};
use said::Said;

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

/// Why a server could not be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Give the address of a server: `http://127.0.0.1:4096`.
    #[error("`{address}` is not the address of a server")]
    Address {
        /// What was given.
        address: String,
        /// What is wrong with it.
        source: url::ParseError,
    },
    /// Look whether it runs.
    #[error("{address} does not answer")]
    Unreachable {
        /// The server.
        address: String,
        /// Why.
        source: reqwest::Error,
    },
    /// Look whether it is well.
    #[error("{address} was silent for {silence:?}")]
    Silent {
        /// The server.
        address: String,
        /// For how long.
        silence: Duration,
    },
    /// Look at what there is.
    #[error("{address} has no session `{session}`")]
    NoSession {
        /// The server.
        address: String,
        /// What was asked for.
        session: String,
    },
}

impl OpencodeServer {
    /// Returns the server at an address.
    pub fn new(address: &str) -> Result<Self, ServerError> {
        let parsed = Url::parse(address).and_then(|url| match url.cannot_be_a_base() {
            true => Err(url::ParseError::RelativeUrlWithoutBase),
            false => Ok(url),
        });
        let base = parsed
            .map_err(|source| ServerError::Address { address: address.to_owned(), source })?;
        let client = Client::builder().connect_timeout(CONNECTING).no_proxy().build();
        let unreachable = |source| ServerError::Unreachable { address: address.to_owned(), source };
        Ok(Self { client: client.map_err(unreachable)?, base, silence: SILENCE })
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
            ServerError::Unreachable { source, .. } if source.status().is_some() => {
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
            Ok(answer) => {
                answer.map_err(|source| ServerError::Unreachable { address: address(), source })
            }
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
        Self { heard_something, why: crate::error::with_causes(why) }
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
        let mut lines = Lines::default();
        let is_new = |line: &&[u8]| hearing.said.hear(line);
        let news: Vec<&[u8]> = told.split_inclusive(|byte| *byte == b'\n').filter(is_new).collect();
        let taken = lines.take(&news.concat(), &mut hearing.family);
        lines.keep(session, taken).await?;
        let mut heard_something = false;
        loop {
            match self.heard(response.chunk()).await {
                Ok(Some(chunk)) => {
                    let taken = lines.take(&chunk, &mut hearing.family);
                    for cut in &taken {
                        hearing.said.hear(&cut.bytes);
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
    said: Said,
    /// What was told last of how the server is.
    told: Option<String>,
}

impl Hearing {
    async fn begin(session: &mut Session, of: &ServerSession) -> Result<Self, EngineError> {
        let family = BTreeSet::from([of.id.clone()]);
        Ok(Self { family, said: Said::of(session, &spec()).await?, told: None })
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
        let (kind, bytes) = (RecordKind::Event, Bytes::from(line));
        session.accept(vec![Incoming { kind, source: 0, position: 0, bytes }]).await?;
        self.told = Some(status);
        Ok(())
    }
}

/// The source that a bus is, in the log.
fn spec() -> SourceSpec {
    SourceSpec::new(Agent::Opencode, SpecKind::Stream, "events.sse")
}

/// The lines of a connection that belong to a session, on their way into its log.
#[derive(Default)]
struct Lines {
    cutter: Cutter,
    /// The part of the source that they are; nothing as long as there are none.
    source: Option<u32>,
    position: u64,
}

impl Lines {
    fn take(&mut self, bytes: &[u8], family: &mut BTreeSet<String>) -> Vec<Cut> {
        let mut cuts: Vec<Cut> = Vec::new();
        self.cutter.push(bytes, &mut cuts);
        cuts.retain(|cut| bus::is_of(&cut.bytes, family));
        cuts
    }

    async fn keep(&mut self, session: &mut Session, cuts: Vec<Cut>) -> Result<(), EngineError> {
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
        let mut incoming = Vec::new();
        for Cut { kind, bytes, .. } in cuts {
            let position = self.position;
            self.position += bytes.len() as u64;
            incoming.push(Incoming { kind, source, position, bytes });
        }
        session.accept(incoming).await?;
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
