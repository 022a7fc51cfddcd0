//! The store: hands reads to reader connections, and writes to the writer thread.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use rusqlite::Connection;
use threadfold_core::SessionId;
use threadfold_fold::{LogId, StoredRecord};
use threadfold_store::pack::{PreparedAppend, compress, is_long};
use threadfold_store::{
    Append, AppendReceipt, BlobHash, BlobStore, ChangePosition, Clock, DerivedStore, Epoch,
    Finding, GarbageReport, Holder, Lease, LeaseStore, Limit, ListQuery, LogHead, LogStore,
    Maintenance, SessionEntry, SessionPage, SnapshotEnd, SnapshotPieces, SnapshotWriter,
    StoreError, StoreSize, StoredSnapshot, Summary, TicketHash, TicketStore, TicketUse,
};

use crate::append;
use crate::connect::{self, Access, Location};
use crate::failure::Failure;
use crate::leases::{self, Claim};
use crate::readers::Readers;
use crate::wake::{WakeRegistry, Watcher};
use crate::writer::{Ledger, Writer};
use crate::{backup, blobs, check, rebuild, records, sessions, size, snapshots, tickets};

/// A store in one SQLite file.
///
/// Call its methods within a Tokio runtime: reads run on the runtime's threads for blocking work.
/// Dropping it finishes and waits for all writes that were started.
#[derive(Debug)]
pub struct SqliteStore {
    // Dropped in this order: the writer's connection closes the file last, and so moves the WAL
    // into it.
    readers: Arc<Readers>,
    watcher: Watcher,
    writer: Option<Writer>,
    clock: Clock,
}

impl SqliteStore {
    /// Opens a store; creates the file and its folder if there are none, readable by this user
    /// only.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::open_with_clock(path, Clock::system())
    }

    /// Opens a store like [`open`](Self::open), with another clock for its leases.
    pub fn open_with_clock(path: impl AsRef<Path>, clock: Clock) -> Result<Self, StoreError> {
        let location = Location::new(path.as_ref());
        let connection = connect::create_file(&location)
            .and_then(|()| connect::inspect(&location))
            .and_then(|()| connect::writer(&location))
            .map_err(|failure| failure.while_writing(&location.name))?;
        let wakes = Arc::new(WakeRegistry::default());
        let writer = Writer::start(location.clone(), connection, clock.clone(), wakes.clone())
            .map_err(|error| no_thread(&location, error))?;
        Self::new(location, Access::Shared, wakes, Some(writer), clock)
    }

    /// Opens an existing store for reading. Every write is refused with
    /// [`StoreError::Unwritable`].
    ///
    /// It also works in a folder where nothing can be written.
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let location = Location::new(path.as_ref());
        let access = Access::of(&location);
        let readers = Readers::new(location.clone(), access);
        connect::inspect(&location)
            .and_then(|()| readers.with(|connection| connect::check_version(&location, connection)))
            .map_err(|failure| failure.while_reading(&location.name))?;
        Self::new(location, access, Arc::default(), None, Clock::system())
    }

    /// Copies what can still be read of a damaged file into a new store, page by page and without
    /// SQLite, and returns how many sessions have lost their name: those are called `salvaged-N`.
    ///
    /// The damaged file stays as it is. What was removed from it may reappear in the copy.
    pub fn rebuild(damaged: impl AsRef<Path>, target: impl AsRef<Path>) -> Result<u64, StoreError> {
        rebuild::rebuild(&Location::new(damaged.as_ref()), &Location::new(target.as_ref()))
    }

    fn new(
        location: Location,
        access: Access,
        wakes: Arc<WakeRegistry>,
        writer: Option<Writer>,
        clock: Clock,
    ) -> Result<Self, StoreError> {
        let watcher = Watcher::start(location.clone(), access, wakes)
            .map_err(|error| no_thread(&location, error))?;
        let readers = Arc::new(Readers::new(location, access));
        Ok(Self { readers, watcher, writer, clock })
    }

    /// Runs `work` with a reader connection, on a thread that may block.
    pub(crate) async fn read_with<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    {
        let place = self.readers.location.name.clone();
        self.read_as(move |failure| failure.while_reading(&place), work).await
    }

    async fn read_as<T, F>(
        &self,
        convert: impl FnOnce(Failure) -> StoreError,
        work: F,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    {
        let readers = Arc::clone(&self.readers);
        match tokio::task::spawn_blocking(move || readers.with(work)).await {
            Ok(done) => done.map_err(convert),
            Err(error) => Err(self.lost_thread(error)),
        }
    }

    /// Returns the error of work that its thread did not finish.
    fn lost_thread(&self, error: tokio::task::JoinError) -> StoreError {
        StoreError::Unreachable {
            place: self.readers.location.name.clone(),
            source: Box::new(error),
        }
    }

    /// Runs `work` on the writer thread.
    pub(crate) async fn write_with<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Ledger<'_>) -> Result<T, Failure> + Send + 'static,
    {
        match &self.writer {
            Some(writer) => writer.run(work).await,
            None => Err(StoreError::Unwritable {
                place: self.readers.location.name.clone(),
                source: "the store was opened read-only".into(),
            }),
        }
    }
}

