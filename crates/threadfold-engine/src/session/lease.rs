//! The lease of an open session, renewed while it is open.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Waker};
use std::time::Duration;

use threadfold_core::SessionId;
use threadfold_fold::Timestamp;
use threadfold_store::{Epoch, Holder, Lease, Store, StoreError};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::now;
use crate::holder::is_gone;
use crate::listeners::SessionHandle;

/// How soon a renewal that failed is tried again.
const RETRY_RENEWAL: Duration = Duration::from_secs(1);

/// The period in which this process may write.
pub(super) struct HeldLease {
    store: Arc<dyn Store>,
    session: SessionId,
    lease: Lease,
    lasting: Duration,
    confirmed: Arc<LastConfirmation>,
    /// What the holder published, which ends with the lease.
    published: Arc<OnceLock<SessionHandle>>,
    renewal: JoinHandle<()>,
    /// The lease was released, or is left to expire.
    is_over: bool,
}

/// When the lease was last confirmed.
struct LastConfirmation(AtomicI64);

impl LastConfirmation {
    fn at(time: Timestamp) -> Self {
        Self(AtomicI64::new(time.0))
    }

    fn note(&self, time: Timestamp) {
        self.0.store(time.0, Ordering::Relaxed);
    }

    /// Returns whether the confirmation is recent enough for the lease to hold.
    fn is_fresh(&self, lasting: Duration) -> bool {
        let passed = now().0 - self.0.load(Ordering::Relaxed);
        u128::try_from(passed).is_ok_and(|passed| passed < lasting.as_millis() / 2)
    }
}

impl HeldLease {
    /// Acquires the lease, taking it over from a dead process of this machine if necessary.
    pub(super) async fn begin(
        store: Arc<dyn Store>,
        session: &SessionId,
        holder: &Holder,
        lasting: Duration,
    ) -> Result<Self, StoreError> {
        let asked = now();
        let lease = match store.acquire(session, holder, lasting).await {
            Err(StoreError::Held { holder: other, epoch, .. }) if is_gone(&other) => {
                store.take_over(session, holder, lasting, epoch).await?
            }
            acquired => acquired?,
        };
        let confirmed = Arc::new(LastConfirmation::at(asked));
        let published = Arc::new(OnceLock::new());
        let renewing = LeaseRenewal {
            store: store.clone(),
            session: session.clone(),
            epoch: lease.epoch,
            lasting,
            confirmed: confirmed.clone(),
            published: published.clone(),
        };
        let renewal = tokio::spawn(renewing.renew_until_dropped());
        Ok(Self {
            store,
            session: session.clone(),
            lease,
            lasting,
            confirmed,
            published,
            renewal,
            is_over: false,
        })
    }

    /// Ends what the holder published as soon as the lease is known to be lost. Its readers in this
    /// process would not see what the next writer writes, even if this one never writes again.
    pub(super) fn publish(&self, handle: SessionHandle) {
        // A session publishes once.
        self.published.set(handle).ok();
    }

    /// Returns once the lease is confirmed. A process that was suspended detects here that another
    /// one has taken over, before it causes effects that no fence can stop.
    pub(super) async fn hold(&self) -> Result<Epoch, StoreError> {
        if !self.confirmed.is_fresh(self.lasting) {
            self.confirm().await?;
        }
        Ok(self.lease.epoch)
    }

    /// Renews the lease, and fails if it is lost.
    pub(super) async fn confirm(&self) -> Result<(), StoreError> {
        let asked = now();
        self.store.renew(&self.session, self.lease.epoch, self.lasting).await?;
        self.confirmed.note(asked);
        Ok(())
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.lease.epoch
    }

    /// Lets the lease expire instead of releasing it on drop.
    pub(super) fn let_expire(&mut self) {
        self.is_over = true;
    }

    pub(super) async fn end(&mut self) -> Result<(), StoreError> {
        self.renewal.abort();
        self.store.release(&self.session, self.lease.epoch).await?;
        self.is_over = true;
        Ok(())
    }
}

impl Drop for HeldLease {
    /// Releases the lease, if there is a runtime. The release is polled once immediately, so that
    /// it precedes any later request for the lease.
    fn drop(&mut self) {
        self.renewal.abort();
        let Ok(runtime) = Handle::try_current() else { return };
        if self.is_over {
            return;
        }
        let (store, session, epoch) = (self.store.clone(), self.session.clone(), self.lease.epoch);
        // If the release fails, the lease expires by itself.
        let mut release =
            Box::pin(async move { store.release(&session, epoch).await.unwrap_or_default() });
        let asked = release.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if asked.is_pending() {
            runtime.spawn(release);
        }
    }
}

/// Renews a lease in the background.
struct LeaseRenewal {
    store: Arc<dyn Store>,
    session: SessionId,
    epoch: Epoch,
    lasting: Duration,
    confirmed: Arc<LastConfirmation>,
    published: Arc<OnceLock<SessionHandle>>,
}

impl LeaseRenewal {
    /// Renews the lease until it is lost. The writer's next append reports that as well.
    async fn renew_until_dropped(self) {
        let interval = self.lasting / 3;
        let mut pause = interval;
        loop {
            tokio::time::sleep(pause).await;
            let asked = now();
            match self.store.renew(&self.session, self.epoch, self.lasting).await {
                Ok(_) => {
                    self.confirmed.note(asked);
                    pause = interval;
                }
                Err(StoreError::Fenced { .. } | StoreError::NotFound { .. }) => {
                    if let Some(handle) = self.published.get() {
                        handle.end("another process is writing the session");
                    }
                    return;
                }
                // Another process may have taken over while the store could not be reached.
                Err(_) => pause = interval.min(RETRY_RENEWAL),
            }
        }
    }
}
