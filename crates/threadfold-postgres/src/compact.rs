//! Compacts tails, which are fast to write, into groups, which are small and deduplicated.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use deadpool_postgres::Transaction;
use threadfold_core::SessionId;
use threadfold_store::pack::{
    CompressedContent, CompressedGroup, TailRow, all_groups, complete_groups,
};

use crate::append::contents;
use crate::blobs::store_contents;
use crate::failure::Failure;
use crate::sessions::number;
use crate::store::Database;

/// A tail of this many rows or bytes is compacted.
const MANY_ROWS: u64 = 512;
const MANY_BYTES: u64 = 256 << 10;
/// How many bytes of records are compacted at once: rows that compress well are many times as large
/// in memory as they are stored.
const AT_ONCE: usize = 2 << 20;
/// How many rows one query returns.
const ROWS: i64 = 64;

/// The sessions whose tails became long.
#[derive(Default)]
pub(crate) struct Compactions {
    /// The rows and bytes of a tail that is being compacted, or in which no group ended; it is tried
    /// again once it has grown noticeably.
    tried: Arc<Mutex<HashMap<SessionId, (u64, u64)>>>,
}

impl Compactions {
    /// Compacts the tail of a session beside other work, if it is long.
    pub(crate) fn consider(
        &self,
        database: &Arc<Database>,
        session: &SessionId,
        rows: u64,
        bytes: u64,
    ) {
        if rows < MANY_ROWS && bytes < MANY_BYTES {
            return;
        }
        {
            let mut tried = self.tried.lock().unwrap_or_else(PoisonError::into_inner);
            let (rows_then, bytes_then) = tried.get(session).copied().unwrap_or_default();
            let has_grown = rows >= rows_then + MANY_ROWS / 4 || bytes >= bytes_then * 5 / 4;
            if !has_grown && rows >= rows_then {
                return;
            }
            tried.insert(session.clone(), (rows, bytes));
        }
        let (database, session) = (database.clone(), session.clone());
        let tried = self.tried.clone();
        tokio::spawn(async move {
            match compact(&database, &session).await {
                Ok(true) => {
                    tried.lock().unwrap_or_else(PoisonError::into_inner).remove(&session);
                }
                Ok(false) => {}
                // The records are safe where they are; the next append tries again.
                Err(failure) => {
                    let error = database.error(failure);
                    tracing::warn!(%session, %error, "the end of a log was not compacted");
                }
            }
        });
    }
}

/// Packs a session's tail into groups, up to the end of the last complete group. Returns whether
/// there was one.
async fn compact(database: &Database, session: &SessionId) -> Result<bool, Failure> {
    let mut client = database.client().await?;
    let transaction = client.transaction().await?;
    let lock = "SELECT id FROM threadfold.sessions WHERE name = $1 FOR UPDATE";
    let name = session.as_str().as_bytes();
    let Some(row) = transaction.query_opt(lock, &[&name]).await? else { return Ok(false) };
    let id: i64 = row.try_get(0)?;
    let rows = tail_rows(&transaction, id, AT_ONCE).await?;
    let name = session.as_str().to_owned();
    let (rows, groups) = packed(rows, move |rows| complete_groups(&name, rows)).await?;
    let Some(until) = groups.last().map(CompressedGroup::last) else { return Ok(false) };
    insert_groups(&transaction, database.now(), id, &groups).await?;
    delete_tail(&transaction, id, until).await?;
    let add = "INSERT INTO threadfold.tail (session, first, count, latest, data)
               VALUES ($1, $2, $3, $4, $5)";
    for row in rows.into_iter().filter(|row| row.first <= until) {
        if let Some((rest, data)) = row.rest_after(until) {
            let (first, records) = (rest.first.cast_signed(), rest.records.len() as i64);
            let latest = rest.records.last().map_or(0, |it| it.received.0);
            transaction.execute(add, &[&id, &first, &records, &latest, &data]).await?;
        }
    }
    let note = "UPDATE threadfold.sessions SET (tail_rows, tail_bytes) =
                    (SELECT count(*), coalesce(sum(length(data)), 0)
                     FROM threadfold.tail WHERE session = $1)
                WHERE id = $1";
    transaction.execute(note, &[&id]).await?;
    transaction.commit().await?;
    Ok(true)
}