fn no_thread(location: &Location, error: std::io::Error) -> StoreError {
    StoreError::Unreachable { place: location.name.clone(), source: Box::new(error) }
}

#[async_trait]
impl LogStore for SqliteStore {
    async fn create(&self, session: &SessionId, log: LogId) -> Result<LogHead, StoreError> {
        let session = session.clone();
        self.write_with(move |ledger| sessions::create(ledger, &session, &log)).await
    }

    async fn head(&self, session: &SessionId) -> Result<Option<LogHead>, StoreError> {
        let session = session.clone();
        self.read_with(move |connection| sessions::head(connection, &session)).await
    }

    async fn entry(&self, session: &SessionId) -> Result<Option<SessionEntry>, StoreError> {
        let (session, now) = (session.clone(), self.clock.now());
        self.read_with(move |connection| sessions::entry(connection, &session, now)).await
    }

    async fn list(&self, query: &ListQuery) -> Result<SessionPage, StoreError> {
        let (query, now) = (query.clone(), self.clock.now());
        self.read_with(move |connection| sessions::list(connection, &query, now)).await
    }

    async fn append(&self, append: Append) -> Result<AppendReceipt, StoreError> {
        // Long ones are packed on another thread, so that neither the caller's other tasks nor the
        // writer's thread wait for it.
        let prepared = if is_long(&append) {
            let prepared = tokio::task::spawn_blocking(move || PreparedAppend::new(append)).await;
            prepared.map_err(|error| self.lost_thread(error))?
        } else {
            PreparedAppend::new(append)
        };
        self.write_with(move |ledger| append::append(ledger, prepared)).await
    }

    async fn read(
        &self,
        session: &SessionId,
        after: u64,
        limit: Limit,
    ) -> Result<Vec<StoredRecord>, StoreError> {
        let session = session.clone();
        self.read_with(move |connection| records::read(connection, &session, after, limit)).await
    }

    async fn changed(&self, session: &SessionId, after: u64) -> Result<(), StoreError> {
        // Before looking, so that no append in between is missed.
        let mut waiter = self.watcher.wait_for(session);
        loop {
            match self.head(session).await? {
                None => return Err(StoreError::NotFound { session: session.clone() }),
                Some(head) if head.seq > after => return Ok(()),
                Some(_) => waiter.woken().await,
            }
        }
    }

    async fn sessions_changed(&self, after: &ChangePosition) -> Result<ChangePosition, StoreError> {
        Ok(self.watcher.wait_for_any().wait(after).await)
    }

    async fn remove(&self, session: &SessionId) -> Result<(), StoreError> {
        let session = session.clone();
        self.write_with(move |ledger| sessions::remove(ledger, &session)).await
    }
}

#[async_trait]
impl LeaseStore for SqliteStore {
    async fn acquire(
        &self,
        session: &SessionId,
        holder: &Holder,
        duration: Duration,
    ) -> Result<Lease, StoreError> {
        let session = session.clone();
        let claim = Claim { holder: holder.clone(), duration, except: None };
        self.write_with(move |ledger| leases::acquire(ledger, &session, claim)).await
    }

    async fn take_over(
        &self,
        session: &SessionId,
        holder: &Holder,
        duration: Duration,
        from: Epoch,
    ) -> Result<Lease, StoreError> {
        let session = session.clone();
        let claim = Claim { holder: holder.clone(), duration, except: Some(from) };
        self.write_with(move |ledger| leases::acquire(ledger, &session, claim)).await
    }

    async fn renew(
        &self,
        session: &SessionId,
        epoch: Epoch,
        duration: Duration,
    ) -> Result<Lease, StoreError> {
        let session = session.clone();
        self.write_with(move |ledger| leases::renew(ledger, &session, epoch, duration)).await
    }

    async fn release(&self, session: &SessionId, epoch: Epoch) -> Result<(), StoreError> {
        let session = session.clone();
        self.write_with(move |ledger| leases::release(ledger, &session, epoch)).await
    }
}

