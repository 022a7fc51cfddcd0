//! The trait that every store fulfils.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use threadfold_core::SessionId;
use threadfold_fold::{LogId, StoredRecord, Timestamp};

use crate::blob::BlobHash;
use crate::error::StoreError;
use crate::lease::{Epoch, Holder, Lease};
use crate::log::{Append, Appended, Head, SessionEntry};
use crate::pack::chunks;
use crate::snapshot::{SnapshotPiece, SnapshotWriter, StoredSnapshot, Summary};

/// How much is read at once. At least one record is given if there is one.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// The last record that is wanted.
    pub until: u64,
    /// How many bytes of records are wanted, about.
    pub bytes: usize,
}

impl Default for Limit {
    /// Returns a limit for a few megabytes.
    fn default() -> Self {
        Self { until: u64::MAX, bytes: 4 << 20 }
    }
}

/// What a collection of garbage took away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// How many blobs.
    pub blobs: u64,
    /// How many bytes they took.
    pub bytes: u64,
}

/// Keeps sessions.
///
/// What is acknowledged survives a power cut. Order is a record's number in its log and nothing
/// else. Stores are shared: any number of readers, and of each session one writer, who is known
/// by the epoch of its lease.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Begins a session's log under this name, unless there is one; says how far it goes.
    async fn create(
        &self,
        session: &SessionId,
        log: LogId,
        now: Timestamp,
    ) -> Result<Head, StoreError>;

    /// Says how far a session's log goes; nothing if there is no such session.
    async fn head(&self, session: &SessionId) -> Result<Option<Head>, StoreError>;

    /// Returns one session.
    async fn entry(&self, session: &SessionId) -> Result<Option<SessionEntry>, StoreError> {
        Ok(self.list().await?.into_iter().find(|it| it.session == *session))
    }

    /// Returns all sessions, in the order of their names.
    async fn list(&self) -> Result<Vec<SessionEntry>, StoreError>;

    /// Adds records to a session: all of them, durable when this returns, or none.
    ///
    /// An append whose batch is in the log already, at the same place, is not done again, and is
    /// acknowledged again.
    async fn append(&self, append: Append) -> Result<Appended, StoreError>;

    /// Returns records after `after`, in their order. Fewer than there are may come, but none
    /// only at the end.
    async fn read(
        &self,
        session: &SessionId,
        after: u64,
        limit: Limit,
    ) -> Result<Vec<StoredRecord>, StoreError>;

    /// Returns when a session's log may go beyond `after`. A wake-up and nothing more: read again.
    async fn changed(&self, session: &SessionId, after: u64) -> Result<(), StoreError>;

    /// Gives out the right to write to a session, for `lasting`. Every lease has a new epoch,
    /// greater than any that was given out under this name, also before the session was removed
    /// and began anew.
    ///
    /// Refused with [`StoreError::Held`] while somebody else has it, unless `instead_of` names
    /// that lease: then its holder is known to be gone.
    async fn acquire(
        &self,
        session: &SessionId,
        holder: &Holder,
        now: Timestamp,
        lasting: Duration,
        instead_of: Option<Epoch>,
    ) -> Result<Lease, StoreError>;

    /// Makes a lease last longer. Refused with [`StoreError::Fenced`] if it was given to another.
    async fn renew(
        &self,
        session: &SessionId,
        epoch: Epoch,
        now: Timestamp,
        lasting: Duration,
    ) -> Result<Lease, StoreError>;

    /// Gives a lease back, if it is still the latest.
    async fn release(&self, session: &SessionId, epoch: Epoch) -> Result<(), StoreError>;

    /// Begins a snapshot that is too large to be handed over as a whole.
    fn write_snapshot<'a>(
        &'a self,
        session: &SessionId,
        generation: u32,
        seq: u64,
    ) -> Box<dyn SnapshotWriter + 'a>;

    /// Keeps a snapshot, instead of one of the same generation and place.
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

    /// Returns the latest snapshot of a generation that holds nothing after `until`.
    async fn snapshot(
        &self,
        session: &SessionId,
        generation: u32,
        until: u64,
    ) -> Result<Option<StoredSnapshot>, StoreError>;

    /// Returns generation and place of all snapshots of a session, in their order.
    async fn snapshots(&self, session: &SessionId) -> Result<Vec<(u32, u64)>, StoreError>;

    /// Deletes all that was derived of a session: its snapshots and its summary.
    async fn delete_derived(&self, session: &SessionId) -> Result<(), StoreError>;

    /// Keeps what lists show of a session, instead of what was kept before. One of another log, of
    /// an earlier generation, or of an earlier record is not kept: whoever lost the lease may come
    /// late.
    async fn put_summary(
        &self,
        session: &SessionId,
        log: &LogId,
        summary: Summary,
    ) -> Result<(), StoreError>;

    /// Keeps content for a session, and returns its name. What several sessions keep is stored
    /// once.
    async fn put_blob(&self, session: &SessionId, bytes: Bytes) -> Result<BlobHash, StoreError>;

    /// Returns content by its name.
    async fn blob(&self, hash: &BlobHash) -> Result<Option<Bytes>, StoreError>;

    /// Removes a session with its whole log. Refused with [`StoreError::Held`] while it is
    /// written.
    async fn remove(&self, session: &SessionId, now: Timestamp) -> Result<(), StoreError>;

    /// Deletes blobs that no session keeps and that were stored before `before`.
    async fn collect_garbage(&self, before: Timestamp) -> Result<Collected, StoreError>;
}