/// Packs a session's tail into groups, all of it.
pub(crate) async fn group_tail(
    transaction: &Transaction<'_>,
    now: Option<i64>,
    session: &SessionId,
    id: i64,
) -> Result<(), Failure> {
    let rows = tail_rows(transaction, id, usize::MAX).await?;
    let name = session.as_str().to_owned();
    let (_, groups) = packed(rows, move |rows| all_groups(&name, rows)).await?;
    let Some(until) = groups.last().map(CompressedGroup::last) else { return Ok(()) };
    insert_groups(transaction, now, id, &groups).await?;
    delete_tail(transaction, id, until).await
}

/// Packs rows on a thread that may take its time.
async fn packed(
    rows: Vec<TailRow>,
    pack: impl FnOnce(&[TailRow]) -> Vec<CompressedGroup> + Send + 'static,
) -> Result<(Vec<TailRow>, Vec<CompressedGroup>), Failure> {
    let work = tokio::task::spawn_blocking(move || {
        let groups = pack(&rows);
        (rows, groups)
    });
    work.await.map_err(|error| Failure::Corrupt(format!("a log could not be packed: {error}")))
}

/// Returns the first rows of a session's tail, until they have so many bytes of records.
async fn tail_rows(
    transaction: &Transaction<'_>,
    id: i64,
    most: usize,
) -> Result<Vec<TailRow>, Failure> {
    let select = "SELECT first, count, data FROM threadfold.tail WHERE session = $1 AND first > $2
                  ORDER BY first LIMIT $3";
    let (mut rows, mut bytes, mut after): (Vec<TailRow>, _, i64) = (Vec::new(), 0, -1);
    while bytes < most {
        let found = transaction.query(select, &[&id, &after, &ROWS]).await?;
        let Some(last) = found.last() else { break };
        after = last.try_get(0)?;
        for row in &found {
            let row = TailRow::unpack(number(row, 0)?, number(row, 1)?, row.try_get(2)?)?;
            bytes += row.records.iter().map(|it| it.bytes.len()).sum::<usize>();
            rows.push(row);
        }
    }
    Ok(rows)
}

async fn delete_tail(transaction: &Transaction<'_>, id: i64, until: u64) -> Result<(), Failure> {
    let delete = "DELETE FROM threadfold.tail WHERE session = $1 AND first <= $2";
    transaction.execute(delete, &[&id, &until.cast_signed()]).await?;
    Ok(())
}

pub(crate) async fn insert_groups(
    transaction: &Transaction<'_>,
    now: Option<i64>,
    id: i64,
    groups: &[CompressedGroup],
) -> Result<(), Failure> {
    let ids = store_contents(transaction, now, &contents(groups)).await?;
    let blob = |content: &CompressedContent| ids.get(&content.hash).copied().unwrap_or_default();
    let mut named: Vec<i64> = groups.iter().flat_map(|it| &it.extracts).map(blob).collect();
    named.sort_unstable();
    named.dedup();
    if !named.is_empty() {
        let refer = "INSERT INTO threadfold.blob_refs (session, blob)
                     SELECT $1, unnest($2::bigint[]) ON CONFLICT DO NOTHING";
        transaction.execute(refer, &[&id, &named]).await?;
    }
    let insert = "INSERT INTO threadfold.groups (session, first, count, latest, meta, blob)
                  SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[],
                                           $6::bigint[])";
    let of =
        |value: fn(&CompressedGroup) -> i64| -> Vec<i64> { groups.iter().map(value).collect() };
    let firsts = of(|it| it.first.cast_signed());
    let counts = of(|it| it.count.cast_signed());
    let latest = of(|it| it.latest.0);
    let metas: Vec<&[u8]> = groups.iter().map(|it| &*it.meta).collect();
    let blobs: Vec<i64> = groups.iter().map(|it| blob(&it.content)).collect();
    transaction.execute(insert, &[&id, &firsts, &counts, &latest, &metas, &blobs]).await?;
    Ok(())
}
