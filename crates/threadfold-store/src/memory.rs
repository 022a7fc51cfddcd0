//! A store that lives as long as the process: for tests, and for looking at a session once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use threadfold_core::SessionId;
use threadfold_fold::{LogId, StoredRecord, Timestamp};
use tokio::sync::watch;

use crate::blob::BlobHash;
use crate::error::StoreError;
use crate::lease::{Epoch, Holder, Lease};
use crate::log::{Append, Appended, BatchId, Head, SessionEntry};
use crate::snapshot::{SnapshotPiece, SnapshotWriter, StoredSnapshot, Summary};
use crate::store::{Collected, Limit, Store};

/// A store that lives as long as the process.
#[derive(Debug)]
pub struct MemoryStore {
    kept: Mutex<Kept>,
    wake: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Kept {
    sessions: BTreeMap<SessionId, Session>,
    /// Content, and when it was stored.
    blobs: HashMap<BlobHash, (Bytes, Timestamp)>,
    /// Above the epochs of all sessions that were removed; who begins goes on from there.
    removed: Epoch,
}

#[derive(Debug)]
struct Session {
    log: LogId,
    records: Vec<StoredRecord>,
    /// The appends, by the record before their first.
    batches: HashMap<u64, (BatchId, Appended)>,
    epoch: Epoch,
    lease: Option<Lease>,
    created: Timestamp,
    /// The names of the pieces of each.
    snapshots: BTreeMap<(u32, u64), Vec<BlobHash>>,
    summary: Option<Summary>,
    blobs: BTreeSet<BlobHash>,
}

impl Session {
    fn head(&self) -> Head {
        Head { log: self.log.clone(), seq: self.records.len() as u64, epoch: self.epoch }
    }

    /// Returns the names of all content that it keeps.
    fn names(&self) -> impl Iterator<Item = BlobHash> {
        self.blobs.iter().chain(self.snapshots.values().flatten()).copied()
    }

    /// Refuses whoever does not hold the latest lease.
    fn check(&self, session: &SessionId, ours: Epoch) -> Result<(), StoreError> {
        if ours == self.epoch {
            return Ok(());
        }
        let holder = self.lease.as_ref().map(|lease| lease.holder.clone()).unwrap_or_default();
        Err(StoreError::Fenced {
            session: session.clone(),
            ours,
            current: self.epoch,
            holder: Box::new(holder),
        })
    }

    /// Refuses while somebody writes, unless that lease is the one that may be passed over.
    fn check_free(
        &self,
        session: &SessionId,
        now: Timestamp,
        instead_of: Option<Epoch>,
    ) -> Result<(), StoreError> {
        match &self.lease {
            Some(lease) if lease.until > now && Some(lease.epoch) != instead_of => {
                Err(StoreError::Held {
                    session: session.clone(),
                    holder: Box::new(lease.holder.clone()),
                    epoch: lease.epoch,
                    until: lease.until,
                })
            }
            _ => Ok(()),
        }
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self { kept: Mutex::default(), wake: watch::Sender::new(()) }
    }
}

impl MemoryStore {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn session(&self, session: &SessionId) -> Result<&Session, StoreError> {
        let found = self.sessions.get(session);
        found.ok_or_else(|| StoreError::NotFound { session: session.clone() })
    }

    fn session_mut(&mut self, session: &SessionId) -> Result<&mut Session, StoreError> {
        let found = self.sessions.get_mut(session);
        found.ok_or_else(|| StoreError::NotFound { session: session.clone() })
    }
}

/// A snapshot on its way in.
struct Writing<'a> {
    store: &'a MemoryStore,
    session: SessionId,
    place: (u32, u64),
    pieces: Vec<BlobHash>,
}

