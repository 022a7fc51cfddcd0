//! What all requests of a server share.

use std::sync::Arc;
use std::time::{Duration, Instant};

use threadfold_core::SessionId;
use threadfold_engine::{EngineError, Host, Options, Writers, holder};
use threadfold_store::{SessionEntry, StoreError};

use crate::catalog::Catalog;
use crate::feed::Feeds;
use crate::metrics::Metrics;
use crate::options::ServerOptions;
use crate::problem::Problem;
use crate::pulse::Pulse;
use crate::tickets::Tickets;

/// What all requests of a server share.
pub(crate) struct ServerShared {
    pub(crate) host: Host,
    pub(crate) writers: Writers,
    pub(crate) feeds: Arc<Feeds>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) tickets: Tickets,
    pub(crate) pulse: Arc<Pulse>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) options: ServerOptions,
    pub(crate) started: Instant,
}

impl ServerShared {
    pub(crate) fn new(host: Host, writers: Option<Writers>, options: ServerOptions) -> Arc<Self> {
        let metrics = Arc::new(Metrics::default());
        let budget = options.budget.clone();
        let writers = writers.unwrap_or_else(|| {
            let options = move || Options {
                budget: budget.clone(),
                ..Options::new(holder("threadfold serve"))
            };
            Writers::new(host.clone(), options)
        });
        Arc::new(Self {
            feeds: Arc::new(Feeds::new(host.clone(), metrics.clone())),
            writers,
            catalog: options.catalog.clone().unwrap_or_else(Catalog::new),
            tickets: Tickets::new(host.store().clone(), options.limits.ticket),
            pulse: Pulse::start(options.limits.heartbeat),
            metrics,
            options,
            started: Instant::now(),
            host,
        })
    }

    /// Returns a stored session; one that is listed and not stored yet is read first.
    pub(crate) async fn entry(&self, id: &SessionId) -> Result<SessionEntry, Problem> {
        if let Some(entry) = self.host.store().entry(id).await? {
            return Ok(entry);
        }
        let is_listed = self.catalog.row(id).is_some();
        if let Some(fetch) = self.options.fetch.as_ref().filter(|_| is_listed) {
            fetch(id.clone()).await?;
        }
        let entry = self.host.store().entry(id).await?;
        entry.ok_or_else(|| Problem::no_session(id.as_str()))
    }

    /// Refuses a change if the server is read-only.
    pub(crate) fn check_writable(&self) -> Result<(), Problem> {
        if self.options.is_read_only { Err(Problem::read_only()) } else { Ok(()) }
    }

    /// Closes sessions that nobody writes any more, for as long as the server exists.
    pub(crate) async fn close_idle(weak: std::sync::Weak<Self>) {
        loop {
            let Some(interval) = weak.upgrade().map(|it| it.options.limits.idle) else { return };
            tokio::time::sleep(interval.min(Duration::from_secs(5))).await;
            let Some(shared) = weak.upgrade() else { return };
            shared.host.forget_ended();
            for (id, closed) in shared.writers.close_idle(shared.options.limits.idle).await {
                if let Err(error) = closed {
                    tracing::warn!(session = %id, "the session could not be closed: {error}");
                }
            }
        }
    }

    /// Removes a session, so that it does not come back from a folder that is watched.
    pub(crate) async fn remove(&self, id: &SessionId) -> Result<(), Problem> {
        self.check_writable()?;
        let is_listed = self.catalog.row(id).is_some();
        let is_stored = self.host.store().entry(id).await?.is_some();
        if !is_listed && !is_stored {
            return Err(Problem::no_session(id.as_str()));
        }
        if let Some(removing) = &self.options.removing {
            removing(id)?;
        }
        match self.writers.remove(id).await {
            Err(EngineError::Store(StoreError::NotFound { .. })) | Ok(()) => {}
            Err(error) => return Err(error.into()),
        }
        self.catalog.remove(id);
        Ok(())
    }
}
