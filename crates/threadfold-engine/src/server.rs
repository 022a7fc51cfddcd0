//! A running server of an agent, whose sessions are followed live.

use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;
use threadfold_core::SessionId;

use crate::agents;
use crate::error::EngineError;
use crate::input::InputError;
use crate::session::Session;

/// Ends a follower when it is done.
pub type Stop<'a> = Pin<&'a mut (dyn Future<Output = ()> + Send)>;

/// A running server of an agent.
#[async_trait]
pub trait Server: Send + Sync {
    /// Returns the sessions that no other one started, the one that changed last first.
    async fn sessions(&self) -> Result<Vec<SessionId>, EngineError>;

    /// Says whether there is a session of this id; refused if not.
    async fn check(&self, session: &SessionId) -> Result<(), EngineError>;

    /// Reads all that a session and its children emit, until `stop` is done. When the server is
    /// gone it is waited for, and the log says so.
    async fn follow(&self, session: &mut Session, stop: Stop<'_>) -> Result<(), EngineError>;
}

/// Returns the server at an address.
pub fn server_at(address: &str) -> Result<Box<dyn Server>, InputError> {
    let found = agents::all().find_map(|row| row.server(address));
    found.unwrap_or_else(|| {
        let reason = "no agent that is known has servers".to_owned();
        Err(InputError::Address { address: address.to_owned(), reason })
    })
}

/// Why a server could not be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Look whether it runs.
    #[error("{address} does not answer")]
    Unreachable {
        /// The server.
        address: String,
        /// Why.
        source: Cause,
        /// The server answered, and refused.
        is_refusal: bool,
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

type Cause = Box<dyn std::error::Error + Send + Sync>;

impl ServerError {
    pub(crate) fn unreachable(address: String, error: reqwest::Error) -> Self {
        let is_refusal = error.status().is_some();
        Self::Unreachable { address, source: Box::new(error), is_refusal }
    }
}
