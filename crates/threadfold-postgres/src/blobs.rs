//! Content-addressed blobs, deduplicated by hash.
//!
//! Whoever refers to a blob locks its row first, and the references are foreign keys: garbage
//! collection on another machine cannot delete it in between.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use bytes::Bytes;
use deadpool_postgres::Transaction;
use threadfold_core::SessionId;
use threadfold_store::pack::{CompressedContent, decompress};
use threadfold_store::{BlobHash, GarbageReport};
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;

use crate::failure::Failure;
use crate::sessions::{number, session_id};
use crate::store::Database;

/// How many blobs one transaction deletes.
const MOST_BLOBS: i64 = 512;
/// How often content is stored that garbage collection deletes at the same moment.
const MOST_TRIES: usize = 5;
/// About how many bytes one statement stores: a message to the database has at most a gigabyte.
const PORTION: usize = 8 << 20;

/// Stores contents unless they exist, and returns their row ids. They stay until the transaction
/// ends.
pub(crate) async fn store_contents(
    transaction: &Transaction<'_>,
    now: Option<i64>,
    contents: &[&CompressedContent],
) -> Result<HashMap<BlobHash, i64>, Failure> {
    // In the order of their hashes, so that no two transactions wait for each other.
    let by_hash: BTreeMap<BlobHash, &CompressedContent> =
        contents.iter().map(|it| (it.hash, *it)).collect();
    let hashes: Vec<BlobHash> = by_hash.keys().copied().collect();
    for _ in 0..MOST_TRIES {
        let found = lock(transaction, &hashes).await?;
        let missing: Vec<_> =
            by_hash.values().copied().filter(|it| !found.contains_key(&it.hash)).collect();
        if missing.is_empty() {
            return Ok(found);
        }
        insert(transaction, now, &missing).await?;
    }
    Err(Failure::Corrupt("content disappears as soon as it is stored".to_owned()))
}

/// Returns the row ids of those blobs that exist. They stay until the transaction ends.
pub(crate) async fn lock(
    transaction: &Transaction<'_>,
    hashes: &[BlobHash],
) -> Result<HashMap<BlobHash, i64>, Failure> {
    let select = "SELECT id, hash FROM threadfold.blobs WHERE hash = ANY($1)
                  ORDER BY hash FOR KEY SHARE";
    let names: Vec<&[u8]> = hashes.iter().map(|it| &it.as_bytes()[..]).collect();
    let rows = transaction.query(select, &[&names]).await?;
    rows.iter().map(|row| Ok((hash(row, 1)?, row.try_get(0)?))).collect()
}

pub(crate) fn hash(row: &Row, column: usize) -> Result<BlobHash, Failure> {
    let bytes: &[u8] = row.try_get(column)?;
    let bytes: [u8; 32] = bytes
        .try_into()
        .map_err(|_| Failure::Corrupt("the name of a blob has not 32 bytes".to_owned()))?;
    Ok(BlobHash::from(bytes))
}

/// Inserts blobs, except those that somebody else inserts at the same moment.
pub(crate) async fn insert(
    client: &impl deadpool_postgres::GenericClient,
    now: Option<i64>,
    contents: &[&CompressedContent],
) -> Result<(), Failure> {
    let insert = "INSERT INTO threadfold.blobs (hash, length, stored_at, data)
                  SELECT hash, length, threadfold.now_or($1), data
                  FROM unnest($2::bytea[], $3::bigint[], $4::bytea[]) AS it (hash, length, data)
                  ON CONFLICT (hash) DO NOTHING";
    let mut rest = contents;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = rest.iter().take_while(|it| {
            let is_first = bytes == 0;
            bytes += it.bytes.len();
            is_first || bytes <= PORTION
        });
        let (portion, later) = rest.split_at(fits.count().max(1));
        let hashes: Vec<&[u8]> = portion.iter().map(|it| &it.hash.as_bytes()[..]).collect();
        let lengths: Vec<i64> = portion.iter().map(|it| it.length as i64).collect();
        let data: Vec<&[u8]> = portion.iter().map(|it| &*it.bytes).collect();
        client.execute(insert, &[&now, &hashes, &lengths, &data]).await?;
        rest = later;
    }
    Ok(())
}

