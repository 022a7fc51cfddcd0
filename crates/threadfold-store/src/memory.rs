//! A store in memory, for tests and for sessions that are read once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use threadfold_core::SessionId;
use threadfold_fold::{LogId, StoredRecord, Timestamp};
use tokio::sync::watch;

use crate::blob::BlobHash;
use crate::change_position::{ChangeCounter, ChangePosition};
use crate::clock::Clock;
use crate::error::StoreError;
use crate::lease::{Epoch, Holder, Lease};
use crate::log::{Append, AppendReceipt, BatchId, LogHead, SessionEntry};
use crate::maintenance::{Finding, GarbageReport, StoreSize};
use crate::query::{Limit, ListQuery, SessionPage};
use crate::snapshot::{
    SnapshotEnd, SnapshotPiece, SnapshotPieces, SnapshotWriter, StoredSnapshot, Summary,
};
use crate::store::{BlobStore, DerivedStore, LeaseStore, LogStore, Maintenance, TicketStore};
use crate::ticket::{TicketHash, TicketUse};

/// A store that lives as long as the process.
#[derive(Debug, Default)]
pub struct MemoryStore {
    contents: Mutex<Contents>,
    clock: Clock,
    /// Wakes the waiters of all sessions; each checks whether its session changed.
    wake: watch::Sender<()>,
    changes: ChangeCounter,
    /// Records are forgotten as soon as they are acknowledged.
    is_forgetful: bool,
}

#[derive(Debug, Default)]
struct Contents {
    sessions: BTreeMap<SessionId, Session>,
    blobs: HashMap<BlobHash, Blob>,
    /// When each unused ticket expires.
    tickets: BTreeMap<TicketHash, Timestamp>,
    /// Greater than the epoch of every removed session: where the epochs of new sessions start.
    removed: Epoch,
}

#[derive(Debug)]
struct Blob {
    bytes: Bytes,
    stored: Timestamp,
}

#[derive(Debug)]
struct Session {
    log: LogId,
    /// How many records were forgotten.
    forgotten: u64,
    records: Vec<StoredRecord>,
    /// The appends, by the record before their first.
    batches: HashMap<u64, (BatchId, AppendReceipt)>,
    epoch: Epoch,
    tenancy: Option<LeaseState>,
    created: Timestamp,
    /// The pieces of each snapshot.
    snapshots: BTreeMap<(u32, u64), Vec<BlobHash>>,
    summary: Option<Summary>,
    blobs: BTreeSet<BlobHash>,
}

/// The holder of the latest lease.
#[derive(Clone, Debug)]
struct LeaseState {
    holder: Holder,
    until: Timestamp,
}

impl Session {
    fn new(log: LogId, epoch: Epoch, created: Timestamp) -> Self {
        Self {
            log,
            forgotten: 0,
            records: Vec::new(),
            batches: HashMap::new(),
            epoch,
            tenancy: None,
            created,
            snapshots: BTreeMap::new(),
            summary: None,
            blobs: BTreeSet::new(),
        }
    }

    fn seq(&self) -> u64 {
        self.forgotten + self.records.len() as u64
    }

    fn head(&self) -> LogHead {
        LogHead { log: self.log.clone(), seq: self.seq(), epoch: self.epoch }
    }

    fn entry(&self, session: &SessionId, now: Timestamp) -> SessionEntry {
        SessionEntry {
            session: session.clone(),
            head: self.head(),
            created: self.created,
            updated: self.records.last().map_or(self.created, |record| record.received),
            lease: self.lease(now),
            summary: self.summary.clone(),
        }
    }

    fn lease(&self, now: Timestamp) -> Option<Lease> {
        let LeaseState { holder, until } = self.tenancy.clone()?;
        Some(Lease { epoch: self.epoch, holder, remaining: until.since(now) })
    }

    /// Returns the hashes of all blobs that it refers to.
    fn blobs(&self) -> impl Iterator<Item = BlobHash> {
        self.blobs.iter().chain(self.snapshots.values().flatten()).copied()
    }