#[async_trait]
impl DerivedStore for SqliteStore {
    fn write_snapshot<'a>(
        &'a self,
        session: &SessionId,
        generation: u32,
        seq: u64,
    ) -> Box<dyn SnapshotWriter + 'a> {
        Box::new(snapshots::SqliteSnapshotWriter::new(self, session, (generation, seq)))
    }

    async fn snapshot(
        &self,
        session: &SessionId,
        generation: u32,
        until: u64,
    ) -> Result<Option<StoredSnapshot>, StoreError> {
        let session = session.clone();
        self.read_with(move |connection| snapshots::latest(connection, &session, generation, until))
            .await
    }

    async fn snapshot_pieces(
        &self,
        session: &SessionId,
        generation: u32,
        until: u64,
    ) -> Result<Option<SnapshotPieces>, StoreError> {
        let session = session.clone();
        self.read_with(move |connection| snapshots::pieces(connection, &session, generation, until))
            .await
    }

    async fn snapshot_end(
        &self,
        session: &SessionId,
        generation: u32,
        until: u64,
    ) -> Result<Option<SnapshotEnd>, StoreError> {
        let session = session.clone();
        self.read_with(move |connection| snapshots::end(connection, &session, generation, until))
            .await
    }

    async fn snapshots(&self, session: &SessionId) -> Result<Vec<(u32, u64)>, StoreError> {
        let session = session.clone();
        self.read_with(move |connection| snapshots::list(connection, &session)).await
    }

    async fn delete_derived(&self, session: &SessionId) -> Result<(), StoreError> {
        let session = session.clone();
        self.write_with(move |ledger| snapshots::delete_derived(ledger, &session)).await
    }

    async fn put_summary(
        &self,
        session: &SessionId,
        log: &LogId,
        summary: Summary,
    ) -> Result<(), StoreError> {
        let (session, log) = (session.clone(), log.clone());
        self.write_with(move |ledger| sessions::put_summary(ledger, &session, &log, &summary)).await
    }
}

#[async_trait]
impl BlobStore for SqliteStore {
    async fn put_blob(&self, session: &SessionId, bytes: Bytes) -> Result<BlobHash, StoreError> {
        let session = session.clone();
        // Compressed on a reader's thread, so that the writer's does not wait for it.
        let (hash, length, compressed) = self
            .read_with(move |_| Ok((BlobHash::of(&bytes), bytes.len(), compress(&bytes))))
            .await?;
        self.write_with(move |ledger| blobs::put(ledger, &session, hash, length, &compressed)).await
    }

    async fn blob(&self, hash: &BlobHash) -> Result<Option<Bytes>, StoreError> {
        let hash = *hash;
        self.read_with(move |connection| Ok(blobs::read(connection, &hash)?.map(Bytes::from))).await
    }
}

#[async_trait]
impl TicketStore for SqliteStore {
    async fn add_ticket(
        &self,
        ticket: &TicketHash,
        lifetime: Duration,
        most: u64,
    ) -> Result<bool, StoreError> {
        let ticket = *ticket;
        self.write_with(move |ledger| tickets::add(ledger, &ticket, lifetime, most)).await
    }

    async fn use_ticket(&self, ticket: &TicketHash) -> Result<TicketUse, StoreError> {
        let ticket = *ticket;
        self.write_with(move |ledger| tickets::use_up(ledger, &ticket)).await
    }
}

#[async_trait]
impl Maintenance for SqliteStore {
    async fn ready(&self) -> Result<(), StoreError> {
        let location = self.readers.location.clone();
        self.read_with(move |connection| connect::check_version(&location, connection)).await
    }

    async fn collect_garbage(&self, age: Duration) -> Result<GarbageReport, StoreError> {
        // Refused here if the store is read-only, and not only once there is garbage.
        self.write_with(|_| Ok(())).await?;
        let latest = self.clock.now().before(age);
        let ranges = self.read_with(move |connection| blobs::garbage(connection, latest)).await?;
        let mut report = GarbageReport::default();
        for range in ranges {
            let start = Instant::now();
            let deleted = self.write_with(move |ledger| blobs::collect(ledger, &range, latest));
            let deleted = deleted.await?;
            report.blobs += deleted.blobs;
            report.bytes += deleted.bytes;
            // Gives other processes as much time for the write lock as this one had it.
            tokio::time::sleep(start.elapsed()).await;
        }
        Ok(report)
    }

    async fn check(&self) -> Result<Vec<Finding>, StoreError> {
        self.read_with(check::check).await
    }

    async fn size(&self) -> Result<StoreSize, StoreError> {
        let location = self.readers.location.clone();
        self.read_with(move |connection| size::measure(connection, &location)).await
    }

    async fn backup(&self, target: &Path) -> Result<(), StoreError> {
        let target = Location::new(target);
        let name = target.name.clone();
        self.read_as(
            move |failure| failure.while_writing(&name),
            move |connection| backup::write(connection, &target),
        )
        .await
    }
}
