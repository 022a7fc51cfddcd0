//! Appends: one row each, checked and written by one statement.

use deadpool_postgres::Transaction;
use threadfold_fold::Timestamp;
use threadfold_store::pack::{
    AppendContent, CompressedContent, CompressedGroup, PreparedAppend, batches, unpack_row,
};
use threadfold_store::{AppendReceipt, BatchId, StoreError};
use tokio_postgres::IsolationLevel;

use crate::compact::{group_tail, insert_groups};
use crate::failure::Failure;
use crate::group_commit::GroupCommit;
use crate::leases;
use crate::schema::{LATEST_VERSION, newer};
use crate::sessions::{epoch, not_found, number};
use crate::store::Database;

/// How often an append is tried that another transaction keeps from being done or refused.
const MOST_TRIES: usize = 5;

/// What became of an attempt.
enum Attempt {
    Done(AppendReceipt),
    /// Something was different a moment ago: another attempt will find out.
    Again,
}

pub(crate) async fn append(
    database: &Database,
    group_commit: &GroupCommit,
    mut append: PreparedAppend,
) -> Result<AppendReceipt, Failure> {
    // No log has so many records, so such an append is refused for its place.
    let is_beyond = append.after.saturating_add(append.count) > i64::MAX as u64;
    for _ in 0..MOST_TRIES {
        let is_written = match &append.content {
            _ if append.count == 0 || is_beyond => false,
            AppendContent::Row(_) => {
                let (returned, is_written) = group_commit.write(append).await?;
                append = returned;
                is_written
            }
            AppendContent::Groups(groups) => write_groups(database, &append, groups).await?,
        };
        if is_written {
            database.wakes.changed(&append.session);
            return Ok(append.receipt());
        }
        if let Attempt::Done(receipt) = explain(database, &append).await? {
            return Ok(receipt);
        }
    }
    let source = "other writers of the session were faster every time".into();
    Err(StoreError::Unreachable { place: database.place.clone(), source }.into())
}

/// Finds out why an append was not written: it is there already, or it is refused.
async fn explain(database: &Database, append: &PreparedAppend) -> Result<Attempt, Failure> {
    let PreparedAppend { session, epoch: ours, after, batch, count, .. } = append;
    let mut client = database.client().await?;
    // One view of the tail and of the groups, because a compaction moves rows between them.
    let transaction = client
        .build_transaction()
        .isolation_level(IsolationLevel::RepeatableRead)
        .read_only(true)
        .start()
        .await?;
    let select = "SELECT id, epoch, head, holder, lease_until, threadfold.now_or($2),
                         (SELECT version FROM threadfold.store)
                  FROM threadfold.sessions WHERE name = $1";
    let name = session.as_str().as_bytes();
    let row = transaction.query_opt(select, &[&name, &database.now()]).await?;
    let row = row.ok_or_else(|| not_found(session))?;
    let head = number(&row, 2)?;
    // Before the epoch: a retry is acknowledged even if the writer was replaced since.
    if *after < head
        && let Some(receipt) = find_batch(&transaction, row.try_get(0)?, *after, *batch).await?
    {
        return Ok(Attempt::Done(receipt));
    }
    let version: i32 = row.try_get(6)?;
    if version != LATEST_VERSION {
        return Err(newer(&database.place, version).into());
    }
    let current = epoch(&row, 1)?;
    if current != *ours {
        let now = Timestamp(row.try_get(5)?);
        let lease = leases::parse(current, row.try_get(3)?, row.try_get(4)?, now)?;
        return Err(leases::fenced(session, *ours, current, lease).into());
    }
    if *after != head {
        let (session, expected) = (session.clone(), *after);
        return Err(StoreError::Conflict { session, expected, found: head }.into());
    }
    match count {
        0 => Ok(Attempt::Done(append.receipt())),
        _ => Ok(Attempt::Again),
    }
}

/// Finds an append with this batch id at this place, in the tail or in a group.
async fn find_batch(
    transaction: &Transaction<'_>,
    id: i64,
    after: u64,
    batch: BatchId,
) -> Result<Option<AppendReceipt>, Failure> {
    let first = after.saturating_add(1);
    let tail = "SELECT first, count, data FROM threadfold.tail
                WHERE session = $1 AND first <= $2 ORDER BY first DESC LIMIT 1";
    let groups = "SELECT first, meta FROM threadfold.groups
                  WHERE session = $1 AND first <= $2 ORDER BY first DESC LIMIT 1";
    let place = first.cast_signed();
    let found = match transaction.query_opt(tail, &[&id, &place]).await? {
        Some(row) => unpack_row(number(&row, 0)?, number(&row, 1)?, row.try_get(2)?)?.0,
        None => match transaction.query_opt(groups, &[&id, &place]).await? {
            Some(row) => batches(row.try_get(1)?, number(&row, 0)?)?,
            None => Vec::new(),
        },
    };
    let found = found.into_iter().find(|it| it.first == first && it.id == batch);
    Ok(found.map(|it| AppendReceipt { first, last: after.saturating_add(it.count) }))
}

/// Writes an append as groups, and returns whether it was written.
async fn write_groups(
    database: &Database,
    append: &PreparedAppend,
    groups: &[CompressedGroup],
) -> Result<bool, Failure> {
    let PreparedAppend { session, epoch, after, count, latest, .. } = append;
    let mut client = database.client().await?;
    let transaction = client.transaction().await?;
    let advance = "UPDATE threadfold.sessions SET head = head + $4, latest = $5,
                          tail_rows = 0, tail_bytes = 0
                   WHERE name = $1 AND epoch = $2 AND head = $3
                     AND (SELECT version FROM threadfold.store) = $6
                   RETURNING id";
    let (name, epoch) = (session.as_str().as_bytes(), epoch.0.cast_signed());
    let (after, count) = (after.cast_signed(), count.cast_signed());
    let row = transaction
        .query_opt(advance, &[&name, &epoch, &after, &count, &latest.0, &LATEST_VERSION])
        .await?;
    let Some(row) = row else { return Ok(false) };
    let (id, now) = (row.try_get(0)?, database.now());
    // Groups precede the tail, so what is in the tail becomes a group as well.
    group_tail(&transaction, now, session, id).await?;
    insert_groups(&transaction, now, id, groups).await?;
    transaction.commit().await?;
    Ok(true)
}

/// Returns all contents of some groups.
pub(crate) fn contents(groups: &[CompressedGroup]) -> Vec<&CompressedContent> {
    groups.iter().flat_map(CompressedGroup::contents).collect()
}