    /// Refuses every epoch but the latest.
    fn check_epoch(&self, session: &SessionId, ours: Epoch) -> Result<(), StoreError> {
        if ours == self.epoch {
            return Ok(());
        }
        let holder = self.tenancy.as_ref().map(|it| it.holder.clone()).unwrap_or_default();
        Err(StoreError::Fenced {
            session: session.clone(),
            ours,
            current: self.epoch,
            holder: Box::new(holder),
        })
    }

    /// Refuses while a lease lasts, unless it is the one of epoch `except`.
    fn check_free(
        &self,
        session: &SessionId,
        now: Timestamp,
        except: Option<Epoch>,
    ) -> Result<(), StoreError> {
        match self.lease(now) {
            Some(lease) if !lease.is_expired() && Some(lease.epoch) != except => {
                Err(StoreError::Held {
                    session: session.clone(),
                    holder: Box::new(lease.holder),
                    epoch: lease.epoch,
                    remaining: lease.remaining,
                })
            }
            _ => Ok(()),
        }
    }

    fn grant(&mut self, holder: Holder, now: Timestamp, duration: Duration) -> Lease {
        self.tenancy = Some(LeaseState { holder: holder.clone(), until: now.after(duration) });
        Lease { epoch: self.epoch, holder, remaining: duration }
    }
}

impl MemoryStore {
    /// Returns a store that forgets records as soon as they are acknowledged: for a session that is
    /// read once, and never again from its log.
    pub fn forgetful() -> Self {
        Self { is_forgetful: true, ..Self::default() }
    }

    /// Returns an empty store whose leases are timed by this clock.
    pub fn with_clock(clock: Clock) -> Self {
        Self { clock, ..Self::default() }
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        self.wake.send_replace(());
        self.changes.advance();
    }

    fn grant(
        &self,
        session: &SessionId,
        holder: &Holder,
        duration: Duration,
        except: Option<Epoch>,
    ) -> Result<Lease, StoreError> {
        let mut contents = self.contents();
        let found = contents.session_mut(session)?;
        let now = self.clock.now();
        found.check_free(session, now, except)?;
        found.epoch = Epoch(found.epoch.0 + 1);
        Ok(found.grant(holder.clone(), now, duration))
    }
}

impl Contents {
    fn session(&self, session: &SessionId) -> Result<&Session, StoreError> {
        let found = self.sessions.get(session);
        found.ok_or_else(|| StoreError::NotFound { session: session.clone() })
    }

    fn session_mut(&mut self, session: &SessionId) -> Result<&mut Session, StoreError> {
        let found = self.sessions.get_mut(session);
        found.ok_or_else(|| StoreError::NotFound { session: session.clone() })
    }

    fn put_blob(&mut self, hash: BlobHash, bytes: &Bytes, now: Timestamp) {
        self.blobs.entry(hash).or_insert_with(|| Blob { bytes: bytes.clone(), stored: now });
    }
}

#[async_trait]
impl LogStore for MemoryStore {
    async fn create(&self, session: &SessionId, log: LogId) -> Result<LogHead, StoreError> {
        let (head, is_new) = {
            let mut contents = self.contents();
            let (epoch, now) = (contents.removed, self.clock.now());
            let before = contents.sessions.len();
            let entry = contents.sessions.entry(session.clone());
            let head = entry.or_insert_with(|| Session::new(log, epoch, now)).head();
            (head, contents.sessions.len() > before)
        };
        if is_new {
            self.wake();
        }
        Ok(head)
    }

    async fn head(&self, session: &SessionId) -> Result<Option<LogHead>, StoreError> {
        Ok(self.contents().sessions.get(session).map(Session::head))
    }

    async fn entry(&self, session: &SessionId) -> Result<Option<SessionEntry>, StoreError> {
        let now = self.clock.now();
        Ok(self.contents().sessions.get(session).map(|it| it.entry(session, now)))
    }

