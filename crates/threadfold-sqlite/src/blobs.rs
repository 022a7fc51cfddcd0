//! Content-addressed blobs, deduplicated by hash.

use std::ops::RangeInclusive;

use rusqlite::{Connection, OptionalExtension, params};
use threadfold_core::SessionId;
use threadfold_fold::Timestamp;
use threadfold_store::pack::{CompressedContent, decompress};
use threadfold_store::{BlobHash, GarbageReport};

use crate::failure::Failure;
use crate::sessions::session_id;
use crate::writer::Ledger;

/// How many blobs one transaction deletes.
const MOST_BLOBS: u64 = 512;
/// About how many bytes it deletes.
const MOST_BYTES: u64 = 8 << 20;

/// Stores content unless it exists, and returns its row id.
///
/// A corrupt blob is rewritten: the new session must not depend on it.
pub(crate) fn keep(
    connection: &Connection,
    now: Timestamp,
    content: &CompressedContent,
) -> Result<i64, Failure> {
    let CompressedContent { hash, length, bytes } = content;
    let Some(id) = find(connection, hash)? else {
        return insert(connection, now, hash, *length, bytes);
    };
    if !is_intact(connection, id)? {
        rewrite(connection, id, *length, bytes)?;
    }
    Ok(id)
}

/// Returns whether a blob's content matches its hash.
pub(crate) fn is_intact(connection: &Connection, id: i64) -> Result<bool, Failure> {
    match read_by_id(connection, id) {
        Ok(_) => Ok(true),
        Err(Failure::Corrupt(_)) => Ok(false),
        Err(other) => Err(other),
    }
}

/// Rewrites a corrupt blob.
pub(crate) fn rewrite(
    connection: &Connection,
    id: i64,
    length: usize,
    compressed: &[u8],
) -> Result<(), Failure> {
    connection
        .prepare_cached("UPDATE blobs SET length = ?2, data = ?3 WHERE id = ?1")?
        .execute(params![id, length, compressed])?;
    Ok(())
}

/// Returns the row id of a blob.
pub(crate) fn find(connection: &Connection, hash: &BlobHash) -> Result<Option<i64>, Failure> {
    let id = connection
        .prepare_cached("SELECT id FROM blobs WHERE hash = ?1")?
        .query_row([hash.as_bytes()], |row| row.get(0))
        .optional()?;
    Ok(id)
}

