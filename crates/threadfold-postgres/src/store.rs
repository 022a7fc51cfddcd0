//! The store: connections for calls, one task that writes appends together, one that wakes.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use deadpool_postgres::{Object, Pool};
use threadfold_core::SessionId;
use threadfold_fold::{LogId, StoredRecord};
use threadfold_store::pack::{PreparedAppend, is_long};
use threadfold_store::{
    Append, AppendReceipt, BlobHash, BlobStore, ChangePosition, Clock, DerivedStore, Epoch,
    Finding, GarbageReport, Holder, Lease, LeaseStore, Limit, ListQuery, LogHead, LogStore,
    Maintenance, SessionEntry, SessionPage, SnapshotEnd, SnapshotPieces, SnapshotWriter,
    StoreError, StoreSize, StoredSnapshot, Summary, TicketHash, TicketStore, TicketUse,
};

use crate::connect::Connector;
use crate::failure::Failure;
use crate::group_commit::GroupCommit;
use crate::leases::Claim;
use crate::schema::{LATEST_VERSION, migrate, newer, version};
use crate::snapshots::PostgresSnapshotWriter;
use crate::url::PostgresUrl;
use crate::wake::{Herald, WakeRegistry};
use crate::{append, blobs, check, leases, records, sessions, size, snapshots, tickets};

/// A store in a PostgreSQL database, in the schema `threadfold`.
///
/// Open and use it within a Tokio runtime: its tasks run there until it is dropped.
pub struct PostgresStore {
    database: Arc<Database>,
    appends: GroupCommit,
    /// Ends with the store.
    _herald: Herald,
}

/// What all work with the database needs.
pub(crate) struct Database {
    pool: Pool,
    /// What errors call it.
    pub(crate) place: String,
    clock: Option<Clock>,
    pub(crate) wakes: Arc<WakeRegistry>,
    is_read_only: bool,
}

impl Database {
    pub(crate) async fn client(&self) -> Result<Object, Failure> {
        Ok(self.pool.get().await?)
    }

    /// Returns the time, if it is not the database's own.
    pub(crate) fn now(&self) -> Option<i64> {
        self.clock.as_ref().map(|clock| clock.now().0)
    }

    pub(crate) fn error(&self, failure: Failure) -> StoreError {
        failure.at(&self.place)
    }

    /// Refuses a write to a store that was opened for reading.
    fn check_writable(&self) -> Result<(), StoreError> {
        if !self.is_read_only {
            return Ok(());
        }
        let source = "the store was opened read-only".into();
        Err(StoreError::Unwritable { place: self.place.clone(), source })
    }
}

impl PostgresStore {
    /// Opens a store; creates its tables if there are none, or migrates them.
    pub async fn open(url: &PostgresUrl) -> Result<Self, StoreError> {
        Self::open_with(url, None).await
    }

    /// Opens a store like [`open`](Self::open), with another clock for its leases than the
    /// database's.
    pub async fn open_with_clock(url: &PostgresUrl, clock: Clock) -> Result<Self, StoreError> {
        Self::open_with(url, Some(clock)).await
    }

    /// Opens an existing store for reading. Every write is refused with
    /// [`StoreError::Unwritable`].
    pub async fn open_read_only(url: &PostgresUrl) -> Result<Self, StoreError> {
        let (connector, database) = Self::connect(url, None, true)?;
        let found = async { version(&**database.client().await?).await }.await;
        match found.map_err(|failure| database.error(failure))? {
            0 => Err(StoreError::Foreign {
                place: database.place.clone(),
                what: "it has no schema `threadfold`".to_owned(),
            }),
            found if found > LATEST_VERSION => Err(newer(&database.place, found)),
            _ => Ok(Self::start(&connector, database)),
        }
    }

    async fn open_with(url: &PostgresUrl, clock: Option<Clock>) -> Result<Self, StoreError> {
        let (connector, database) = Self::connect(url, clock, false)?;
        let prepared = async {
            let mut client = database.client().await?;
            match version(&client).await? {
                LATEST_VERSION => Ok(()),
                found if found > LATEST_VERSION => Err(newer(&database.place, found).into()),
                _ => migrate((**client).transaction().await?, &database.place).await,
            }
        };
        prepared.await.map_err(|failure: Failure| database.error(failure))?;
        Ok(Self::start(&connector, database))
    }

