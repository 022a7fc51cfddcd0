//! Snapshots: lists of pieces, most of which the snapshot before has as well.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, params};
use threadfold_core::SessionId;
use threadfold_store::pack::CompressedContent;
use threadfold_store::{
    BlobHash, SnapshotEnd, SnapshotPiece, SnapshotPieces, SnapshotWriter, StoreError,
    StoredSnapshot,
};

use crate::blobs;
use crate::failure::Failure;
use crate::sessions::session_id;
use crate::store::SqliteStore;
use crate::writer::Ledger;

/// How many bytes one transaction writes, and so how many wait in memory; appends run in between.
const PORTION: usize = 2 << 20;

/// Writes a snapshot in portions.
pub(crate) struct SqliteSnapshotWriter<'a> {
    store: &'a SqliteStore,
    session: SessionId,
    place: (u32, u64),
    all: Vec<BlobHash>,
    /// Pieces that are not written yet.
    waiting: Vec<SnapshotPiece>,
    /// Their size.
    size: usize,
}

impl<'a> SqliteSnapshotWriter<'a> {
    pub(crate) fn new(store: &'a SqliteStore, session: &SessionId, place: (u32, u64)) -> Self {
        let session = session.clone();
        Self { store, session, place, all: Vec::new(), waiting: Vec::new(), size: 0 }
    }

    async fn write_waiting(&mut self) -> Result<(), StoreError> {
        let waiting = std::mem::take(&mut self.waiting);
        self.size = 0;
        let missing = self.store.read_with(move |connection| compress_new(connection, &waiting));
        let missing = missing.await?;
        if missing.is_empty() {
            return Ok(());
        }
        self.store.write_with(move |ledger| put_pieces(ledger, &missing)).await
    }
}

#[async_trait]
impl SnapshotWriter for SqliteSnapshotWriter<'_> {
    async fn add(&mut self, piece: SnapshotPiece) -> Result<(), StoreError> {
        self.all.push(piece.hash());
        self.size += piece.bytes().len();
        self.waiting.push(piece);
        if self.size >= PORTION { self.write_waiting().await } else { Ok(()) }
    }

    fn add_known(&mut self, piece: BlobHash) {
        self.all.push(piece);
    }

    async fn finish(mut self: Box<Self>) -> Result<(), StoreError> {
        self.write_waiting().await?;
        let Self { store, session, place, all, .. } = *self;
        store.write_with(move |ledger| put(ledger, &session, place, &all)).await
    }
}

/// Compresses the pieces that the store does not have, each once.
///
/// A corrupt blob counts as missing: the new snapshot must not refer to it.
fn compress_new(
    connection: &Connection,
    pieces: &[SnapshotPiece],
) -> Result<Vec<CompressedContent>, Failure> {
    let mut seen = HashSet::new();
    let mut new = Vec::new();
    for piece in pieces {
        let hash = piece.hash();
        if !seen.insert(hash) {
            continue;
        }
        let found = blobs::find(connection, &hash)?;
        let is_there = found.map(|id| blobs::is_intact(connection, id)).transpose()?;
        if is_there != Some(true) {
            new.push(CompressedContent::new(hash, piece.bytes()));
        }
    }
    Ok(new)
}

/// Stores pieces, before the snapshot that refers to them. Until then only their age protects them
/// from garbage collection.
fn put_pieces(ledger: &mut Ledger<'_>, pieces: &[CompressedContent]) -> Result<(), Failure> {
    for piece in pieces {
        blobs::keep(ledger.connection, ledger.now, piece)?;
    }
    Ok(())
}