#[async_trait]
impl SnapshotWriter for Writing<'_> {
    async fn add(&mut self, piece: SnapshotPiece) -> Result<(), StoreError> {
        self.pieces.push(piece.hash());
        let kept = &mut self.store.kept().blobs;
        kept.entry(piece.hash()).or_insert_with(|| (piece.bytes().clone(), crate::log::now()));
        Ok(())
    }

    fn add_known(&mut self, piece: BlobHash) {
        self.pieces.push(piece);
    }

    async fn finish(self: Box<Self>) -> Result<(), StoreError> {
        let mut kept = self.store.kept();
        kept.session(&self.session)?;
        if let Some(&piece) = self.pieces.iter().find(|it| !kept.blobs.contains_key(it)) {
            return Err(StoreError::NoPiece { piece });
        }
        kept.session_mut(&self.session)?.snapshots.insert(self.place, self.pieces);
        Ok(())
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn create(
        &self,
        session: &SessionId,
        log: LogId,
        now: Timestamp,
    ) -> Result<Head, StoreError> {
        let mut kept = self.kept();
        let epoch = kept.removed;
        let session = kept.sessions.entry(session.clone()).or_insert_with(|| Session {
            log,
            records: Vec::new(),
            batches: HashMap::new(),
            epoch,
            lease: None,
            created: now,
            snapshots: BTreeMap::new(),
            summary: None,
            blobs: BTreeSet::new(),
        });
        Ok(session.head())
    }

    async fn head(&self, session: &SessionId) -> Result<Option<Head>, StoreError> {
        Ok(self.kept().sessions.get(session).map(Session::head))
    }

    async fn list(&self) -> Result<Vec<SessionEntry>, StoreError> {
        let kept = self.kept();
        let entries = kept.sessions.iter().map(|(name, session)| SessionEntry {
            session: name.clone(),
            head: session.head(),
            created: session.created,
            updated: session.records.last().map_or(session.created, |record| record.received),
            lease: session.lease.clone(),
            summary: session.summary.clone(),
        });
        Ok(entries.collect())
    }

    async fn append(&self, append: Append) -> Result<Appended, StoreError> {
        let appended = {
            let mut kept = self.kept();
            let session = kept.session_mut(&append.session)?;
            if let Some((batch, appended)) = session.batches.get(&append.after)
                && *batch == append.batch
            {
                return Ok(*appended);
            }
            session.check(&append.session, append.epoch)?;
            let found = session.records.len() as u64;
            if found != append.after {
                return Err(StoreError::Conflict {
                    session: append.session,
                    expected: append.after,
                    found,
                });
            }
            let count = append.records.len() as u64;
            let appended = Appended { first: found + 1, last: found + count };
            let numbered = append.records.into_iter().zip(found + 1..);
            session.records.extend(numbered.map(|(record, seq)| record.at(seq)));
            if count > 0 {
                session.batches.insert(append.after, (append.batch, appended));
            }
            appended
        };
        self.wake.send_replace(());
        Ok(appended)
    }

    async fn read(
        &self,
        session: &SessionId,
        after: u64,
        limit: Limit,
    ) -> Result<Vec<StoredRecord>, StoreError> {
        let kept = self.kept();
        let records = &kept.session(session)?.records;
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
        let mut wake = self.wake.subscribe();
        loop {
            if self.kept().session(session)?.records.len() as u64 > after {
                return Ok(());
            }
            if wake.changed().await.is_err() {
                return Ok(());
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
        let mut kept = self.kept();
        let found = kept.session_mut(session)?;
        found.check_free(session, now, instead_of)?;
        found.epoch = Epoch(found.epoch.0 + 1);
        let lease = Lease { epoch: found.epoch, holder: holder.clone(), until: now.after(lasting) };
        found.lease = Some(lease.clone());
        Ok(lease)
    }

    async fn renew(
        &self,
        session: &SessionId,
        epoch: Epoch,
        now: Timestamp,
        lasting: Duration,
    ) -> Result<Lease, StoreError> {
        let mut kept = self.kept();
        let found = kept.session_mut(session)?;
        found.check(session, epoch)?;
        let holder = found.lease.take().map(|lease| lease.holder).unwrap_or_default();
        let lease = Lease { epoch, holder, until: now.after(lasting) };
        found.lease = Some(lease.clone());
        Ok(lease)
    }

    async fn release(&self, session: &SessionId, epoch: Epoch) -> Result<(), StoreError> {
        let mut kept = self.kept();
        let found = kept.session_mut(session)?;
        if found.epoch == epoch {
            found.lease = None;
        }
        Ok(())
    }

    fn write_snapshot<'a>(
        &'a self,
        session: &SessionId,
        generation: u32,
        seq: u64,
    ) -> Box<dyn SnapshotWriter + 'a> {
        let (session, place) = (session.clone(), (generation, seq));
        Box::new(Writing { store: self, session, place, pieces: Vec::new() })
    }

    async fn snapshot(
        &self,
        session: &SessionId,
        generation: u32,
        until: u64,
    ) -> Result<Option<StoredSnapshot>, StoreError> {
        let kept = self.kept();
        let mut found =
            kept.session(session)?.snapshots.range((generation, 0)..=(generation, until));
        Ok(found.next_back().map(|(&(generation, seq), pieces)| {
            let pieces = pieces.iter().filter_map(|piece| kept.blobs.get(piece));
            let bytes: Vec<u8> = pieces.flat_map(|(bytes, _)| bytes.iter().copied()).collect();
            StoredSnapshot { generation, seq, bytes: bytes.into() }
        }))
    }

    async fn snapshots(&self, session: &SessionId) -> Result<Vec<(u32, u64)>, StoreError> {
        Ok(self.kept().session(session)?.snapshots.keys().copied().collect())
    }

    async fn delete_derived(&self, session: &SessionId) -> Result<(), StoreError> {
        let mut kept = self.kept();
        let found = kept.session_mut(session)?;
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
        let mut kept = self.kept();
        let found = kept.session_mut(session)?;
        let known = found.summary.as_ref();
        let is_late = known.is_some_and(|old| !summary.replaces(old.generation, old.seq));
        if found.log == *log && !is_late {
            found.summary = Some(summary);
        }
        Ok(())
    }

    async fn put_blob(&self, session: &SessionId, bytes: Bytes) -> Result<BlobHash, StoreError> {
        let hash = BlobHash::of(&bytes);
        let mut kept = self.kept();
        kept.session_mut(session)?.blobs.insert(hash);
        kept.blobs.entry(hash).or_insert_with(|| (bytes, crate::log::now()));
        Ok(hash)
    }

    async fn blob(&self, hash: &BlobHash) -> Result<Option<Bytes>, StoreError> {
        Ok(self.kept().blobs.get(hash).map(|(bytes, _)| bytes.clone()))
    }

    async fn remove(&self, session: &SessionId, now: Timestamp) -> Result<(), StoreError> {
        let mut kept = self.kept();
        let found = kept.session(session)?;
        found.check_free(session, now, None)?;
        kept.removed = kept.removed.max(Epoch(found.epoch.0 + 1));
        kept.sessions.remove(session);
        Ok(())
    }

    async fn collect_garbage(&self, before: Timestamp) -> Result<Collected, StoreError> {
        let mut kept = self.kept();
        let named: BTreeSet<BlobHash> = kept.sessions.values().flat_map(Session::names).collect();
        let mut collected = Collected::default();
        kept.blobs.retain(|hash, (bytes, stored)| {
            let stays = named.contains(hash) || *stored >= before;
            if !stays {
                collected.blobs += 1;
                collected.bytes += bytes.len() as u64;
            }
            stays
        });
        Ok(collected)
    }
}
