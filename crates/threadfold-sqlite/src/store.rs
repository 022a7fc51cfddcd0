//! The store itself: it hands reads to reader connections and writes to the writer thread.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use rusqlite::Connection;
use threadfold_core::SessionId;

use crate::append::{self, PreparedAppend};
use crate::connect::{self, Access, Location};
use crate::failure::Failure;
use crate::leases::{self, Claim};
use crate::readers::Readers;
use crate::wake::{WakeRegistry, Watcher};
use crate::writer::{Ledger, Writer};
use crate::{backup, blobs, check, records, sessions, size, snapshots};
use threadfold_store::BlobHash;
use threadfold_store::StoreError;
use threadfold_store::pack::compress;
use threadfold_store::{Append, Appended, Head, LogId, SessionEntry};
use threadfold_store::{Collected, Limit, Store};
use threadfold_store::{Epoch, Holder, Lease};
use threadfold_store::{SnapshotWriter, StoredSnapshot, Summary};
use threadfold_store::{StoredRecord, Timestamp};

/// A store in one file.
///
/// Its methods are to be called within a Tokio runtime, which reads on its threads for blocking
/// work. Dropping it ends what was asked and waits for that.
#[derive(Debug)]
pub struct SqliteStore {
    // In this order they are dropped: the connection that writes is the last to close the file,
    // and brings all into it.
    readers: Arc<Readers>,
    watcher: Watcher,
    writer: Option<Writer>,
}

impl SqliteStore {
    /// Opens a store, and makes it if there is none: its file, and the folder, for this user
    /// alone.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let location = Location::new(path.as_ref());
        let connection = connect::make_file(&location)
            .and_then(|()| connect::inspect(&location))
            .and_then(|()| connect::writer(&location))
            .map_err(|stop| stop.while_writing(&location.name))?;
        let wakes = Arc::new(WakeRegistry::default());
        let writer = Writer::start(location.clone(), connection, Arc::clone(&wakes))
            .map_err(|error| no_thread(&location, error))?;
        Self::with(location, Access::Shared, wakes, Some(writer))
    }

    /// Opens a store that is there, to read from it. Whatever would write is refused with
    /// [`StoreError::Unwritable`].
    ///
    /// The folder may be one where nothing can be written.
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let location = Location::new(path.as_ref());
        let access = Access::of(&location);
        let readers = Readers::new(location.clone(), access);
        connect::inspect(&location)
            .and_then(|()| readers.with(|connection| connect::check_version(&location, connection)))
            .map_err(|stop| stop.while_reading(&location.name))?;
        Self::with(location, access, Arc::default(), None)
    }

    fn with(
        location: Location,
        access: Access,
        wakes: Arc<WakeRegistry>,
        writer: Option<Writer>,
    ) -> Result<Self, StoreError> {
        let watcher = Watcher::start(location.clone(), access, wakes)
            .map_err(|error| no_thread(&location, error))?;
        let readers = Arc::new(Readers::new(location, access));
        Ok(Self { readers, watcher, writer })
    }

    /// Writes a copy of the store to `path`, as it is at one moment, while it is in use.
    ///
    /// The copy is complete and durable when it has its name. What was there is replaced.
    pub async fn backup(&self, path: impl AsRef<Path>) -> Result<(), StoreError> {
        let target = Location::new(path.as_ref());
        let name = target.name.clone();
        self.read_as(
            move |stop| stop.while_writing(&name),
            move |connection| backup::write(connection, &target),
        )
        .await
    }

    /// Looks at everything that is stored, and returns what is wrong.
    pub async fn check(&self) -> Result<Vec<check::Finding>, StoreError> {
        self.read_with(check::check).await
    }

    /// Returns how much is stored, and how much room it takes.
    pub async fn size(&self) -> Result<size::Size, StoreError> {
        let location = self.readers.location.clone();
        self.read_with(move |connection| size::measure(connection, &location)).await
    }

    /// Has `work` done by a reader, on a thread that may block.
    pub(crate) async fn read_with<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    {
        let place = self.readers.location.name.clone();
        self.read_as(move |stop| stop.while_reading(&place), work).await
    }

    async fn read_as<T, F>(
        &self,
        told: impl FnOnce(Failure) -> StoreError,
        work: F,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    {
        let readers = Arc::clone(&self.readers);
        match tokio::task::spawn_blocking(move || readers.with(work)).await {
            Ok(done) => done.map_err(told),
            Err(error) => Err(StoreError::Unreachable {
                place: self.readers.location.name.clone(),
                source: Box::new(error),
            }),
        }
    }

    /// Has `work` done by the writer.
    pub(crate) async fn write_with<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Ledger<'_>) -> Result<T, Failure> + Send + 'static,
    {
        match &self.writer {
            Some(writer) => writer.ask(work).await,
            None => Err(StoreError::Unwritable {
                place: self.readers.location.name.clone(),
                source: "it was opened to be read only".into(),
            }),
        }
    }
}