/// Stores a snapshot. Refused if one of its pieces has been garbage collected meanwhile.
fn put(
    ledger: &mut Ledger<'_>,
    session: &SessionId,
    (generation, seq): (u32, u64),
    pieces: &[BlobHash],
) -> Result<(), Failure> {
    let connection = ledger.connection;
    let id = session_id(connection, session)?;
    let mut stored = Vec::with_capacity(pieces.len());
    for &piece in pieces {
        let found = blobs::find(connection, &piece)?;
        stored.push(found.ok_or(StoreError::MissingPiece { piece })?);
    }
    if let Some(old) = find(connection, id, generation, seq)? {
        delete(connection, old)?;
    }
    connection
        .prepare_cached(
            "INSERT INTO snapshots (session, generation, seq, manifest) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![id, generation, seq.cast_signed(), manifest(pieces.iter()).as_bytes()])?;
    let snapshot = connection.last_insert_rowid();
    let mut insert = connection.prepare_cached(
        "INSERT INTO snapshot_chunks (snapshot, number, blob) VALUES (?1, ?2, ?3)",
    )?;
    for (number, blob) in stored.iter().enumerate() {
        insert.execute(params![snapshot, number, blob])?;
    }
    Ok(())
}

fn find(
    connection: &Connection,
    session: i64,
    generation: u32,
    seq: u64,
) -> Result<Option<i64>, Failure> {
    let found = connection
        .prepare_cached(
            "SELECT id FROM snapshots WHERE session = ?1 AND generation = ?2 AND seq = ?3",
        )?
        .query_row(params![session, generation, seq.cast_signed()], |row| row.get(0))
        .optional()?;
    Ok(found)
}

fn delete(connection: &Connection, snapshot: i64) -> Result<(), Failure> {
    for delete in
        ["DELETE FROM snapshot_chunks WHERE snapshot = ?1", "DELETE FROM snapshots WHERE id = ?1"]
    {
        connection.prepare_cached(delete)?.execute([snapshot])?;
    }
    Ok(())
}

/// Returns the latest snapshot of a generation that covers no record after `until`.
pub(crate) fn latest(
    connection: &Connection,
    session: &SessionId,
    generation: u32,
    until: u64,
) -> Result<Option<StoredSnapshot>, Failure> {
    let found = find_latest(connection, session, generation, until)?;
    let Some((snapshot, seq)) = found else { return Ok(None) };
    let bytes = read(connection, snapshot)?;
    Ok(Some(StoredSnapshot { generation, seq, bytes: Bytes::from(bytes) }))
}

/// Returns the row id and the last record of the latest snapshot up to `until`.
fn find_latest(
    connection: &Connection,
    session: &SessionId,
    generation: u32,
    until: u64,
) -> Result<Option<(i64, u64)>, Failure> {
    let id = session_id(connection, session)?;
    let until = i64::try_from(until).unwrap_or(i64::MAX);
    let found = connection
        .prepare_cached(
            "SELECT id, seq FROM snapshots
             WHERE session = ?1 AND generation = ?2 AND seq <= ?3 ORDER BY seq DESC LIMIT 1",
        )?
        .query_row(params![id, generation, until], |row| {
            Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned()))
        })
        .optional()?;
    Ok(found)
}

/// Returns the pieces of the latest snapshot of a generation that covers no record after `until`.
pub(crate) fn pieces(
    connection: &Connection,
    session: &SessionId,
    generation: u32,
    until: u64,
) -> Result<Option<SnapshotPieces>, Failure> {
    let found = find_latest(connection, session, generation, until)?;
    let Some((snapshot, seq)) = found else { return Ok(None) };
    // Columns of a blob that stand before its content are read without the content.
    let mut statement = connection.prepare_cached(
        "SELECT blobs.hash, blobs.length FROM snapshot_chunks
         LEFT JOIN blobs ON blobs.id = snapshot_chunks.blob
         WHERE snapshot = ?1 ORDER BY number",
    )?;
    let mut rows = statement.query([snapshot])?;
    let mut pieces = Vec::new();
    while let Some(row) = rows.next()? {
        let missing = || Failure::Corrupt("a piece of a snapshot is missing".to_owned());
        let hash: Option<[u8; 32]> = row.get(0)?;
        pieces.push((BlobHash::from(hash.ok_or_else(missing)?), row.get(1)?));
    }
    check_manifest(connection, snapshot, pieces.iter().map(|it| &it.0))?;
    Ok(Some(SnapshotPieces { generation, seq, pieces }))
}

/// Returns the end of the latest snapshot of a generation that covers no record after `until`.
pub(crate) fn end(
    connection: &Connection,
    session: &SessionId,
    generation: u32,
    until: u64,
) -> Result<Option<SnapshotEnd>, Failure> {
    let found = find_latest(connection, session, generation, until)?;
    let Some((snapshot, seq)) = found else { return Ok(None) };
    let last: Option<Option<[u8; 32]>> = connection
        .prepare_cached(
            "SELECT blobs.hash FROM snapshot_chunks
             LEFT JOIN blobs ON blobs.id = snapshot_chunks.blob
             WHERE snapshot = ?1 ORDER BY number DESC LIMIT 1",
        )?
        .query_row([snapshot], |row| row.get(0))
        .optional()?;
    let missing = || Failure::Corrupt("a piece of a snapshot is missing".to_owned());
    let last = last.map(|it| it.map(BlobHash::from).ok_or_else(missing)).transpose()?;
    Ok(Some(SnapshotEnd { generation, seq, last }))
}

