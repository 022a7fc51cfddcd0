//! A server of a host's sessions, and its sessions for the program that embeds it.

use std::sync::Arc;

use axum::Router;
use threadfold_core::{ConversationState, SessionEvent, SessionId};
use threadfold_engine::{EngineError, FrameListener, Host, ListenOptions, Writers};
use threadfold_fold::{Cursor, SliceSnapshot};

use crate::catalog::Catalog;
use crate::options::ServerOptions;
use crate::router::{router_of, shared};
use crate::shared::ServerShared;
use crate::store_rows::follow_store;

/// A server of a host's sessions. Cheap to clone.
///
/// It must be created within a tokio runtime.
#[derive(Clone)]
pub struct Server {
    shared: Arc<ServerShared>,
}

impl Server {
    /// Returns a server of a host's sessions.
    pub fn new(host: Host, options: ServerOptions) -> Self {
        Self::start(host, None, options)
    }

    /// Returns a server that writes through these writers, which others in the process use as well.
    pub fn with_writers(writers: Writers, options: ServerOptions) -> Self {
        Self::start(writers.host().clone(), Some(writers), options)
    }

    fn start(host: Host, writers: Option<Writers>, options: ServerOptions) -> Self {
        let lists_itself = options.catalog.is_none();
        let shared = shared(host, writers, options);
        tokio::spawn(ServerShared::close_idle(Arc::downgrade(&shared)));
        if lists_itself {
            let (catalog, writers) = (shared.catalog.clone(), shared.writers.clone());
            let alive = Arc::downgrade(&shared);
            let listed = catalog.clone();
            let is_wanted = move || alive.strong_count() > 0;
            tokio::spawn(follow_store(catalog, writers, is_wanted, move || listed.set_complete()));
        }
        Self { shared }
    }

    /// Returns the router, to be mounted in any axum program.
    pub fn router(&self) -> Router {
        router_of(self.shared.clone())
    }

    /// Returns a session, for the program that embeds the server. It is created by its first event.
    pub fn session(&self, id: impl Into<SessionId>) -> HostedSession {
        HostedSession { id: id.into(), shared: self.shared.clone() }
    }

    /// Returns the list of sessions.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.shared.catalog
    }

    /// Ends all streams and WebSockets, and closes all sessions. Nothing that was acknowledged is
    /// lost without it; clients are notified, and summaries are written.
    pub async fn close(&self) -> Result<(), EngineError> {
        self.shared.pulse.close();
        self.shared.writers.close_all().await
    }

    pub(crate) fn shared(&self) -> &Arc<ServerShared> {
        &self.shared
    }
}

/// A session of an embedded server.
#[derive(Clone)]
pub struct HostedSession {
    id: SessionId,
    shared: Arc<ServerShared>,
}

impl HostedSession {
    /// Emits events: they are durable when this returns, and all clients receive them.
    pub async fn emit(&self, events: &[SessionEvent]) -> Result<Cursor, EngineError> {
        let mut session = self.shared.writers.write(&self.id).await?;
        session.emit_all(events).await?;
        Ok(session.cursor())
    }

    /// Returns the conversation, and the cursor of its last record.
    pub async fn state(&self) -> Result<(Cursor, ConversationState), EngineError> {
        let view = self.shared.host.session(&self.id).await?.view();
        Ok((view.cursor(), view.conversation))
    }

    /// Returns the state kinds beside the conversation.
    pub async fn slices(&self) -> Result<Vec<SliceSnapshot>, EngineError> {
        Ok(self.shared.host.session(&self.id).await?.view().slices())
    }

    /// Listens to the session, as clients do.
    pub async fn subscribe(&self, options: ListenOptions) -> Result<FrameListener, EngineError> {
        self.shared.host.listen(&self.id, options).await
    }
}
