//! Snapshots: lists of pieces, most of which the snapshot before has as well.

use std::collections::HashSet;

use async_trait::async_trait;
use bytes::Bytes;
use deadpool_postgres::Object;
use threadfold_core::SessionId;
use threadfold_store::pack::CompressedContent;
use threadfold_store::{
    BlobHash, SnapshotEnd, SnapshotPiece, SnapshotPieces, SnapshotWriter, StoreError,
    StoredSnapshot,
};

use crate::blobs;
use crate::failure::Failure;
use crate::sessions::{number, session_id};
use crate::store::{Database, PostgresStore};

/// How many bytes one statement writes, and so how many wait in memory.
const PORTION: usize = 2 << 20;

/// Writes a snapshot in portions.
pub(crate) struct PostgresSnapshotWriter<'a> {
    store: &'a PostgresStore,
    session: SessionId,
    place: (u32, u64),
    all: Vec<BlobHash>,
    /// Pieces that are not written yet.
    waiting: Vec<SnapshotPiece>,
    /// Their size.
    size: usize,
}

impl<'a> PostgresSnapshotWriter<'a> {
    pub(crate) fn new(store: &'a PostgresStore, session: &SessionId, place: (u32, u64)) -> Self {
        let session = session.clone();
        Self { store, session, place, all: Vec::new(), waiting: Vec::new(), size: 0 }
    }

    async fn write_waiting(&mut self) -> Result<(), StoreError> {
        let waiting = std::mem::take(&mut self.waiting);
        self.size = 0;
        self.store.write(store_pieces(self.store.database(), waiting)).await
    }
}

#[async_trait]
impl SnapshotWriter for PostgresSnapshotWriter<'_> {
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
        store.write(put(store.database(), &session, place, &all)).await
    }
}

/// Stores the pieces that the store does not have, before the snapshot that refers to them. Until
/// then only their age protects them from garbage collection.
async fn store_pieces(database: &Database, pieces: Vec<SnapshotPiece>) -> Result<(), Failure> {
    if pieces.is_empty() {
        return Ok(());
    }
    let client = database.client().await?;
    let select = "SELECT hash FROM threadfold.blobs WHERE hash = ANY($1)";
    let hashes: Vec<BlobHash> = pieces.iter().map(SnapshotPiece::hash).collect();
    let names: Vec<&[u8]> = hashes.iter().map(|it| &it.as_bytes()[..]).collect();
    let found = client.query(select, &[&names]).await?;
    let mut known: HashSet<BlobHash> =
        found.iter().map(|row| blobs::hash(row, 0)).collect::<Result<_, _>>()?;
    let compressed = tokio::task::spawn_blocking(move || -> Vec<CompressedContent> {
        let new = pieces.into_iter().filter(|it| known.insert(it.hash()));
        new.map(|it| CompressedContent::new(it.hash(), it.bytes())).collect()
    });
    let mut new = compressed
        .await
        .map_err(|error| Failure::Corrupt(format!("a piece could not be compressed: {error}")))?;
    // In one order everywhere, so that no two statements wait for each other.
    new.sort_by_key(|it| it.hash);
    blobs::insert(&client, database.now(), &new.iter().collect::<Vec<_>>()).await
}

/// Stores a snapshot. Refused if one of its pieces has been garbage collected meanwhile.
async fn put(
    database: &Database,
    session: &SessionId,
    (generation, seq): (u32, u64),
    pieces: &[BlobHash],
) -> Result<(), Failure> {
    let mut client = database.client().await?;
    let transaction = client.transaction().await?;
    let id = session_id(&*transaction, session).await?;
    let mut distinct = pieces.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let found = blobs::lock(&transaction, &distinct).await?;
    let mut stored = Vec::with_capacity(pieces.len());
    for &piece in pieces {
        let blob = found.get(&piece).copied();
        stored.push(blob.ok_or(StoreError::MissingPiece { piece })?);
    }
    let (generation, seq) = (i64::from(generation), seq.cast_signed());
    let delete = "DELETE FROM threadfold.snapshots
                  WHERE session = $1 AND generation = $2 AND seq = $3";
    transaction.execute(delete, &[&id, &generation, &seq]).await?;
    let insert = "INSERT INTO threadfold.snapshots (session, generation, seq, manifest)
                  VALUES ($1, $2, $3, $4) RETURNING id";
    let manifest = manifest(pieces);
    let row =
        transaction.query_one(insert, &[&id, &generation, &seq, &&manifest.as_bytes()[..]]).await?;
    let snapshot: i64 = row.try_get(0)?;
    let numbers: Vec<i64> = (0..stored.len() as i64).collect();
    let chunks = "INSERT INTO threadfold.snapshot_chunks (snapshot, number, blob)
                  SELECT $1, * FROM unnest($2::bigint[], $3::bigint[])";
    transaction.execute(chunks, &[&snapshot, &numbers, &stored]).await?;
    Ok(transaction.commit().await?)
}

/// Returns the row id and the last record of the latest snapshot up to `until`.
async fn find_latest(
    client: &Object,
    session: &SessionId,
    generation: u32,
    until: u64,
) -> Result<Option<(i64, u64)>, Failure> {
    let id = session_id(&***client, session).await?;
    let select = client
        .prepare_cached(
            "SELECT id, seq FROM threadfold.snapshots
             WHERE session = $1 AND generation = $2 AND seq <= $3 ORDER BY seq DESC LIMIT 1",
        )
        .await?;
    let until = i64::try_from(until).unwrap_or(i64::MAX);
    let found = client.query_opt(&select, &[&id, &i64::from(generation), &until]).await?;
    found.map(|row| Ok((row.try_get(0)?, number(&row, 1)?))).transpose()
}

