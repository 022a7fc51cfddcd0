//! Reads a log: groups, then the tail.

use std::collections::HashMap;

use deadpool_postgres::Transaction;
use threadfold_core::SessionId;
use threadfold_fold::StoredRecord;
use threadfold_store::pack::{PackedGroup, ReadProgress, named_blobs, unpack, unpack_row};
use threadfold_store::{BlobHash, Limit};
use tokio_postgres::IsolationLevel;

use crate::blobs;
use crate::failure::Failure;
use crate::sessions::{number, session_id};
use crate::store::Database;

/// How many groups, and how many rows, one query returns.
const GROUPS: i64 = 8;
const ROWS: i64 = 1024;

/// Returns records after `after`, within the limit, but at least one if there is one.
pub(crate) async fn read(
    database: &Database,
    session: &SessionId,
    after: u64,
    limit: Limit,
) -> Result<Vec<StoredRecord>, Failure> {
    let mut client = database.client().await?;
    // One view of the groups and of the tail, because a compaction moves rows between them.
    let transaction = client
        .build_transaction()
        .isolation_level(IsolationLevel::RepeatableRead)
        .read_only(true)
        .start()
        .await?;
    let id = session_id(&*transaction, session).await?;
    let mut wanted = ReadProgress::new(after, limit);
    if i64::try_from(wanted.next()).is_ok() {
        read_groups(&transaction, session, id, &mut wanted).await?;
        read_tail(&transaction, id, &mut wanted).await?;
    }
    Ok(wanted.into_records())
}

async fn read_groups(
    transaction: &Transaction<'_>,
    session: &SessionId,
    id: i64,
    wanted: &mut ReadProgress,
) -> Result<(), Failure> {
    let select = transaction
        .prepare_cached(
            "SELECT first, count, meta, hash, data, length
             FROM threadfold.groups JOIN threadfold.blobs ON blobs.id = blob
             WHERE session = $1 AND first + count > $2
               AND first >= coalesce((SELECT max(first) FROM threadfold.groups
                                      WHERE session = $1 AND first <= $2), 0)
             ORDER BY first LIMIT $3",
        )
        .await?;
    while !wanted.is_done() {
        let rows =
            transaction.query(&select, &[&id, &wanted.next().cast_signed(), &GROUPS]).await?;
        for row in &rows {
            if wanted.is_done() {
                return Ok(());
            }
            let first = number(row, 0)?;
            let within = |failure| in_session(failure, session, first);
            let (hash, content) = blobs::open(row, 3).map_err(within)?;
            let (count, meta) = (number(row, 1)?, row.try_get(2)?);
            let named = named_contents(transaction, &content, count).await.map_err(within)?;
            let session = session.as_str();
            let packed =
                PackedGroup { session, first, count, meta, hash: &hash, content: &content };
            let records = unpack(&packed, |hash| {
                let found = named.get(hash).cloned();
                found.ok_or_else(|| Failure::Corrupt(format!("blob {hash} is missing")))
            });
            wanted.take(records.map_err(within)?)?;
        }
        if rows.len() < GROUPS as usize {
            return Ok(());
        }
    }
    Ok(())
}

/// Returns the contents that a group refers to.
async fn named_contents(
    transaction: &Transaction<'_>,
    content: &[u8],
    count: u64,
) -> Result<HashMap<BlobHash, Vec<u8>>, Failure> {
    let names = named_blobs(content, count)?;
    if names.is_empty() {
        return Ok(HashMap::new());
    }
    let select = transaction
        .prepare_cached("SELECT hash, data, length FROM threadfold.blobs WHERE hash = ANY($1)")
        .await?;
    let names: Vec<&[u8]> = names.iter().map(|it| &it.as_bytes()[..]).collect();
    let rows = transaction.query(&select, &[&names]).await?;
    rows.iter().map(|row| blobs::open(row, 0)).collect()
}

async fn read_tail(
    transaction: &Transaction<'_>,
    id: i64,
    wanted: &mut ReadProgress,
) -> Result<(), Failure> {
    let select = transaction
        .prepare_cached(
            "SELECT first, count, data FROM threadfold.tail
             WHERE session = $1 AND first + count > $2
               AND first >= coalesce((SELECT max(first) FROM threadfold.tail
                                      WHERE session = $1 AND first <= $2), 0)
             ORDER BY first LIMIT $3",
        )
        .await?;
    while !wanted.is_done() {
        let rows = transaction.query(&select, &[&id, &wanted.next().cast_signed(), &ROWS]).await?;
        for row in &rows {
            if wanted.is_done() {
                return Ok(());
            }
            let (_, records) = unpack_row(number(row, 0)?, number(row, 1)?, row.try_get(2)?)?;
            wanted.take(records)?;
        }
        if rows.len() < ROWS as usize {
            return Ok(());
        }
    }
    Ok(())
}

/// Adds the place of corruption to its description.
fn in_session(failure: Failure, session: &SessionId, first: u64) -> Failure {
    match failure {
        Failure::Corrupt(what) => {
            Failure::Corrupt(format!("session `{session}`, group of record {first}: {what}"))
        }
        other => other,
    }
}