/// Fails if a snapshot was written with other pieces.
fn check_manifest<'a>(
    connection: &Connection,
    snapshot: i64,
    hashes: impl Iterator<Item = &'a BlobHash>,
) -> Result<(), Failure> {
    let expected: [u8; 32] = connection
        .prepare_cached("SELECT manifest FROM snapshots WHERE id = ?1")?
        .query_row([snapshot], |row| row.get(0))?;
    if manifest(hashes) == BlobHash::from(expected) {
        Ok(())
    } else {
        Err(Failure::Corrupt("the pieces of a snapshot do not match its manifest".to_owned()))
    }
}

/// Returns the content of a snapshot.
fn read(connection: &Connection, snapshot: i64) -> Result<Vec<u8>, Failure> {
    let mut statement = connection
        .prepare_cached("SELECT blob FROM snapshot_chunks WHERE snapshot = ?1 ORDER BY number")?;
    let mut rows = statement.query([snapshot])?;
    let mut bytes = Vec::new();
    let mut hashes = Vec::new();
    while let Some(row) = rows.next()? {
        let (hash, piece) = blobs::read_by_id(connection, row.get(0)?)?;
        bytes.extend(piece);
        hashes.push(hash);
    }
    check_manifest(connection, snapshot, hashes.iter())?;
    Ok(bytes)
}

/// Checks that the pieces of a snapshot are there and match its manifest. `corrupt` has what is wrong
/// with the content of each corrupt blob, so that no piece is read again for every snapshot with it.
pub(crate) fn check(
    connection: &Connection,
    snapshot: i64,
    corrupt: &HashMap<i64, String>,
) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT blob, hash FROM snapshot_chunks LEFT JOIN blobs ON blobs.id = blob
         WHERE snapshot = ?1 ORDER BY number",
    )?;
    let mut rows = statement.query([snapshot])?;
    let mut hashes = Vec::new();
    while let Some(row) = rows.next()? {
        let blob: i64 = row.get(0)?;
        if let Some(problem) = corrupt.get(&blob) {
            return Err(Failure::Corrupt(problem.clone()));
        }
        let hash = row.get::<_, Option<[u8; 32]>>(1)?;
        let missing = || Failure::Corrupt(format!("blob number {blob} is missing"));
        hashes.push(BlobHash::from(hash.ok_or_else(missing)?));
    }
    check_manifest(connection, snapshot, hashes.iter())
}

/// Returns the hash of the pieces' hashes.
fn manifest<'a>(hashes: impl Iterator<Item = &'a BlobHash>) -> BlobHash {
    let hashes: Vec<u8> = hashes.flat_map(|hash| *hash.as_bytes()).collect();
    BlobHash::of(&hashes)
}

pub(crate) fn list(
    connection: &Connection,
    session: &SessionId,
) -> Result<Vec<(u32, u64)>, Failure> {
    let id = session_id(connection, session)?;
    let mut statement = connection.prepare_cached(
        "SELECT generation, seq FROM snapshots WHERE session = ?1 ORDER BY generation, seq",
    )?;
    let places = statement
        .query_map([id], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned())))?
        .collect::<Result<_, _>>()?;
    Ok(places)
}

/// Deletes a session's snapshots and its summary.
pub(crate) fn delete_derived(ledger: &mut Ledger<'_>, session: &SessionId) -> Result<(), Failure> {
    let id = session_id(ledger.connection, session)?;
    for delete in [
        "DELETE FROM snapshot_chunks
         WHERE snapshot IN (SELECT id FROM snapshots WHERE session = ?1)",
        "DELETE FROM snapshots WHERE session = ?1",
        "UPDATE sessions SET summary_generation = NULL, summary_seq = NULL, summary = NULL
         WHERE id = ?1",
    ] {
        ledger.connection.prepare_cached(delete)?.execute([id])?;
    }
    Ok(())
}
