//! A running server of an agent, whose sessions are followed live.

use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;
use threadfold_core::SessionId;

use crate::agents::{self, Machine};
use crate::error::EngineError;
use crate::open_path::InputError;
use crate::session::Session;

/// Stops a follower when it resolves.
pub type Stop<'a> = Pin<&'a mut (dyn Future<Output = ()> + Send)>;

/// A running server of an agent.
#[async_trait]
pub trait Server: Send + Sync {
    /// Returns its address for messages, without a password.
    fn address(&self) -> String;

    /// Returns the sessions without a parent, the last changed first.
    async fn sessions(&self) -> Result<Vec<SessionId>, EngineError>;

    /// Fails if there is no session with this id.
    async fn check(&self, session: &SessionId) -> Result<(), EngineError>;

    /// Reads everything that a session and its children emit, until `stop` is done. If the server
    /// goes away, retries until it is back, and logs that.
    async fn follow(&self, session: &mut Session, stop: Stop<'_>) -> Result<(), EngineError>;
}

/// How a server that requires a password gets one.
pub struct ServerAccess<'a> {
    /// The machine, whose environment and files an agent may keep a password in.
    pub machine: &'a Machine<'a>,
    /// A password that the user gave.
    pub password: Option<String>,
}

/// Returns the server at an address. A password in the address is used, and never shown or stored.
pub fn server_at(address: &str, access: &ServerAccess<'_>) -> Result<Box<dyn Server>, InputError> {
    let found = agents::all().find_map(|row| row.server(address, access));
    found.unwrap_or_else(|| {
        let reason = "no known agent has servers".to_owned();
        Err(InputError::Address { address: String::new(), reason })
    })
}

/// Why a request to a server failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Check that it is running.
    #[error("{address} does not answer")]
    Unreachable {
        /// The server.
        address: String,
        /// The cause.
        source: Cause,
        /// The server answered with an error status.
        is_refusal: bool,
    },
    /// Check that it is healthy.
    #[error("{address} sent nothing for {silence:?}")]
    Silent {
        /// The server.
        address: String,
        /// For how long.
        silence: Duration,
    },
    /// Give its password, or another one.
    #[error("{address} {}", if *has_password { "refuses the password" } else { "requires a password" })]
    Unauthorized {
        /// The server.
        address: String,
        /// A password was sent.
        has_password: bool,
        /// The environment variable in which the agent looks for it.
        variable: &'static str,
    },
    /// Check the address.
    #[error("{address} answers with a web page: it is not the server of a known agent")]
    Page {
        /// The server.
        address: String,
    },
    /// Give the address to which it redirects, if that is trusted.
    #[error("{address} redirects to another address, which is not followed")]
    Redirect {
        /// The server.
        address: String,
    },
    /// Check that it is the server of an agent.
    #[error("{address} sends more than {limit} bytes in one answer")]
    TooLarge {
        /// The server.
        address: String,
        /// The most bytes that are read.
        limit: usize,
    },
    /// List the sessions that exist.
    #[error("{address} has no session `{session}`")]
    NoSession {
        /// The server.
        address: String,
        /// The session that was requested.
        session: String,
    },
}

type Cause = Box<dyn std::error::Error + Send + Sync>;

impl ServerError {
    /// Returns whether nothing listens at the server's address.
    pub(crate) fn is_refused(&self) -> bool {
        let first: &(dyn std::error::Error + 'static) = self;
        let mut causes = std::iter::successors(Some(first), |error| error.source());
        causes.any(|error| {
            let io = error.downcast_ref::<std::io::Error>();
            io.is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionRefused)
        })
    }

    pub(crate) fn unreachable(address: String, error: reqwest::Error) -> Self {
        let is_refusal = error.status().is_some();
        Self::Unreachable { address, source: Box::new(error), is_refusal }
    }
}
