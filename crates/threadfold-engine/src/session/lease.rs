//! The lease of a session that is written, renewed for as long as it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use threadfold_core::SessionId;
use threadfold_fold::Timestamp;
use threadfold_store::{Epoch, Holder, Lease, Store, StoreError};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::now;
use crate::holder::is_gone;

/// The time for which this process may write.
pub(super) struct Tenure {
    store: Arc<dyn Store>,
    session: SessionId,
    lease: Lease,
    lasting: Duration,
    confirmed: Arc<Confirmed>,
    renewal: JoinHandle<()>,
    /// The lease was given back, or is to run out.
    is_over: bool,
}

/// When the lease was last known to hold.
struct Confirmed(AtomicI64);

impl Confirmed {
    fn at(time: Timestamp) -> Self {
        Self(AtomicI64::new(time.0))
    }

    fn note(&self, time: Timestamp) {
        self.0.store(time.0, Ordering::Relaxed);
    }

    /// Says whether that is so short a time ago that the lease holds.
    fn is_fresh(&self, lasting: Duration) -> bool {
        let passed = now().0 - self.0.load(Ordering::Relaxed);
        u128::try_from(passed).is_ok_and(|passed| passed < lasting.as_millis() / 2)
    }
}

impl Tenure {
    /// Takes the lease, also from a process of this machine that is gone.
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
        let confirmed = Arc::new(Confirmed::at(asked));
        let renewing = Renewing {
            store: store.clone(),
            session: session.clone(),
            epoch: lease.epoch,
            lasting,
            confirmed: confirmed.clone(),
        };
        let renewal = tokio::spawn(renewing.go_on());
        Ok(Self {
            store,
            session: session.clone(),
            lease,
            lasting,
            confirmed,
            renewal,
            is_over: false,
        })
    }

    /// Returns once the lease is known to hold. Who was stopped for a while finds out here that
    /// another has taken over, before anything is done that no fence can stop.
    pub(super) async fn hold(&self) -> Result<Epoch, StoreError> {
        if !self.confirmed.is_fresh(self.lasting) {
            self.confirm().await?;
        }
        Ok(self.lease.epoch)
    }

    /// Renews the lease, and returns if it holds.
    pub(super) async fn confirm(&self) -> Result<(), StoreError> {
        let asked = now();
        self.store.renew(&self.session, self.lease.epoch, self.lasting).await?;
        self.confirmed.note(asked);
        Ok(())
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.lease.epoch
    }

    /// Has the lease run out, instead of being given back when this is dropped.
    pub(super) fn run_out(&mut self) {
        self.is_over = true;
    }

    pub(super) async fn end(&mut self) -> Result<(), StoreError> {
        self.renewal.abort();
        self.store.release(&self.session, self.lease.epoch).await?;
        self.is_over = true;
        Ok(())
    }
}

impl Drop for Tenure {
    /// Gives the lease back, if there is a runtime to do so. The store is asked at once where it
    /// can be, so that whoever asks it next for a lease comes behind.
    fn drop(&mut self) {
        self.renewal.abort();
        let Ok(runtime) = Handle::try_current() else { return };
        if self.is_over {
            return;
        }
        let (store, session, epoch) = (self.store.clone(), self.session.clone(), self.lease.epoch);
        // Who cannot be told finds out when the lease's time is over.
        let mut release =
            Box::pin(async move { store.release(&session, epoch).await.unwrap_or_default() });
        let asked = release.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if asked.is_pending() {
            runtime.spawn(release);
        }
    }
}

/// A lease that is renewed beside the writing.
struct Renewing {
    store: Arc<dyn Store>,
    session: SessionId,
    epoch: Epoch,
    lasting: Duration,
    confirmed: Arc<Confirmed>,
}

impl Renewing {
    /// Renews the lease until it is taken away. The next append tells the writer that it was.
    async fn go_on(self) {
        loop {
            tokio::time::sleep(self.lasting / 3).await;
            let asked = now();
            match self.store.renew(&self.session, self.epoch, self.lasting).await {
                Ok(_) => self.confirmed.note(asked),
                Err(StoreError::Fenced { .. } | StoreError::NotFound { .. }) => return,
                Err(_) => {}
            }
        }
    }
}
