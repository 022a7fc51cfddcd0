//! Snapshots: content in pieces, most of which the one before has too.

use std::collections::HashSet;
use std::ops::Range;

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, params};
use threadfold_core::SessionId;

use super::blobs::{self, Content};
use super::fault::Stop;
use super::sessions::session_id;
use super::writer::Ledger;
use crate::blob::BlobHash;
use crate::pack::{chunks, squeeze};
use crate::snapshot::StoredSnapshot;

/// How much of a snapshot is written at once; appends come in between.
const PORTION: usize = 4 << 20;

/// A snapshot in pieces.
pub(super) struct Pieces {
    snapshot: StoredSnapshot,
    all: Vec<(BlobHash, Range<usize>)>,
}

/// A piece, ready to be kept.
pub(super) struct Piece {
    hash: BlobHash,
    length: usize,
    squeezed: Vec<u8>,
}

impl Pieces {
    pub(super) fn of(snapshot: StoredSnapshot) -> Self {
        let bytes = &snapshot.bytes;
        let all = chunks(bytes).map(|range| (BlobHash::of(&bytes[range.clone()]), range)).collect();
        Self { snapshot, all }
    }

    /// Returns the pieces that are not in the store, in portions.
    pub(super) fn missing(&self, connection: &Connection) -> Result<Vec<Vec<Piece>>, Stop> {
        let mut seen = HashSet::new();
        let mut portions = Vec::new();
        let mut portion = Vec::new();
        let mut size = 0;
        for (hash, range) in &self.all {
            if !seen.insert(hash) || blobs::find(connection, hash)?.is_some() {
                continue;
            }
            let squeezed = squeeze(&self.snapshot.bytes[range.clone()]);
            size += squeezed.len();
            portion.push(Piece { hash: *hash, length: range.len(), squeezed });
            if size >= PORTION {
                portions.push(std::mem::take(&mut portion));
                size = 0;
            }
        }
        portions.push(portion);
        Ok(portions)
    }
}

/// Keeps pieces, before the snapshot that is made of them.
pub(super) fn put_pieces(ledger: &mut Ledger<'_>, pieces: &[Piece]) -> Result<(), Stop> {
    for piece in pieces {
        if blobs::find(ledger.connection, &piece.hash)?.is_none() {
            blobs::insert(ledger.connection, &piece.hash, piece.length, &piece.squeezed)?;
        }
    }
    Ok(())
}

/// Keeps a snapshot. A piece that was collected meanwhile is kept again.
pub(super) fn put(
    ledger: &mut Ledger<'_>,
    session: &SessionId,
    pieces: &Pieces,
) -> Result<(), Stop> {
    let connection = ledger.connection;
    let id = session_id(connection, session)?;
    let StoredSnapshot { generation, seq, bytes } = &pieces.snapshot;
    let manifest = manifest(pieces.all.iter().map(|(hash, _)| hash));
    if let Some(old) = find(connection, id, *generation, *seq)? {
        delete(connection, old)?;
    }
    connection
        .prepare_cached(
            "INSERT INTO snapshots (session, generation, seq, manifest) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![id, generation, seq.cast_signed(), manifest.as_bytes()])?;
    let snapshot = connection.last_insert_rowid();
    let mut insert = connection.prepare_cached(
        "INSERT INTO snapshot_chunks (snapshot, number, blob) VALUES (?1, ?2, ?3)",
    )?;
    for (number, (hash, range)) in pieces.all.iter().enumerate() {
        let blob = blobs::keep_derived(connection, &Content::of(*hash, &bytes[range.clone()]))?;
        insert.execute(params![snapshot, number, blob])?;
    }
    Ok(())
}

fn find(
    connection: &Connection,
    session: i64,
    generation: u32,
    seq: u64,
) -> Result<Option<i64>, Stop> {
    let found = connection
        .prepare_cached(
            "SELECT id FROM snapshots WHERE session = ?1 AND generation = ?2 AND seq = ?3",
        )?
        .query_row(params![session, generation, seq.cast_signed()], |row| row.get(0))
        .optional()?;
    Ok(found)
}

fn delete(connection: &Connection, snapshot: i64) -> Result<(), Stop> {
    for delete in
        ["DELETE FROM snapshot_chunks WHERE snapshot = ?1", "DELETE FROM snapshots WHERE id = ?1"]
    {
        connection.prepare_cached(delete)?.execute([snapshot])?;
    }
    Ok(())
}

/// Returns the latest snapshot of a generation that holds nothing after `until`.
pub(super) fn latest(
    connection: &Connection,
    session: &SessionId,
    generation: u32,
    until: u64,
) -> Result<Option<StoredSnapshot>, Stop> {
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
    let Some((snapshot, seq)) = found else { return Ok(None) };
    let bytes = read(connection, snapshot)?;
    Ok(Some(StoredSnapshot { generation, seq, bytes: Bytes::from(bytes) }))
}

/// Returns what a snapshot holds.
pub(super) fn read(connection: &Connection, snapshot: i64) -> Result<Vec<u8>, Stop> {
    let expected: [u8; 32] = connection
        .prepare_cached("SELECT manifest FROM snapshots WHERE id = ?1")?
        .query_row([snapshot], |row| row.get(0))?;
    let mut statement = connection
        .prepare_cached("SELECT blob FROM snapshot_chunks WHERE snapshot = ?1 ORDER BY number")?;
    let mut rows = statement.query([snapshot])?;
    let mut bytes = Vec::new();
    let mut names = Vec::new();
    while let Some(row) = rows.next()? {
        let (hash, piece) = blobs::read_by_id(connection, row.get(0)?)?;
        bytes.extend(piece);
        names.push(hash);
    }
    if manifest(names.iter()) == BlobHash::from(expected) {
        Ok(bytes)
    } else {
        Err(Stop::Damaged("a snapshot is not made of its pieces".to_owned()))
    }
}

/// Returns the hash of the names of pieces.
fn manifest<'a>(names: impl Iterator<Item = &'a BlobHash>) -> BlobHash {
    let names: Vec<u8> = names.flat_map(|hash| *hash.as_bytes()).collect();
    BlobHash::of(&names)
}

pub(super) fn list(connection: &Connection, session: &SessionId) -> Result<Vec<(u32, u64)>, Stop> {
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
pub(super) fn delete_derived(ledger: &mut Ledger<'_>, session: &SessionId) -> Result<(), Stop> {
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
