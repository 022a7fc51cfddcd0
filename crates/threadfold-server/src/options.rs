//! How a server is set up: whom it lets in, what it allows, and its limits.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use threadfold_core::SessionId;
use threadfold_engine::{Budget, EngineError};

use crate::access::Access;
use crate::catalog::Catalog;
use crate::status::StatusReport;

/// How a server is set up.
#[derive(Clone)]
pub struct ServerOptions {
    /// Whom it lets in.
    pub access: Access,
    /// Whether clients can only read.
    pub is_read_only: bool,
    /// Its limits.
    pub limits: Limits,
    /// The memory budget of a session, and where to spill the rest.
    pub budget: Option<Budget>,
    /// The list of sessions; without one, the server lists those of its store.
    pub catalog: Option<Arc<Catalog>>,
    /// Reads a session into the store that is listed and not in it yet.
    pub fetch: Option<FetchSession>,
    /// Is told that a client removed a session, before that happens: it must not be imported again.
    pub removing: Option<RemovingSession>,
    /// Returns whether a session was removed, and must not be created by a push.
    pub is_removed: Option<SessionFilter>,
    /// Reports on the sources of sessions.
    pub status: Option<Arc<dyn Fn() -> StatusReport + Send + Sync>>,
}

/// Reads a session into the store.
pub type FetchSession =
    Arc<dyn Fn(SessionId) -> BoxFuture<'static, Result<(), EngineError>> + Send + Sync>;

/// Returns whether something is true of a session.
pub type SessionFilter = Arc<dyn Fn(&SessionId) -> bool + Send + Sync>;

/// Notes durably that a session is about to be removed.
pub type RemovingSession = Arc<dyn Fn(&SessionId) -> Result<(), EngineError> + Send + Sync>;

impl ServerOptions {
    /// Returns the default options for these clients.
    pub fn new(access: Access) -> Self {
        Self {
            access,
            is_read_only: false,
            limits: Limits::default(),
            budget: None,
            catalog: None,
            fetch: None,
            removing: None,
            is_removed: None,
            status: None,
        }
    }
}

/// The limits of a server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many bytes the body of a request has at most.
    pub body: usize,
    /// How long the body of a request may take.
    pub body_time: Duration,
    /// How many connections there are at most.
    pub connections: usize,
    /// How many sessions one WebSocket may subscribe to.
    pub subscriptions: usize,
    /// How many bytes the headers of a request have at most.
    pub header_bytes: usize,
    /// How many headers a request has at most.
    pub headers: usize,
    /// How long the headers of a request may take.
    pub header_time: Duration,
    /// How often a client is sent a sign of life.
    pub heartbeat: Duration,
    /// How long a ticket for a WebSocket can be used.
    pub ticket: Duration,
    /// How long a session stays open for writing after its last record.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 64 << 20,
            body_time: Duration::from_secs(60),
            connections: 12_000,
            subscriptions: 1_000,
            header_bytes: 16 << 10,
            headers: 64,
            header_time: Duration::from_secs(10),
            heartbeat: Duration::from_secs(15),
            ticket: Duration::from_secs(30),
            idle: Duration::from_secs(30),
        }
    }
}