    fn connect(
        url: &PostgresUrl,
        clock: Option<Clock>,
        is_read_only: bool,
    ) -> Result<(Connector, Arc<Database>), StoreError> {
        let connector = Connector::new(url)?;
        let place = url.to_string();
        let pool = connector.pool().map_err(|source| StoreError::Unreachable {
            place: place.clone(),
            source: Box::new(source),
        })?;
        let wakes = Arc::new(WakeRegistry::default());
        Ok((connector, Arc::new(Database { pool, place, clock, wakes, is_read_only })))
    }

    fn start(connector: &Connector, database: Arc<Database>) -> Self {
        let herald = Herald::start(connector.clone(), database.wakes.clone());
        let appends = GroupCommit::start(database.clone());
        Self { database, appends, _herald: herald }
    }

    pub(crate) fn database(&self) -> &Arc<Database> {
        &self.database
    }

    /// Returns what a write does, or why it may not.
    pub(crate) async fn write<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, StoreError> {
        self.database.check_writable()?;
        work.await.map_err(|failure| self.database.error(failure))
    }

    async fn read_with<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, StoreError> {
        work.await.map_err(|failure| self.database.error(failure))
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("place", &self.database.place).finish()
    }
}

#[async_trait]
impl LogStore for PostgresStore {
    async fn create(&self, session: &SessionId, log: LogId) -> Result<LogHead, StoreError> {
        self.write(sessions::create(&self.database, session, &log)).await
    }

    async fn head(&self, session: &SessionId) -> Result<Option<LogHead>, StoreError> {
        self.read_with(sessions::head(&self.database, session)).await
    }

    async fn entry(&self, session: &SessionId) -> Result<Option<SessionEntry>, StoreError> {
        self.read_with(sessions::entry(&self.database, session)).await
    }

    async fn list(&self, query: &ListQuery) -> Result<SessionPage, StoreError> {
        self.read_with(sessions::list(&self.database, query)).await
    }

    async fn append(&self, append: Append) -> Result<AppendReceipt, StoreError> {
        self.database.check_writable()?;
        // Long ones are packed on another thread, so that the caller's other tasks do not wait.
        let prepared = if is_long(&append) {
            let prepared = tokio::task::spawn_blocking(move || PreparedAppend::new(append)).await;
            prepared.map_err(|source| StoreError::Unreachable {
                place: self.database.place.clone(),
                source: Box::new(source),
            })?
        } else {
            PreparedAppend::new(append)
        };
        self.write(append::append(&self.database, &self.appends, prepared)).await
    }

    async fn read(
        &self,
        session: &SessionId,
        after: u64,
        limit: Limit,
    ) -> Result<Vec<StoredRecord>, StoreError> {
        self.read_with(records::read(&self.database, session, after, limit)).await
    }

    async fn changed(&self, session: &SessionId, after: u64) -> Result<(), StoreError> {
        // Before looking, so that no append in between is missed.
        let mut waiter = self.database.wakes.wait_for(session);
        loop {
            match self.head(session).await? {
                None => return Err(StoreError::NotFound { session: session.clone() }),
                Some(head) if head.seq > after => return Ok(()),
                Some(_) => waiter.woken().await,
            }
        }
    }

    async fn sessions_changed(&self, after: &ChangePosition) -> Result<ChangePosition, StoreError> {
        Ok(self.database.wakes.wait_for_any().wait(after).await)
    }

    async fn remove(&self, session: &SessionId) -> Result<(), StoreError> {
        self.write(sessions::remove(&self.database, session)).await
    }
}

#[async_trait]
impl LeaseStore for PostgresStore {
    async fn acquire(
        &self,
        session: &SessionId,
        holder: &Holder,
        duration: Duration,
    ) -> Result<Lease, StoreError> {
        let claim = Claim { holder, duration, except: None };
        self.write(leases::acquire(&self.database, session, claim)).await
    }

