//! The lease of a session that is written, renewed for as long as it is.

use std::sync::Arc;
use std::time::Duration;

use threadfold_core::SessionId;
use threadfold_store::{Epoch, Holder, Lease, Store, StoreError};
use tokio::task::JoinHandle;

use super::now;
use crate::holder::is_gone;

/// How long a lease holds. Who is stopped for longer finds that another has taken over.
const LASTING: Duration = Duration::from_secs(30);
const RENEWED_EVERY: Duration = Duration::from_secs(10);

/// The time for which this process may write.
pub(super) struct Tenure {
    store: Arc<dyn Store>,
    session: SessionId,
    lease: Lease,
    renewal: JoinHandle<()>,
}

impl Tenure {
    /// Takes the lease, also from a process of this machine that is gone.
    pub(super) async fn begin(
        store: Arc<dyn Store>,
        session: &SessionId,
        holder: &Holder,
    ) -> Result<Self, StoreError> {
        let lease = match store.acquire(session, holder, now(), LASTING, None).await {
            Err(StoreError::Held { holder: other, epoch, .. }) if is_gone(&other) => {
                store.acquire(session, holder, now(), LASTING, Some(epoch)).await?
            }
            acquired => acquired?,
        };
        let renewal = tokio::spawn(renew(store.clone(), session.clone(), lease.epoch));
        Ok(Self { store, session: session.clone(), lease, renewal })
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.lease.epoch
    }

    pub(super) async fn end(&self) -> Result<(), StoreError> {
        self.renewal.abort();
        self.store.release(&self.session, self.lease.epoch).await
    }
}

impl Drop for Tenure {
    fn drop(&mut self) {
        self.renewal.abort();
    }
}

/// Renews a lease until it is taken away. The next append tells the writer that it was.
async fn renew(store: Arc<dyn Store>, session: SessionId, epoch: Epoch) {
    loop {
        tokio::time::sleep(RENEWED_EVERY).await;
        let renewed = store.renew(&session, epoch, now(), LASTING).await;
        if matches!(renewed, Err(StoreError::Fenced { .. } | StoreError::NotFound { .. })) {
            return;
        }
    }
}