    async fn list(&self, query: &ListQuery) -> Result<SessionPage, StoreError> {
        let now = self.clock.now();
        let limit = query.limit.max(1);
        let prefix = SessionId::from(query.prefix.as_str());
        // Whichever is later; every id with the prefix is at or after the prefix itself.
        let start = match &query.after {
            Some(after) if *after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(&prefix),
        };
        let contents = self.contents();
        let entries = contents
            .sessions
            .range::<SessionId, _>((start, Bound::Unbounded))
            .take_while(|(id, _)| id.as_str().starts_with(&query.prefix))
            .take(limit.saturating_add(1))
            .map(|(id, session)| session.entry(id, now));
        Ok(SessionPage::cut(entries.collect(), limit))
    }

    async fn append(&self, append: Append) -> Result<AppendReceipt, StoreError> {
        let receipt = {
            let mut contents = self.contents();
            let session = contents.session_mut(&append.session)?;
            // Before the epoch: a retry is acknowledged even if the writer was replaced since.
            if let Some((batch, receipt)) = session.batches.get(&append.after)
                && *batch == append.batch
            {
                return Ok(*receipt);
            }
            session.check_epoch(&append.session, append.epoch)?;
            let found = session.seq();
            if found != append.after {
                return Err(StoreError::Conflict {
                    session: append.session,
                    expected: append.after,
                    found,
                });
            }
            let count = append.records.len() as u64;
            let receipt = AppendReceipt { first: found + 1, last: found + count };
            if count == 0 {
                return Ok(receipt);
            }
            let numbered = append.records.into_iter().zip(found + 1..);
            if self.is_forgetful {
                session.forgotten += count;
                session.batches.clear();
            } else {
                session.records.extend(numbered.map(|(record, seq)| record.at(seq)));
            }
            session.batches.insert(append.after, (append.batch, receipt));
            receipt
        };
        self.wake();
        Ok(receipt)
    }

    async fn read(
        &self,
        session: &SessionId,
        after: u64,
        limit: Limit,
    ) -> Result<Vec<StoredRecord>, StoreError> {
        let contents = self.contents();
        let session = contents.session(session)?;
        let records = &session.records;
        let after = after.saturating_sub(session.forgotten);
        let from = usize::try_from(after).unwrap_or(usize::MAX).min(records.len());
        let mut bytes = 0;
        let wanted = records[from..].iter().take_while(|record| {
            let is_wanted = record.seq <= limit.until && bytes < limit.bytes.max(1);
            bytes += record.bytes.len();
            is_wanted
        });
        Ok(wanted.cloned().collect())
    }

    async fn changed(&self, session: &SessionId, after: u64) -> Result<(), StoreError> {
        // Subscribed before looking, so that no append in between is missed.
        let mut wake = self.wake.subscribe();
        loop {
            if self.contents().session(session)?.seq() > after {
                return Ok(());
            }
            if wake.changed().await.is_err() {
                return Ok(());
            }
        }
    }

    async fn sessions_changed(&self, after: &ChangePosition) -> Result<ChangePosition, StoreError> {
        Ok(self.changes.waiter().wait(after).await)
    }

    async fn remove(&self, session: &SessionId) -> Result<(), StoreError> {
        {
            let mut contents = self.contents();
            let found = contents.session(session)?;
            found.check_free(session, self.clock.now(), None)?;
            contents.removed = contents.removed.max(Epoch(found.epoch.0 + 1));
            contents.sessions.remove(session);
        }
        self.wake();
        Ok(())
    }
}

#[async_trait]
impl LeaseStore for MemoryStore {
    async fn acquire(
        &self,
        session: &SessionId,
        holder: &Holder,
        duration: Duration,
    ) -> Result<Lease, StoreError> {
        self.grant(session, holder, duration, None)
    }

    async fn take_over(
        &self,
        session: &SessionId,
        holder: &Holder,
        duration: Duration,
        from: Epoch,
    ) -> Result<Lease, StoreError> {
        self.grant(session, holder, duration, Some(from))
    }