fn no_thread(location: &Location, error: std::io::Error) -> StoreError {
    StoreError::Unreachable { place: location.name.clone(), source: Box::new(error) }
}

#[async_trait]
impl Store for SqliteStore {
    async fn create(
        &self,
        session: &SessionId,
        log: LogId,
        now: Timestamp,
    ) -> Result<Head, StoreError> {
        let session = session.clone();
        self.write_with(move |ledger| sessions::create(ledger, &session, &log, now)).await
    }

    async fn head(&self, session: &SessionId) -> Result<Option<Head>, StoreError> {
        let session = session.clone();
        self.read_with(move |connection| sessions::head(connection, &session)).await
    }

    async fn list(&self) -> Result<Vec<SessionEntry>, StoreError> {
        self.read_with(sessions::list).await
    }

    async fn append(&self, append: Append) -> Result<Appended, StoreError> {
        let prepared = PreparedAppend::new(append);
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
        let mut wait = self.watcher.wait_for(session);
        loop {
            match self.head(session).await? {
                None => return Err(StoreError::NotFound { session: session.clone() }),
                Some(head) if head.seq > after => return Ok(()),
                Some(_) => wait.woken().await,
            }
        }
    }

    async fn acquire(
        &self,
        session: &SessionId,
        holder: &Holder,
        now: Timestamp,
        lasting: Duration,
        instead_of: Option<Epoch>,
    ) -> Result<Lease, StoreError> {
        let session = session.clone();
        let claim = Claim { holder: holder.clone(), now, lasting, instead_of };
        self.write_with(move |ledger| leases::acquire(ledger, &session, claim)).await
    }

    async fn renew(
        &self,
        session: &SessionId,
        epoch: Epoch,
        now: Timestamp,
        lasting: Duration,
    ) -> Result<Lease, StoreError> {
        let session = session.clone();
        let until = now.after(lasting);
        self.write_with(move |ledger| leases::renew(ledger, &session, epoch, until)).await
    }

    async fn release(&self, session: &SessionId, epoch: Epoch) -> Result<(), StoreError> {
        let session = session.clone();
        self.write_with(move |ledger| leases::release(ledger, &session, epoch)).await
    }

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

    async fn put_blob(&self, session: &SessionId, bytes: Bytes) -> Result<BlobHash, StoreError> {
        let session = session.clone();
        let (hash, length, compressed) = self
            .read_with(move |_| Ok((BlobHash::of(&bytes), bytes.len(), compress(&bytes))))
            .await?;
        self.write_with(move |ledger| blobs::put(ledger, &session, hash, length, &compressed)).await
    }

    async fn blob(&self, hash: &BlobHash) -> Result<Option<Bytes>, StoreError> {
        let hash = *hash;
        self.read_with(move |connection| Ok(blobs::read(connection, &hash)?.map(Bytes::from))).await
    }

    async fn remove(&self, session: &SessionId, now: Timestamp) -> Result<(), StoreError> {
        let session = session.clone();
        self.write_with(move |ledger| sessions::remove(ledger, &session, now)).await
    }

    async fn collect_garbage(&self, before: Timestamp) -> Result<Collected, StoreError> {
        self.write_with(|_| Ok(())).await?;
        let portions = self.read_with(move |connection| blobs::garbage(connection, before)).await?;
        let mut collected = Collected::default();
        for portion in portions {
            let start = Instant::now();
            let part = self.write_with(move |ledger| blobs::collect(ledger, &portion, before));
            let part = part.await?;
            collected.blobs += part.blobs;
            collected.bytes += part.bytes;
            // As long as nobody else could write, others may now.
            tokio::time::sleep(start.elapsed()).await;
        }
        Ok(collected)
    }
}