/// Returns content by its hash.
pub(crate) async fn read(database: &Database, hash: &BlobHash) -> Result<Option<Bytes>, Failure> {
    let client = database.client().await?;
    let select = client
        .prepare_cached("SELECT hash, data, length FROM threadfold.blobs WHERE hash = $1")
        .await?;
    let found = client.query_opt(&select, &[&&hash.as_bytes()[..]]).await?;
    found.map(|row| Ok(Bytes::from(open(&row, 0)?.1))).transpose()
}

/// Returns a blob from three columns of a row: its hash, its data and its length.
pub(crate) fn open(row: &Row, column: usize) -> Result<(BlobHash, Vec<u8>), Failure> {
    let hash = hash(row, column)?;
    let data: Vec<u8> = row.try_get(column + 1)?;
    let length = usize::try_from(number(row, column + 2)?).unwrap_or(usize::MAX);
    let bytes = decompress(data, length)
        .map_err(|error| Failure::Corrupt(format!("blob {hash}: {error}")))?;
    if BlobHash::of(&bytes) == hash {
        Ok((hash, bytes))
    } else {
        Err(Failure::Corrupt(format!("blob {hash}: the content does not match the hash")))
    }
}

/// Stores content for a session.
pub(crate) async fn put(
    database: &Database,
    session: &SessionId,
    bytes: Bytes,
) -> Result<BlobHash, Failure> {
    let content =
        tokio::task::spawn_blocking(move || CompressedContent::new(BlobHash::of(&bytes), &bytes));
    let content = content
        .await
        .map_err(|error| Failure::Corrupt(format!("content could not be compressed: {error}")))?;
    let mut client = database.client().await?;
    let transaction = client.transaction().await?;
    let session = session_id(&*transaction, session).await?;
    let ids = store_contents(&transaction, database.now(), &[&content]).await?;
    let blobs: Vec<i64> = ids.into_values().collect();
    let refer = "INSERT INTO threadfold.blob_refs (session, blob)
                 SELECT $1, unnest($2::bigint[]) ON CONFLICT DO NOTHING";
    transaction.execute(refer, &[&session, &blobs]).await?;
    transaction.commit().await?;
    Ok(content.hash)
}

/// Deletes blobs that nothing refers to and that are old enough, some at a time.
pub(crate) async fn collect_garbage(
    database: &Database,
    age: Duration,
) -> Result<GarbageReport, Failure> {
    let client = database.client().await?;
    let delete = "DELETE FROM threadfold.blobs WHERE id IN (
                      SELECT id FROM threadfold.blobs AS b
                      WHERE stored_at <= threadfold.now_or($1) - $2 AND id > $3
                        AND NOT EXISTS (SELECT FROM threadfold.groups WHERE blob = b.id)
                        AND NOT EXISTS (SELECT FROM threadfold.blob_refs WHERE blob = b.id)
                        AND NOT EXISTS (SELECT FROM threadfold.snapshot_chunks WHERE blob = b.id)
                      ORDER BY id LIMIT $4)
                  RETURNING id, length(data)::bigint";
    let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX / 2);
    let mut report = GarbageReport::default();
    let (mut after, mut most) = (0_i64, MOST_BLOBS);
    loop {
        let deleted = client.query(delete, &[&database.now(), &age, &after, &most]).await;
        let deleted = match deleted {
            // Somebody began to refer to one of them: fewer at a time, until that one is found.
            Err(error) if error.code() == Some(&SqlState::FOREIGN_KEY_VIOLATION) && most > 1 => {
                most /= 2;
                continue;
            }
            // The next look will see who refers to it.
            Err(error) if error.code() == Some(&SqlState::FOREIGN_KEY_VIOLATION) => continue,
            deleted => deleted?,
        };
        if deleted.is_empty() {
            return Ok(report);
        }
        for row in &deleted {
            after = after.max(row.try_get(0)?);
            report.blobs += 1;
            report.bytes += number(row, 1)?;
        }
        most = MOST_BLOBS;
    }
}