    async fn renew(
        &self,
        session: &SessionId,
        epoch: Epoch,
        duration: Duration,
    ) -> Result<Lease, StoreError> {
        let mut contents = self.contents();
        let found = contents.session_mut(session)?;
        found.check_epoch(session, epoch)?;
        let holder = found.tenancy.take().map(|it| it.holder).unwrap_or_default();
        Ok(found.grant(holder, self.clock.now(), duration))
    }

    async fn release(&self, session: &SessionId, epoch: Epoch) -> Result<(), StoreError> {
        let mut contents = self.contents();
        let found = contents.session_mut(session)?;
        if found.epoch == epoch {
            found.tenancy = None;
        }
        Ok(())
    }
}

/// Collects the pieces of a snapshot.
struct MemorySnapshotWriter<'a> {
    store: &'a MemoryStore,
    session: SessionId,
    place: (u32, u64),
    pieces: Vec<BlobHash>,
}

#[async_trait]
impl SnapshotWriter for MemorySnapshotWriter<'_> {
    async fn add(&mut self, piece: SnapshotPiece) -> Result<(), StoreError> {
        self.pieces.push(piece.hash());
        let now = self.store.clock.now();
        self.store.contents().put_blob(piece.hash(), piece.bytes(), now);
        Ok(())
    }

    fn add_known(&mut self, piece: BlobHash) {
        self.pieces.push(piece);
    }

    async fn finish(self: Box<Self>) -> Result<(), StoreError> {
        let mut contents = self.store.contents();
        contents.session(&self.session)?;
        if let Some(&piece) = self.pieces.iter().find(|it| !contents.blobs.contains_key(it)) {
            return Err(StoreError::MissingPiece { piece });
        }
        contents.session_mut(&self.session)?.snapshots.insert(self.place, self.pieces);
        Ok(())
    }
}

#[async_trait]
impl DerivedStore for MemoryStore {
    fn write_snapshot<'a>(
        &'a self,
        session: &SessionId,
        generation: u32,
        seq: u64,
    ) -> Box<dyn SnapshotWriter + 'a> {
        let (session, place) = (session.clone(), (generation, seq));
        Box::new(MemorySnapshotWriter { store: self, session, place, pieces: Vec::new() })
    }

    async fn snapshot(
        &self,
        session: &SessionId,
        generation: u32,
        until: u64,
    ) -> Result<Option<StoredSnapshot>, StoreError> {
        let contents = self.contents();
        let mut found =
            contents.session(session)?.snapshots.range((generation, 0)..=(generation, until));
        Ok(found.next_back().map(|(&(generation, seq), pieces)| {
            let pieces = pieces.iter().filter_map(|piece| contents.blobs.get(piece));
            let bytes: Vec<u8> = pieces.flat_map(|it| it.bytes.iter().copied()).collect();
            StoredSnapshot { generation, seq, bytes: bytes.into() }
        }))
    }

    async fn snapshot_pieces(
        &self,
        session: &SessionId,
        generation: u32,
        until: u64,
    ) -> Result<Option<SnapshotPieces>, StoreError> {
        let contents = self.contents();
        let mut found =
            contents.session(session)?.snapshots.range((generation, 0)..=(generation, until));
        let Some((&(generation, seq), pieces)) = found.next_back() else { return Ok(None) };
        let length = |piece: &BlobHash| contents.blobs.get(piece).map(|it| it.bytes.len() as u64);
        let pieces = pieces.iter().filter_map(|piece| Some((*piece, length(piece)?)));
        Ok(Some(SnapshotPieces { generation, seq, pieces: pieces.collect() }))
    }

    async fn snapshot_end(
        &self,
        session: &SessionId,
        generation: u32,
        until: u64,
    ) -> Result<Option<SnapshotEnd>, StoreError> {
        let contents = self.contents();
        let mut found =
            contents.session(session)?.snapshots.range((generation, 0)..=(generation, until));
        Ok(found.next_back().map(|(&(generation, seq), pieces)| SnapshotEnd {
            generation,
            seq,
            last: pieces.last().copied(),
        }))
    }

    async fn snapshots(&self, session: &SessionId) -> Result<Vec<(u32, u64)>, StoreError> {
        Ok(self.contents().session(session)?.snapshots.keys().copied().collect())
    }

    async fn delete_derived(&self, session: &SessionId) -> Result<(), StoreError> {
        let mut contents = self.contents();
        let found = contents.session_mut(session)?;
        found.snapshots.clear();
        found.summary = None;
        Ok(())
    }

    async fn put_summary(
        &self,
        session: &SessionId,
        log: &LogId,
        summary: Summary,
    ) -> Result<(), StoreError> {
        let mut contents = self.contents();
        let found = contents.session_mut(session)?;
        let stored = found.summary.as_ref();
        let is_late = stored.is_some_and(|old| !summary.replaces(old.generation, old.seq));
        if found.log == *log && !is_late {
            found.summary = Some(summary);
        }
        Ok(())
    }
}

