//! The interface of stores, one trait for each concern.
//!
//! Every method can be answered by a remote store in one round trip.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use threadfold_core::SessionId;
use threadfold_fold::{LogId, StoredRecord};

use crate::blob::BlobHash;
use crate::change_position::ChangePosition;
use crate::error::StoreError;
use crate::lease::{Epoch, Holder, Lease};
use crate::log::{Append, AppendReceipt, LogHead, SessionEntry};
use crate::maintenance::{Finding, GarbageReport, StoreSize};
use crate::pack::chunks;
use crate::query::{Limit, ListQuery, SessionPage};
use crate::snapshot::{
    SnapshotEnd, SnapshotPiece, SnapshotPieces, SnapshotWriter, StoredSnapshot, Summary,
};
use crate::ticket::{TicketHash, TicketUse};

/// A store of sessions.
///
/// What it acknowledges survives a power cut. Records are ordered by their sequence number and by
/// nothing else. A store is shared: each session has any number of readers and one writer, which
/// is identified by the epoch of its lease.
///
/// Every type that implements the traits below is a `Store`; it is used as `Arc<dyn Store>`.
pub trait Store:
    LogStore + LeaseStore + DerivedStore + BlobStore + TicketStore + Maintenance
{
}

impl<T> Store for T where
    T: LogStore + LeaseStore + DerivedStore + BlobStore + TicketStore + Maintenance + ?Sized
{
}

/// Sessions and their logs.
#[async_trait]
pub trait LogStore: Send + Sync + 'static {
    /// Creates a session with an empty log of this id, unless the session exists; returns the end
    /// of its log.
    async fn create(&self, session: &SessionId, log: LogId) -> Result<LogHead, StoreError>;

    /// Returns the end of a session's log, or `None` if there is no such session.
    async fn head(&self, session: &SessionId) -> Result<Option<LogHead>, StoreError>;

    /// Returns a session with its lease and its summary, or `None` if there is no such session.
    async fn entry(&self, session: &SessionId) -> Result<Option<SessionEntry>, StoreError>;

    /// Returns a page of the list of sessions.
    async fn list(&self, query: &ListQuery) -> Result<SessionPage, StoreError>;

    /// Returns all sessions whose id starts with `prefix`, page by page.
    ///
    /// The pages are read one after another: a session that is created or removed meanwhile may or
    /// may not be among them.
    async fn list_all(&self, prefix: &str) -> Result<Vec<SessionEntry>, StoreError> {
        let mut query = ListQuery::with_prefix(prefix);
        let mut entries = Vec::new();
        loop {
            let page = self.list(&query).await?;
            entries.extend(page.entries);
            match page.next {
                None => return Ok(entries),
                next => query.after = next,
            }
        }
    }

    /// Appends records to a session. On return all of them are durable; on error none was written,
    /// or the outcome is unknown and the append can be retried.
    ///
    /// Idempotent by batch id: an append whose batch already stands in the log at the same place
    /// is acknowledged again and not written again.
    async fn append(&self, append: Append) -> Result<AppendReceipt, StoreError>;

    /// Returns records after `after`, in order. It may return fewer than there are, but returns
    /// none only at the end of the log.
    async fn read(
        &self,
        session: &SessionId,
        after: u64,
        limit: Limit,
    ) -> Result<Vec<StoredRecord>, StoreError>;

    /// Waits until a session's log may have grown beyond `after`.
    ///
    /// Only a wake-up: read the log to find out. Fails with [`StoreError::NotFound`] if the
    /// session is removed meanwhile.
    async fn changed(&self, session: &SessionId, after: u64) -> Result<(), StoreError>;

    /// Waits until a session of the store may have been created, appended to or removed after
    /// `after`, and returns the new position.
    ///
    /// Only a wake-up: list the sessions to find out. To miss nothing, take the position before
    /// listing:
    ///
    /// ```
    /// # use threadfold_store::{ChangePosition, Store, StoreError};
    /// # async fn watch(store: &dyn Store) -> Result<(), StoreError> {
    /// let mut position = ChangePosition::default();
    /// loop {
    ///     // Returns at once the first time: the default position is older than every change.
    ///     position = store.sessions_changed(&position).await?;
    ///     let sessions = store.list_all("").await?;
    /// #   drop(sessions);
    /// }
    /// # }
    /// ```
    async fn sessions_changed(&self, after: &ChangePosition) -> Result<ChangePosition, StoreError>;

    /// Removes a session with its whole log. Refused with [`StoreError::Held`] while its lease
    /// lasts.
    async fn remove(&self, session: &SessionId) -> Result<(), StoreError>;
}

/// Leases: each session has one writer at a time. The store's clock times them.
#[async_trait]
pub trait LeaseStore: Send + Sync + 'static {
    /// Acquires the lease of a session for `duration`. Refused with [`StoreError::Held`] while the
    /// lease of another process lasts.
    ///
    /// Every lease gets a new epoch, greater than any before it under this name, even if the
    /// session was removed and created again in between.
    async fn acquire(
        &self,
        session: &SessionId,
        holder: &Holder,
        duration: Duration,
    ) -> Result<Lease, StoreError>;

    /// Acquires the lease of a session like [`acquire`](Self::acquire), even if the lease of epoch
    /// `from` has not expired.
    ///
    /// For callers that know that its holder no longer runs. Because the epoch is named, a lease
    /// that a third process acquired meanwhile is not taken by mistake.
    async fn take_over(
        &self,
        session: &SessionId,
        holder: &Holder,
        duration: Duration,
        from: Epoch,
    ) -> Result<Lease, StoreError>;

    /// Extends a lease: it lasts `duration` from now on. Refused with [`StoreError::Fenced`] if
    /// there is a newer one.
    async fn renew(
        &self,
        session: &SessionId,
        epoch: Epoch,
        duration: Duration,
    ) -> Result<Lease, StoreError>;

    /// Releases a lease. Does nothing if there is a newer one.
    async fn release(&self, session: &SessionId, epoch: Epoch) -> Result<(), StoreError>;
}

