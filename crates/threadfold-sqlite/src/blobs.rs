//! Content by its hash, each kept once.

use std::ops::RangeInclusive;

use rusqlite::{Connection, OptionalExtension, params};
use threadfold_core::SessionId;

use crate::failure::Failure;
use crate::sessions::session_id;
use crate::writer::Ledger;
use threadfold_store::BlobHash;
use threadfold_store::Collected;
use threadfold_store::Timestamp;
use threadfold_store::pack::{compress, decompress};

/// So many blobs of garbage are deleted at once.
const MOST_BLOBS: u64 = 512;
/// So many bytes of it, about.
const MOST_BYTES: u64 = 8 << 20;

/// Content on its way in.
pub(crate) struct Content<'a> {
    hash: BlobHash,
    bytes: &'a [u8],
}

impl<'a> Content<'a> {
    pub(crate) fn of(hash: BlobHash, bytes: &'a [u8]) -> Self {
        Self { hash, bytes }
    }
}

/// Keeps content unless it is there, and returns its number. What is there and is damaged is
/// written anew, for whoever keeps it now relies on it.
pub(crate) fn keep(connection: &Connection, content: &Content<'_>) -> Result<i64, Failure> {
    let Some(id) = find(connection, &content.hash)? else {
        return insert(connection, &content.hash, content.bytes.len(), &compress(content.bytes));
    };
    if !is_whole(connection, id)? {
        mend(connection, id, content.bytes.len(), &compress(content.bytes))?;
    }
    Ok(id)
}

/// Says whether content is what its name says.
pub(crate) fn is_whole(connection: &Connection, id: i64) -> Result<bool, Failure> {
    match read_by_id(connection, id) {
        Ok(_) => Ok(true),
        Err(Failure::Corrupt(_)) => Ok(false),
        Err(other) => Err(other),
    }
}

/// Writes content anew that was damaged.
pub(crate) fn mend(
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

/// Returns the number of content, if it is there.
pub(crate) fn find(connection: &Connection, hash: &BlobHash) -> Result<Option<i64>, Failure> {
    let id = connection
        .prepare_cached("SELECT id FROM blobs WHERE hash = ?1")?
        .query_row([hash.as_bytes()], |row| row.get(0))
        .optional()?;
    Ok(id)
}

/// Keeps content that is compressed already and is not there.
pub(crate) fn insert(
    connection: &Connection,
    hash: &BlobHash,
    length: usize,
    compressed: &[u8],
) -> Result<i64, Failure> {
    connection
        .prepare_cached(
            "INSERT INTO blobs (hash, length, stored_at, data) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![hash.as_bytes(), length, Timestamp::now().0, compressed])?;
    Ok(connection.last_insert_rowid())
}

/// Returns content by its name, if it is there.
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

/// Returns content by its number, with its name.
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

/// Unsqueezes content, and believes it only if it has the name it should have.
fn open(hash: &BlobHash, compressed: Vec<u8>, length: usize) -> Result<Vec<u8>, Failure> {
    let bytes = decompress(compressed, length)
        .map_err(|error| Failure::Corrupt(format!("blob {hash}: {error}")))?;
    if BlobHash::of(&bytes) == *hash {
        Ok(bytes)
    } else {
        Err(Failure::Corrupt(format!("blob {hash}: it holds something else")))
    }
}

/// Keeps content for a session.
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
            if !is_whole(ledger.connection, blob)? {
                mend(ledger.connection, blob, length, compressed)?;
            }
            blob
        }
        None => insert(ledger.connection, &hash, length, compressed)?,
    };
    refer(ledger.connection, session, blob)?;
    Ok(hash)
}

/// Says that a session keeps a blob.
pub(crate) fn refer(connection: &Connection, session: i64, blob: i64) -> Result<(), Failure> {
    connection
        .prepare_cached("INSERT OR IGNORE INTO blob_refs (session, blob) VALUES (?1, ?2)")?
        .execute([session, blob])?;
    Ok(())
}

/// Returns what no session keeps and was stored before, as ranges of numbers: each is deleted
/// quickly, so that nobody waits long for the right to write.
pub(crate) fn garbage(
    connection: &Connection,
    before: Timestamp,
) -> Result<Vec<RangeInclusive<i64>>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT id, length(data) FROM blobs WHERE stored_at < ?1
           AND id NOT IN (SELECT blob FROM groups)
           AND id NOT IN (SELECT blob FROM blob_refs)
           AND id NOT IN (SELECT blob FROM snapshot_chunks)
         ORDER BY id",
    )?;
    let mut rows = statement.query([before.0])?;
    let mut portions: Vec<RangeInclusive<i64>> = Vec::new();
    let (mut blobs, mut bytes) = (MOST_BLOBS, 0);
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        match portions.last_mut() {
            Some(portion) if blobs < MOST_BLOBS && bytes < MOST_BYTES => {
                *portion = *portion.start()..=id;
            }
            _ => {
                portions.push(id..=id);
                (blobs, bytes) = (0, 0);
            }
        }
        blobs += 1;
        bytes += row.get::<_, u64>(1)?;
    }
    Ok(portions)
}

/// Deletes the garbage of a portion. It is looked at again, for somebody may keep it by now.
pub(crate) fn collect(
    ledger: &mut Ledger<'_>,
    portion: &RangeInclusive<i64>,
    before: Timestamp,
) -> Result<Collected, Failure> {
    let mut statement = ledger.connection.prepare_cached(
        "DELETE FROM blobs WHERE id BETWEEN ?1 AND ?2 AND stored_at < ?3
           AND id NOT IN (SELECT blob FROM groups WHERE blob BETWEEN ?1 AND ?2)
           AND id NOT IN (SELECT blob FROM blob_refs WHERE blob BETWEEN ?1 AND ?2)
           AND id NOT IN (SELECT blob FROM snapshot_chunks WHERE blob BETWEEN ?1 AND ?2)
         RETURNING length(data)",
    )?;
    let mut deleted = statement.query([*portion.start(), *portion.end(), before.0])?;
    let mut collected = Collected::default();
    while let Some(row) = deleted.next()? {
        collected.blobs += 1;
        collected.bytes += row.get::<_, u64>(0)?;
    }
    Ok(collected)
}
