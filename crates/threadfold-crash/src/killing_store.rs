//! A store that kills its own process before or after a write.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use rustix::process::{Signal, getpid, kill_process};
use threadfold_core::SessionId;
use threadfold_store::{
    Append, Appended, BlobHash, Collected, Epoch, Head, Holder, Lease, Limit, LogId, SessionEntry,
    SnapshotWriter, Store, StoreError, StoredRecord, StoredSnapshot, Summary, Timestamp,
};

use crate::child::Fail;

/// A store that kills its own process at a write.
pub(crate) struct KillingStore {
    inner: Arc<dyn Store>,
    fail: Fail,
    writes: AtomicU64,
}

impl KillingStore {
    pub(crate) fn new(inner: Arc<dyn Store>, fail: Fail) -> Self {
        Self { inner, fail, writes: AtomicU64::new(0) }
    }
}

fn die() -> ! {
    // If the signal cannot be sent, end in another way.
    if kill_process(getpid(), Signal::KILL).is_err() {
        std::process::abort();
    }
    loop {
        std::thread::park();
    }
}

#[async_trait]
impl Store for KillingStore {
    async fn append(&self, append: Append) -> Result<Appended, StoreError> {
        let number = self.writes.fetch_add(1, Ordering::SeqCst) + 1;
        if self.fail == Fail::Before(number) {
            die();
        }
        let appended = self.inner.append(append).await;
        if self.fail == Fail::After(number) {
            die();
        }
        appended
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
