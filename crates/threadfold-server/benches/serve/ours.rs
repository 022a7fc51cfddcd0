//! Threadfold's server, as a program that embeds it would start it: with a store in a file, so that
//! every event is durable before it is sent.

use std::io;
use std::sync::Arc;

use tempfile::TempDir;
use threadfold_core::SessionEvent;
use threadfold_engine::{Budget, Host};
use threadfold_server::{Access, HostedSession, Server, ServerOptions};
use threadfold_sqlite::SqliteStore;
use tokio::net::TcpListener;

use crate::events;
use crate::publisher::Publisher;

/// As `threadfold serve` has it.
const BUDGET: usize = 2 << 20;

#[derive(Clone)]
pub(crate) struct Ours {
    sessions: Arc<Vec<HostedSession>>,
    _folder: Arc<TempDir>,
}

impl Publisher for Ours {
    async fn start(listener: TcpListener, sessions: usize) -> io::Result<Self> {
        let folder = Arc::new(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?);
        let store = SqliteStore::open(folder.path().join("store.db")).map_err(io::Error::other)?;
        let url = format!("http://{}", listener.local_addr()?);
        let budget = Budget { bytes: BUDGET, folder: folder.path().to_owned() };
        let mut options = ServerOptions::new(Access::behind_own_auth(&[&url]));
        options.budget = Some(budget.clone());
        let server = Server::new(Host::within(Arc::new(store), Some(budget)), options);
        let ids = (0..sessions).map(|it| server.session(format!("s{it}")));
        let sessions = Arc::new(ids.collect::<Vec<_>>());
        let first = [events::first()];
        let created = sessions.iter().map(|it| it.emit(&first));
        for created in futures_util::future::join_all(created).await {
            created.map_err(io::Error::other)?;
        }
        tokio::spawn(async move { server.serve(listener, std::future::pending()).await });
        Ok(Self { sessions, _folder: folder })
    }

    async fn publish(&self, session: usize, first: u64, count: u64, bytes: usize) {
        let events: Vec<SessionEvent> =
            (first..first + count).map(|it| events::event(it, bytes)).collect();
        self.sessions[session].emit(&events).await.expect("the store can be written");
    }
}
