//! A store whose appends go wrong as a test says.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use threadfold_core::SessionId;
use threadfold_store::{
    Append, Appended, BlobHash, Collected, Epoch, Head, Holder, Lease, Limit, LogId, SessionEntry,
    SnapshotWriter, Store, StoreError, StoredRecord, StoredSnapshot, Summary, Timestamp,
};
use tokio::sync::Notify;

/// What goes wrong with an append.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    /// It never comes to the store.
    HangsBefore,
    /// It is done, and that is never told.
    HangsAfter,
    /// It is not done, and may be tried again.
    Unreachable,
    /// It is done, and the opposite is told.
    AcknowledgementLost,
    /// It is not done, for there is no room.
    Unwritable,
}

pub(crate) struct Unreliable {
    inner: Arc<dyn Store>,
    faults: Mutex<VecDeque<Fault>>,
    /// Somebody hangs.
    pub(crate) hangs: Notify,
}

impl Unreliable {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self { inner, faults: Mutex::default(), hangs: Notify::new() })
    }

    /// Has the next appends go wrong, each in its way.
    pub(crate) fn next(&self, faults: impl IntoIterator<Item = Fault>) {
        self.faults.lock().unwrap().extend(faults);
    }

    async fn hang(&self) -> ! {
        self.hangs.notify_one();
        pending().await
    }
}

#[async_trait]
impl Store for Unreliable {
    async fn append(&self, append: Append) -> Result<Appended, StoreError> {
        let fault = self.faults.lock().unwrap().pop_front();
        let place = "the store".to_owned();
        match fault {
            None => self.inner.append(append).await,
            Some(Fault::HangsBefore) => self.hang().await,
            Some(Fault::HangsAfter) => {
                self.inner.append(append).await?;
                self.hang().await
            }
            Some(Fault::Unreachable) => {
                Err(StoreError::Unreachable { place, source: "it is busy".into() })
            }
            Some(Fault::AcknowledgementLost) => {
                self.inner.append(append).await?;
                Err(StoreError::Unreachable { place, source: "it went away".into() })
            }
            Some(Fault::Unwritable) => {
                Err(StoreError::Unwritable { place, source: "it is full".into() })
            }
        }
    }

    async fn create(
        &self,
        session: &SessionId,
        log: LogId,
        now: Timestamp,
    ) -> Result<Head, StoreError> {
        self.inner.create(session, log, now).await
    }

    async fn head(&self, session: &SessionId) -> Result<Option<Head>, StoreError> {
        self.inner.head(session).await
    }

    async fn list(&self) -> Result<Vec<SessionEntry>, StoreError> {
        self.inner.list().await
    }

    async fn read(
        &self,
        session: &SessionId,
        after: u64,
        limit: Limit,
    ) -> Result<Vec<StoredRecord>, StoreError> {
        self.inner.read(session, after, limit).await
    }

    async fn changed(&self, session: &SessionId, after: u64) -> Result<(), StoreError> {
        self.inner.changed(session, after).await
    }

    async fn acquire(
        &self,
        session: &SessionId,
        holder: &Holder,
        now: Timestamp,
        lasting: Duration,
        instead_of: Option<Epoch>,
    ) -> Result<Lease, StoreError> {
        self.inner.acquire(session, holder, now, lasting, instead_of).await
    }

    async fn renew(
        &self,
        session: &SessionId,
        epoch: Epoch,
        now: Timestamp,
        lasting: Duration,
    ) -> Result<Lease, StoreError> {
        self.inner.renew(session, epoch, now, lasting).await
    }

    async fn release(&self, session: &SessionId, epoch: Epoch) -> Result<(), StoreError> {
        self.inner.release(session, epoch).await
    }

    fn write_snapshot<'a>(
        &'a self,
        session: &SessionId,
        generation: u32,
        seq: u64,
    ) -> Box<dyn SnapshotWriter + 'a> {
        self.inner.write_snapshot(session, generation, seq)
    }

    async fn snapshot(
        &self,
        session: &SessionId,
        generation: u32,
        until: u64,
    ) -> Result<Option<StoredSnapshot>, StoreError> {
        self.inner.snapshot(session, generation, until).await
    }

    async fn snapshots(&self, session: &SessionId) -> Result<Vec<(u32, u64)>, StoreError> {
        self.inner.snapshots(session).await
    }

    async fn delete_derived(&self, session: &SessionId) -> Result<(), StoreError> {
        self.inner.delete_derived(session).await
    }

    async fn put_summary(
        &self,
        session: &SessionId,
        log: &LogId,
        summary: Summary,
    ) -> Result<(), StoreError> {
        self.inner.put_summary(session, log, summary).await
    }

    async fn put_blob(&self, session: &SessionId, bytes: Bytes) -> Result<BlobHash, StoreError> {
        self.inner.put_blob(session, bytes).await
    }

    async fn blob(&self, hash: &BlobHash) -> Result<Option<Bytes>, StoreError> {
        self.inner.blob(hash).await
    }

    async fn remove(&self, session: &SessionId, now: Timestamp) -> Result<(), StoreError> {
        self.inner.remove(session, now).await
    }

    async fn collect_garbage(&self, before: Timestamp) -> Result<Collected, StoreError> {
        self.inner.collect_garbage(before).await
    }
}