/// Inserts a blob that does not exist, with its compressed content.
pub(crate) fn insert(
    connection: &Connection,
    now: Timestamp,
    hash: &BlobHash,
    length: usize,
    compressed: &[u8],
) -> Result<i64, Failure> {
    connection
        .prepare_cached(
            "INSERT INTO blobs (hash, length, stored_at, data) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![hash.as_bytes(), length, now.0, compressed])?;
    Ok(connection.last_insert_rowid())
}

/// Returns content by its hash.
pub(crate) fn read(connection: &Connection, hash: &BlobHash) -> Result<Option<Vec<u8>>, Failure> {
    let found = connection
        .prepare_cached("SELECT data, length FROM blobs WHERE hash = ?1")?
        .query_row([hash.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match found {
        Some((compressed, length)) => open(hash, compressed, length).map(Some),
        None => Ok(None),
    }
}

/// Returns content by its row id, with its hash.
pub(crate) fn read_by_id(connection: &Connection, id: i64) -> Result<(BlobHash, Vec<u8>), Failure> {
    let found = connection
        .prepare_cached("SELECT hash, data, length FROM blobs WHERE id = ?1")?
        .query_row([id], |row| {
            Ok((BlobHash::from(row.get::<_, [u8; 32]>(0)?), row.get(1)?, row.get(2)?))
        })
        .optional()?;
    match found {
        Some((hash, compressed, length)) => Ok((hash, open(&hash, compressed, length)?)),
        None => Err(Failure::Corrupt(format!("blob number {id} is missing"))),
    }
}

/// Decompresses content, and verifies its hash.
fn open(hash: &BlobHash, compressed: Vec<u8>, length: usize) -> Result<Vec<u8>, Failure> {
    let bytes = decompress(compressed, length)
        .map_err(|error| Failure::Corrupt(format!("blob {hash}: {error}")))?;
    if BlobHash::of(&bytes) == *hash {
        Ok(bytes)
    } else {
        Err(Failure::Corrupt(format!("blob {hash}: the content does not match the hash")))
    }
}

/// Stores content for a session.
pub(crate) fn put(
    ledger: &mut Ledger<'_>,
    session: &SessionId,
    hash: BlobHash,
    length: usize,
    compressed: &[u8],
) -> Result<BlobHash, Failure> {
    let session = session_id(ledger.connection, session)?;
    let blob = match find(ledger.connection, &hash)? {
        Some(blob) => {
            if !is_intact(ledger.connection, blob)? {
                rewrite(ledger.connection, blob, length, compressed)?;
            }
            blob
        }
        None => insert(ledger.connection, ledger.now, &hash, length, compressed)?,
    };
    refer(ledger.connection, session, blob)?;
    Ok(hash)
}

/// Records that a session refers to a blob.
pub(crate) fn refer(connection: &Connection, session: i64, blob: i64) -> Result<(), Failure> {
    connection
        .prepare_cached("INSERT OR IGNORE INTO blob_refs (session, blob) VALUES (?1, ?2)")?
        .execute([session, blob])?;
    Ok(())
}

/// Returns the unreferenced blobs that were stored at `latest` or before, as ranges of row ids.
///
/// Each range is deleted in a transaction of its own, so that no writer waits long.
pub(crate) fn garbage(
    connection: &Connection,
    latest: Timestamp,
) -> Result<Vec<RangeInclusive<i64>>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT id, length(data) FROM blobs WHERE stored_at <= ?1
           AND id NOT IN (SELECT blob FROM groups)
           AND id NOT IN (SELECT blob FROM blob_refs)
           AND id NOT IN (SELECT blob FROM snapshot_chunks)
         ORDER BY id",
    )?;
    let mut rows = statement.query([latest.0])?;
    let mut ranges: Vec<RangeInclusive<i64>> = Vec::new();
    let (mut blobs, mut bytes) = (MOST_BLOBS, 0);
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        match ranges.last_mut() {
            Some(range) if blobs < MOST_BLOBS && bytes < MOST_BYTES => {
                *range = *range.start()..=id;
            }
            _ => {
                ranges.push(id..=id);
                (blobs, bytes) = (0, 0);
            }
        }
        blobs += 1;
        bytes += row.get::<_, u64>(1)?;
    }
    Ok(ranges)
}

/// Deletes the garbage of a range. The query repeats the conditions of [`garbage`], because a
/// session may refer to a blob since.
pub(crate) fn collect(
    ledger: &mut Ledger<'_>,
    range: &RangeInclusive<i64>,
    latest: Timestamp,
) -> Result<GarbageReport, Failure> {
    let mut statement = ledger.connection.prepare_cached(
        "DELETE FROM blobs WHERE id BETWEEN ?1 AND ?2 AND stored_at <= ?3
           AND id NOT IN (SELECT blob FROM groups WHERE blob BETWEEN ?1 AND ?2)
           AND id NOT IN (SELECT blob FROM blob_refs WHERE blob BETWEEN ?1 AND ?2)
           AND id NOT IN (SELECT blob FROM snapshot_chunks WHERE blob BETWEEN ?1 AND ?2)
         RETURNING length(data)",
    )?;
    let mut deleted = statement.query([*range.start(), *range.end(), latest.0])?;
    let mut report = GarbageReport::default();
    while let Some(row) = deleted.next()? {
        report.blobs += 1;
        report.bytes += row.get::<_, u64>(0)?;
    }
    Ok(report)
}
