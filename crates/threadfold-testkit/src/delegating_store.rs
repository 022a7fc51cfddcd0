//! A store that forwards every call to another one, with hooks around each call.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use threadfold_core::SessionId;
use threadfold_fold::{LogId, StoredRecord};
use threadfold_store::{
    Append, AppendReceipt, BlobHash, BlobStore, ChangePosition, DerivedStore, Epoch, Finding,
    GarbageReport, Holder, Lease, LeaseStore, Limit, ListQuery, LogHead, LogStore, Maintenance,
    SessionEntry, SessionPage, SnapshotEnd, SnapshotPiece, SnapshotPieces, SnapshotWriter, Store,
    StoreError, StoreSize, StoredSnapshot, Summary, TicketHash, TicketStore, TicketUse,
};

/// A method of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each variant is the method of its name")]
pub enum StoreCall {
    Create,
    Head,
    Entry,
    List,
    Append,
    Read,
    Changed,
    SessionsChanged,
    Remove,
    Acquire,
    TakeOver,
    Renew,
    Release,
    AddSnapshotPiece,
    FinishSnapshot,
    Snapshot,
    SnapshotPieces,
    SnapshotEnd,
    Snapshots,
    DeleteDerived,
    PutSummary,
    PutBlob,
    Blob,
    AddTicket,
    UseTicket,
    CollectGarbage,
    Ready,
    Check,
    Size,
    Backup,
}

/// Hooks around each call of a [`DelegatingStore`].
#[async_trait]
pub trait StoreHooks: Send + Sync + 'static {
    /// The value that `before` passes to the `after` of the same call.
    type Ticket: Send;

    /// Runs before a call. An error is returned to the caller, and the call is not forwarded.
    async fn before(&self, call: StoreCall) -> Result<Self::Ticket, StoreError>;

    /// Runs after a call was forwarded, whether it succeeded or failed. An error replaces the
    /// result, although the call took effect.
    async fn after(&self, call: StoreCall, ticket: Self::Ticket) -> Result<(), StoreError>;
}

/// A store that forwards every call to another one, with hooks around each call.
///
/// For tests of a caller whose store fails, hangs, or is killed.
pub struct DelegatingStore<H> {
    inner: Arc<dyn Store>,
    hooks: H,
}

impl<H: StoreHooks> DelegatingStore<H> {
    /// Returns a store that forwards to `inner`.
    pub fn new(inner: Arc<dyn Store>, hooks: H) -> Self {
        Self { inner, hooks }
    }

    /// Returns the hooks.
    pub fn hooks(&self) -> &H {
        &self.hooks
    }
}

/// Forwards one call, between its hooks.
macro_rules! forward {
    ($hooks:expr, $call:ident, $forwarded:expr) => {{
        let ticket = $hooks.before(StoreCall::$call).await?;
        let answer = $forwarded.await;
        $hooks.after(StoreCall::$call, ticket).await?;
        answer
    }};
}

#[async_trait]
impl<H: StoreHooks> LogStore for DelegatingStore<H> {
    async fn create(&self, session: &SessionId, log: LogId) -> Result<LogHead, StoreError> {
        forward!(self.hooks, Create, self.inner.create(session, log))
    }

    async fn head(&self, session: &SessionId) -> Result<Option<LogHead>, StoreError> {
        forward!(self.hooks, Head, self.inner.head(session))
    }

    async fn entry(&self, session: &SessionId) -> Result<Option<SessionEntry>, StoreError> {
        forward!(self.hooks, Entry, self.inner.entry(session))
    }

    async fn list(&self, query: &ListQuery) -> Result<SessionPage, StoreError> {
        forward!(self.hooks, List, self.inner.list(query))
    }

    async fn append(&self, append: Append) -> Result<AppendReceipt, StoreError> {
        forward!(self.hooks, Append, self.inner.append(append))
    }

    async fn read(
        &self,
        session: &SessionId,
        after: u64,
        limit: Limit,
    ) -> Result<Vec<StoredRecord>, StoreError> {
        forward!(self.hooks, Read, self.inner.read(session, after, limit))
    }

    async fn changed(&self, session: &SessionId, after: u64) -> Result<(), StoreError> {
        forward!(self.hooks, Changed, self.inner.changed(session, after))
    }

    async fn sessions_changed(&self, after: &ChangePosition) -> Result<ChangePosition, StoreError> {
        forward!(self.hooks, SessionsChanged, self.inner.sessions_changed(after))
    }

    async fn remove(&self, session: &SessionId) -> Result<(), StoreError> {
        forward!(self.hooks, Remove, self.inner.remove(session))
    }
}

#[async_trait]
impl<H: StoreHooks> LeaseStore for DelegatingStore<H> {
    async fn acquire(
        &self,
        session: &SessionId,
        holder: &Holder,
        duration: Duration,
    ) -> Result<Lease, StoreError> {
        forward!(self.hooks, Acquire, self.inner.acquire(session, holder, duration))
    }

    async fn take_over(
        &self,
        session: &SessionId,
        holder: &Holder,
        duration: Duration,
        from: Epoch,
    ) -> Result<Lease, StoreError> {
        forward!(self.hooks, TakeOver, self.inner.take_over(session, holder, duration, from))
    }