    async fn take_over(
        &self,
        session: &SessionId,
        holder: &Holder,
        duration: Duration,
        from: Epoch,
    ) -> Result<Lease, StoreError> {
        let claim = Claim { holder, duration, except: Some(from) };
        self.write(leases::acquire(&self.database, session, claim)).await
    }

    async fn renew(
        &self,
        session: &SessionId,
        epoch: Epoch,
        duration: Duration,
    ) -> Result<Lease, StoreError> {
        self.write(leases::renew(&self.database, session, epoch, duration)).await
    }

    async fn release(&self, session: &SessionId, epoch: Epoch) -> Result<(), StoreError> {
        self.write(leases::release(&self.database, session, epoch)).await
    }
}

#[async_trait]
impl DerivedStore for PostgresStore {
    fn write_snapshot<'a>(
        &'a self,
        session: &SessionId,
        generation: u32,
        seq: u64,
    ) -> Box<dyn SnapshotWriter + 'a> {
        Box::new(PostgresSnapshotWriter::new(self, session, (generation, seq)))
    }

    async fn snapshot(
        &self,
        session: &SessionId,
        generation: u32,
        until: u64,
    ) -> Result<Option<StoredSnapshot>, StoreError> {
        self.read_with(snapshots::latest(&self.database, session, generation, until)).await
    }

    async fn snapshot_pieces(
        &self,
        session: &SessionId,
        generation: u32,
        until: u64,
    ) -> Result<Option<SnapshotPieces>, StoreError> {
        self.read_with(snapshots::pieces(&self.database, session, generation, until)).await
    }

    async fn snapshot_end(
        &self,
        session: &SessionId,
        generation: u32,
        until: u64,
    ) -> Result<Option<SnapshotEnd>, StoreError> {
        self.read_with(snapshots::end(&self.database, session, generation, until)).await
    }

    async fn snapshots(&self, session: &SessionId) -> Result<Vec<(u32, u64)>, StoreError> {
        self.read_with(snapshots::list(&self.database, session)).await
    }

    async fn delete_derived(&self, session: &SessionId) -> Result<(), StoreError> {
        self.write(snapshots::delete_derived(&self.database, session)).await
    }

    async fn put_summary(
        &self,
        session: &SessionId,
        log: &LogId,
        summary: Summary,
    ) -> Result<(), StoreError> {
        self.write(sessions::put_summary(&self.database, session, log, &summary)).await
    }
}

#[async_trait]
impl BlobStore for PostgresStore {
    async fn put_blob(&self, session: &SessionId, bytes: Bytes) -> Result<BlobHash, StoreError> {
        self.write(blobs::put(&self.database, session, bytes)).await
    }

    async fn blob(&self, hash: &BlobHash) -> Result<Option<Bytes>, StoreError> {
        self.read_with(blobs::read(&self.database, hash)).await
    }
}

#[async_trait]
impl TicketStore for PostgresStore {
    async fn add_ticket(
        &self,
        ticket: &TicketHash,
        lifetime: Duration,
        most: u64,
    ) -> Result<bool, StoreError> {
        self.write(tickets::add(&self.database, ticket, lifetime, most)).await
    }

    async fn use_ticket(&self, ticket: &TicketHash) -> Result<TicketUse, StoreError> {
        self.write(tickets::use_up(&self.database, ticket)).await
    }
}

#[async_trait]
impl Maintenance for PostgresStore {
    async fn ready(&self) -> Result<(), StoreError> {
        let checked = async {
            let client = self.database.client().await?;
            sessions::check_version(&**client, &self.database.place).await
        };
        self.read_with(checked).await
    }

    async fn collect_garbage(&self, age: Duration) -> Result<GarbageReport, StoreError> {
        self.write(blobs::collect_garbage(&self.database, age)).await
    }

    async fn check(&self) -> Result<Vec<Finding>, StoreError> {
        self.read_with(check::check(&self.database)).await
    }

    async fn size(&self) -> Result<StoreSize, StoreError> {
        self.read_with(size::measure(&self.database)).await
    }

    async fn backup(&self, _: &Path) -> Result<(), StoreError> {
        let operation = "a backup to a file";
        Err(StoreError::Unsupported { place: self.database.place.clone(), operation })
    }
}
