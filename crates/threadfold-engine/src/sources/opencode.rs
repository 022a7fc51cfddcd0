//! A running server of OpenCode: its bus, heard again after every interruption.
//!
//! The bus tells nothing twice: who connects late or again has missed something. So at every
//! connection the session and its children are asked for as they are, and told in the bus's own
//! form before what comes next.

mod bus;
mod catch_up;

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

/// How long a connection may take.
const CONNECTING: Duration = Duration::from_secs(5);
/// How long the bus may be silent: it says every ten seconds that it is there.
const SILENCE: Duration = Duration::from_secs(30);
/// How long is waited before the next attempt, at first and at most.
const WAITS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// A server of OpenCode.
#[derive(Clone, Debug)]
pub struct OpencodeServer {
    client: Client,
    base: Url,
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
        Ok(Self { client: client.map_err(unreachable)?, base })
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
        let mut family = BTreeSet::from([of.id.clone()]);
        loop {
            let why = tokio::select! {
                () = &mut stop => return Ok(()),
                heard = self.listen(session, of, &mut family) => match heard? {
                    Silence::After { heard_something, why } => {
                        if heard_something {
                            wait = WAITS.0;
                        }
                        why
                    }
                },
            };
            tell(session, "ee:error", &format!("OpenCode cannot be heard: {why}")).await?;
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
        let text = self.text(path, directory).await?;
        serde_json::from_str(&text).map_err(|_| ServerError::NoSession {
            address: self.base.to_string(),
            session: path.to_owned(),
        })
    }

    async fn text(&self, path: &str, directory: Option<&str>) -> Result<String, ServerError> {
        let unreachable =
            |source| ServerError::Unreachable { address: self.base.to_string(), source };
        let response = self.get(path, directory).await.map_err(unreachable)?;
        response.text().await.map_err(unreachable)
    }

    async fn get(&self, path: &str, directory: Option<&str>) -> Result<Response, reqwest::Error> {
        let mut url = self.base.clone();
        let base = url.path().trim_end_matches('/').to_owned();
        url.set_path(&format!("{base}/{path}"));
        if let Some(directory) = directory {
            url.query_pairs_mut().append_pair("directory", directory);
        }
        self.client.get(url).send().await?.error_for_status()
    }
}

/// How a connection ended.
enum Silence {
    After { heard_something: bool, why: String },
}

impl OpencodeServer {
    /// Listens until the connection ends.
    async fn listen(
        &self,
        session: &mut Session,
        of: &ServerSession,
        family: &mut BTreeSet<String>,
    ) -> Result<Silence, EngineError> {
        let ended = |heard_something, why: String| Ok(Silence::After { heard_something, why });
        let mut response = match self.get("event", Some(&of.directory)).await {
            Ok(response) => response,
            Err(error) => return ended(false, crate::error::with_causes(&error)),
        };
        let spec = SourceSpec::new(Agent::Opencode, SpecKind::Stream, "events.sse");
        let source = match session.fold().source(&spec) {
            Some(_) => session.new_part(&spec).await?,
            None => session.source(&spec).await?,
        };
        let mut lines = Lines { source, cutter: Cutter::default(), position: 0 };
        let told = match self.catch_up(of, family).await {
            Ok(told) => told,
            Err(error) => return ended(false, crate::error::with_causes(&error)),
        };
        session.accept(lines.take(&told, family)).await?;
        tell(session, "ee:ready", "OpenCode is heard").await?;
        loop {
            match tokio::time::timeout(SILENCE, response.chunk()).await {
                Ok(Ok(Some(chunk))) => {
                    session.accept(lines.take(&chunk, family)).await?;
                }
                Ok(Ok(None)) => return ended(true, "the connection was closed".into()),
                Ok(Err(error)) => return ended(true, crate::error::with_causes(&error)),
                Err(_) => return ended(true, format!("it was silent for {SILENCE:?}")),
            }
        }
    }
}

/// The lines of a bus that belong to a session, on their way into its log.
struct Lines {
    source: u32,
    cutter: Cutter,
    position: u64,
}

impl Lines {
    fn take(&mut self, bytes: &[u8], family: &mut BTreeSet<String>) -> Vec<Incoming> {
        let mut cuts: Vec<Cut> = Vec::new();
        self.cutter.push(bytes, &mut cuts);
        let own = cuts.into_iter().filter(|cut| bus::is_of(&cut.bytes, family));
        let mut taken = Vec::new();
        for cut in own {
            let position = self.position;
            self.position += cut.bytes.len() as u64;
            taken.push(Incoming {
                kind: cut.kind,
                source: self.source,
                position,
                bytes: cut.bytes,
            });
        }
        taken
    }
}

/// Tells in the log how the server is.
async fn tell(session: &mut Session, kind: &str, status: &str) -> Result<(), EngineError> {
    let line = format!(r#"{{"type":"{kind}","payload":{{"status":{}}}}}"#, Json::string(status));
    debug_assert!(SessionEvent::from_json(&line).is_ok());
    let (kind, bytes) = (RecordKind::Event, Bytes::from(line));
    session.accept(vec![Incoming { kind, source: 0, position: 0, bytes }]).await?;
    Ok(())
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