    async fn renew(
        &self,
        session: &SessionId,
        epoch: Epoch,
        duration: Duration,
    ) -> Result<Lease, StoreError> {
        forward!(self.hooks, Renew, self.inner.renew(session, epoch, duration))
    }

    async fn release(&self, session: &SessionId, epoch: Epoch) -> Result<(), StoreError> {
        forward!(self.hooks, Release, self.inner.release(session, epoch))
    }
}

#[async_trait]
impl<H: StoreHooks> DerivedStore for DelegatingStore<H> {
    fn write_snapshot<'a>(
        &'a self,
        session: &SessionId,
        generation: u32,
        seq: u64,
    ) -> Box<dyn SnapshotWriter + 'a> {
        let inner = self.inner.write_snapshot(session, generation, seq);
        Box::new(DelegatingSnapshotWriter { inner, hooks: &self.hooks })
    }

    async fn snapshot(
        &self,
        session: &SessionId,
        generation: u32,
        until: u64,
    ) -> Result<Option<StoredSnapshot>, StoreError> {
        forward!(self.hooks, Snapshot, self.inner.snapshot(session, generation, until))
    }

    async fn snapshot_pieces(
        &self,
        session: &SessionId,
        generation: u32,
        until: u64,
    ) -> Result<Option<SnapshotPieces>, StoreError> {
        let pieces = self.inner.snapshot_pieces(session, generation, until);
        forward!(self.hooks, SnapshotPieces, pieces)
    }

    async fn snapshot_end(
        &self,
        session: &SessionId,
        generation: u32,
        until: u64,
    ) -> Result<Option<SnapshotEnd>, StoreError> {
        let end = self.inner.snapshot_end(session, generation, until);
        forward!(self.hooks, SnapshotEnd, end)
    }

    async fn snapshots(&self, session: &SessionId) -> Result<Vec<(u32, u64)>, StoreError> {
        forward!(self.hooks, Snapshots, self.inner.snapshots(session))
    }

    async fn delete_derived(&self, session: &SessionId) -> Result<(), StoreError> {
        forward!(self.hooks, DeleteDerived, self.inner.delete_derived(session))
    }

    async fn put_summary(
        &self,
        session: &SessionId,
        log: &LogId,
        summary: Summary,
    ) -> Result<(), StoreError> {
        forward!(self.hooks, PutSummary, self.inner.put_summary(session, log, summary))
    }
}

struct DelegatingSnapshotWriter<'a, H> {
    inner: Box<dyn SnapshotWriter + 'a>,
    hooks: &'a H,
}

#[async_trait]
impl<H: StoreHooks> SnapshotWriter for DelegatingSnapshotWriter<'_, H> {
    async fn add(&mut self, piece: SnapshotPiece) -> Result<(), StoreError> {
        forward!(self.hooks, AddSnapshotPiece, self.inner.add(piece))
    }

    fn add_known(&mut self, piece: BlobHash) {
        self.inner.add_known(piece);
    }

    async fn finish(self: Box<Self>) -> Result<(), StoreError> {
        let Self { inner, hooks } = *self;
        forward!(hooks, FinishSnapshot, inner.finish())
    }
}

#[async_trait]
impl<H: StoreHooks> BlobStore for DelegatingStore<H> {
    async fn put_blob(&self, session: &SessionId, bytes: Bytes) -> Result<BlobHash, StoreError> {
        forward!(self.hooks, PutBlob, self.inner.put_blob(session, bytes))
    }

    async fn blob(&self, hash: &BlobHash) -> Result<Option<Bytes>, StoreError> {
        forward!(self.hooks, Blob, self.inner.blob(hash))
    }
}

#[async_trait]
impl<H: StoreHooks> TicketStore for DelegatingStore<H> {
    async fn add_ticket(
        &self,
        ticket: &TicketHash,
        lifetime: Duration,
        most: u64,
    ) -> Result<bool, StoreError> {
        forward!(self.hooks, AddTicket, self.inner.add_ticket(ticket, lifetime, most))
    }

    async fn use_ticket(&self, ticket: &TicketHash) -> Result<TicketUse, StoreError> {
        forward!(self.hooks, UseTicket, self.inner.use_ticket(ticket))
    }
}

#[async_trait]
impl<H: StoreHooks> Maintenance for DelegatingStore<H> {
    async fn ready(&self) -> Result<(), StoreError> {
        forward!(self.hooks, Ready, self.inner.ready())
    }

    async fn collect_garbage(&self, age: Duration) -> Result<GarbageReport, StoreError> {
        forward!(self.hooks, CollectGarbage, self.inner.collect_garbage(age))
    }

    async fn check(&self) -> Result<Vec<Finding>, StoreError> {
        forward!(self.hooks, Check, self.inner.check())
    }

    async fn size(&self) -> Result<StoreSize, StoreError> {
        forward!(self.hooks, Size, self.inner.size())
    }

    async fn backup(&self, target: &Path) -> Result<(), StoreError> {
        forward!(self.hooks, Backup, self.inner.backup(target))
    }
}