/// Returns the latest snapshot of a generation that covers no record after `until`.
pub(crate) async fn latest(
    database: &Database,
    session: &SessionId,
    generation: u32,
    until: u64,
) -> Result<Option<StoredSnapshot>, Failure> {
    let client = database.client().await?;
    let found = find_latest(&client, session, generation, until).await?;
    let Some((snapshot, seq)) = found else { return Ok(None) };
    let select = "SELECT hash, data, length FROM threadfold.snapshot_chunks
                  JOIN threadfold.blobs ON blobs.id = blob WHERE snapshot = $1 ORDER BY number";
    let (mut bytes, mut hashes) = (Vec::new(), Vec::new());
    for row in &client.query(select, &[&snapshot]).await? {
        let (hash, piece) = blobs::open(row, 0)?;
        bytes.extend(piece);
        hashes.push(hash);
    }
    if !check_manifest(&client, snapshot, &hashes).await? {
        return Ok(None);
    }
    Ok(Some(StoredSnapshot { generation, seq, bytes: Bytes::from(bytes) }))
}

/// Returns the pieces of the latest snapshot of a generation that covers no record after `until`.
pub(crate) async fn pieces(
    database: &Database,
    session: &SessionId,
    generation: u32,
    until: u64,
) -> Result<Option<SnapshotPieces>, Failure> {
    let client = database.client().await?;
    let found = find_latest(&client, session, generation, until).await?;
    let Some((snapshot, seq)) = found else { return Ok(None) };
    let select = client
        .prepare_cached(
            "SELECT hash, length FROM threadfold.snapshot_chunks
             JOIN threadfold.blobs ON blobs.id = blob WHERE snapshot = $1 ORDER BY number",
        )
        .await?;
    let rows = client.query(&select, &[&snapshot]).await?;
    let pieces: Vec<(BlobHash, u64)> = rows
        .iter()
        .map(|row| Ok((blobs::hash(row, 0)?, number(row, 1)?)))
        .collect::<Result<_, Failure>>()?;
    let hashes: Vec<BlobHash> = pieces.iter().map(|it| it.0).collect();
    let is_whole = check_manifest(&client, snapshot, &hashes).await?;
    Ok(is_whole.then_some(SnapshotPieces { generation, seq, pieces }))
}

/// Returns the end of the latest snapshot of a generation that covers no record after `until`.
pub(crate) async fn end(
    database: &Database,
    session: &SessionId,
    generation: u32,
    until: u64,
) -> Result<Option<SnapshotEnd>, Failure> {
    let client = database.client().await?;
    let found = find_latest(&client, session, generation, until).await?;
    let Some((snapshot, seq)) = found else { return Ok(None) };
    let select = client
        .prepare_cached(
            "SELECT hash FROM threadfold.snapshot_chunks
             JOIN threadfold.blobs ON blobs.id = blob WHERE snapshot = $1
             ORDER BY number DESC LIMIT 1",
        )
        .await?;
    let row = client.query_opt(&select, &[&snapshot]).await?;
    let last = row.map(|row| blobs::hash(&row, 0)).transpose()?;
    Ok(Some(SnapshotEnd { generation, seq, last }))
}

/// Fails if a snapshot was written with other pieces; returns false if it was deleted meanwhile.
async fn check_manifest(
    client: &Object,
    snapshot: i64,
    hashes: &[BlobHash],
) -> Result<bool, Failure> {
    let select =
        client.prepare_cached("SELECT manifest FROM threadfold.snapshots WHERE id = $1").await?;
    let Some(row) = client.query_opt(&select, &[&snapshot]).await? else { return Ok(false) };
    if manifest(hashes) == blobs::hash(&row, 0)? {
        return Ok(true);
    }
    Err(Failure::Corrupt("the pieces of a snapshot do not match its manifest".to_owned()))
}

/// Returns the hash of the pieces' hashes.
pub(crate) fn manifest(hashes: &[BlobHash]) -> BlobHash {
    let hashes: Vec<u8> = hashes.iter().flat_map(|hash| *hash.as_bytes()).collect();
    BlobHash::of(&hashes)
}

pub(crate) async fn list(
    database: &Database,
    session: &SessionId,
) -> Result<Vec<(u32, u64)>, Failure> {
    let client = database.client().await?;
    let id = session_id(&**client, session).await?;
    let select = "SELECT generation, seq FROM threadfold.snapshots WHERE session = $1
                  ORDER BY generation, seq";
    let rows = client.query(select, &[&id]).await?;
    rows.iter()
        .map(|row| {
            let generation = u32::try_from(row.try_get::<_, i64>(0)?).unwrap_or(u32::MAX);
            Ok((generation, number(row, 1)?))
        })
        .collect()
}

/// Deletes a session's snapshots and its summary.
pub(crate) async fn delete_derived(
    database: &Database,
    session: &SessionId,
) -> Result<(), Failure> {
    let mut client = database.client().await?;
    let transaction = client.transaction().await?;
    let id = session_id(&*transaction, session).await?;
    for change in [
        "DELETE FROM threadfold.snapshots WHERE session = $1",
        "UPDATE threadfold.sessions
         SET summary_generation = NULL, summary_seq = NULL, summary = NULL WHERE id = $1",
    ] {
        transaction.execute(change, &[&id]).await?;
    }
    Ok(transaction.commit().await?)
}