/// Data that is derived from logs, and can be rebuilt from them: snapshots and summaries.
#[async_trait]
pub trait DerivedStore: Send + Sync + 'static {
    /// Starts to write a snapshot piece by piece.
    fn write_snapshot<'a>(
        &'a self,
        session: &SessionId,
        generation: u32,
        seq: u64,
    ) -> Box<dyn SnapshotWriter + 'a>;

    /// Stores a snapshot; it replaces one of the same generation and place.
    async fn put_snapshot(
        &self,
        session: &SessionId,
        snapshot: StoredSnapshot,
    ) -> Result<(), StoreError> {
        let mut writer = self.write_snapshot(session, snapshot.generation, snapshot.seq);
        for range in chunks(&snapshot.bytes) {
            writer.add(SnapshotPiece::new(snapshot.bytes.slice(range))).await?;
        }
        writer.finish().await
    }

    /// Returns the latest snapshot of a generation that covers no record after `until`.
    async fn snapshot(
        &self,
        session: &SessionId,
        generation: u32,
        until: u64,
    ) -> Result<Option<StoredSnapshot>, StoreError>;

    /// Returns the pieces of the latest snapshot of a generation that covers no record after
    /// `until`, for readers that need only parts of it.
    ///
    /// A piece may be gone once somebody deletes the snapshot.
    async fn snapshot_pieces(
        &self,
        session: &SessionId,
        generation: u32,
        until: u64,
    ) -> Result<Option<SnapshotPieces>, StoreError>;

    /// Returns the end of the latest snapshot of a generation that covers no record after `until`.
    /// Unlike the list of its pieces, it costs the same however many there are.
    async fn snapshot_end(
        &self,
        session: &SessionId,
        generation: u32,
        until: u64,
    ) -> Result<Option<SnapshotEnd>, StoreError>;

    /// Returns the generation and the last record of each snapshot of a session, in order.
    async fn snapshots(&self, session: &SessionId) -> Result<Vec<(u32, u64)>, StoreError>;

    /// Deletes the snapshots and the summary of a session.
    async fn delete_derived(&self, session: &SessionId) -> Result<(), StoreError>;

    /// Stores the summary of a session; it replaces the one before.
    ///
    /// A summary of another log, of an earlier generation or of an earlier record is ignored: a
    /// writer that lost its lease may still be about to store one.
    async fn put_summary(
        &self,
        session: &SessionId,
        log: &LogId,
        summary: Summary,
    ) -> Result<(), StoreError>;
}

/// Content-addressed blobs, deduplicated across sessions.
#[async_trait]
pub trait BlobStore: Send + Sync + 'static {
    /// Stores content for a session, and returns its hash.
    async fn put_blob(&self, session: &SessionId, bytes: Bytes) -> Result<BlobHash, StoreError>;

    /// Returns content by its hash.
    async fn blob(&self, hash: &BlobHash) -> Result<Option<Bytes>, StoreError>;
}

/// Tickets that admit clients, each once, at whichever server of the store they come.
#[async_trait]
pub trait TicketStore: Send + Sync + 'static {
    /// Adds a ticket that can be used for `lifetime` from now on, by the store's clock. Returns false,
    /// and adds nothing, if `most` others wait to be used.
    async fn add_ticket(
        &self,
        ticket: &TicketHash,
        lifetime: Duration,
        most: u64,
    ) -> Result<bool, StoreError>;

    /// Uses a ticket up. Of any number of calls with one ticket, at most one accepts it.
    async fn use_ticket(&self, ticket: &TicketHash) -> Result<TicketUse, StoreError>;
}

/// Maintenance of the store as a whole.
#[async_trait]
pub trait Maintenance: Send + Sync + 'static {
    /// Deletes blobs that no session refers to and that were stored at least `age` ago, by the
    /// store's clock.
    ///
    /// Younger blobs may belong to a snapshot that is being written.
    async fn collect_garbage(&self, age: Duration) -> Result<GarbageReport, StoreError>;

    /// Fails if the store cannot be used now: it cannot be reached, or a newer program has migrated
    /// it. Cheap enough to be asked every second.
    async fn ready(&self) -> Result<(), StoreError>;

    /// Checks the whole store for corruption, and returns what it finds.
    async fn check(&self) -> Result<Vec<Finding>, StoreError>;

    /// Returns what the store contains, and the space that it takes.
    async fn size(&self) -> Result<StoreSize, StoreError>;

    /// Writes a consistent copy of the store to a file, while the store is in use.
    ///
    /// The copy is complete and durable once it has its name; it replaces what was there. Fails
    /// with [`StoreError::Unsupported`] if the store cannot be copied to a file.
    async fn backup(&self, target: &Path) -> Result<(), StoreError>;
}