#[async_trait]
impl BlobStore for MemoryStore {
    async fn put_blob(&self, session: &SessionId, bytes: Bytes) -> Result<BlobHash, StoreError> {
        let hash = BlobHash::of(&bytes);
        let mut contents = self.contents();
        contents.session_mut(session)?.blobs.insert(hash);
        contents.put_blob(hash, &bytes, self.clock.now());
        Ok(hash)
    }

    async fn blob(&self, hash: &BlobHash) -> Result<Option<Bytes>, StoreError> {
        Ok(self.contents().blobs.get(hash).map(|it| it.bytes.clone()))
    }
}

#[async_trait]
impl TicketStore for MemoryStore {
    async fn add_ticket(
        &self,
        ticket: &TicketHash,
        lifetime: Duration,
        most: u64,
    ) -> Result<bool, StoreError> {
        let now = self.clock.now();
        let mut contents = self.contents();
        contents.tickets.retain(|_, expires| *expires > now);
        if contents.tickets.len() as u64 >= most {
            return Ok(false);
        }
        contents.tickets.insert(*ticket, now.after(lifetime));
        Ok(true)
    }

    async fn use_ticket(&self, ticket: &TicketHash) -> Result<TicketUse, StoreError> {
        let now = self.clock.now();
        Ok(match self.contents().tickets.remove(ticket) {
            Some(expires) if expires > now => TicketUse::Accepted,
            Some(_) => TicketUse::Expired,
            None => TicketUse::Unknown,
        })
    }
}

#[async_trait]
impl Maintenance for MemoryStore {
    async fn ready(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn collect_garbage(&self, age: Duration) -> Result<GarbageReport, StoreError> {
        let latest = self.clock.now().before(age);
        let mut contents = self.contents();
        let used: BTreeSet<BlobHash> =
            contents.sessions.values().flat_map(Session::blobs).collect();
        let mut report = GarbageReport::default();
        contents.blobs.retain(|hash, blob| {
            let stays = used.contains(hash) || blob.stored > latest;
            if !stays {
                report.blobs += 1;
                report.bytes += blob.bytes.len() as u64;
            }
            stays
        });
        Ok(report)
    }

    /// Finds nothing: there are no bytes that could have changed since they were written.
    async fn check(&self) -> Result<Vec<Finding>, StoreError> {
        Ok(Vec::new())
    }

    async fn size(&self) -> Result<StoreSize, StoreError> {
        let contents = self.contents();
        let blob_bytes = contents.blobs.values().map(|it| it.bytes.len() as u64).sum();
        Ok(StoreSize {
            sessions: contents.sessions.len() as u64,
            records: contents.sessions.values().map(|it| it.records.len() as u64).sum(),
            blobs: contents.blobs.len() as u64,
            blob_bytes,
            stored_blob_bytes: blob_bytes,
            file_bytes: 0,
            free_bytes: 0,
        })
    }

    async fn backup(&self, _: &Path) -> Result<(), StoreError> {
        Err(StoreError::Unsupported {
            place: "the store in memory".to_owned(),
            operation: "backups to a file",
        })
    }
}
