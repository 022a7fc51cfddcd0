//! Appends: one row each.

use rusqlite::{Connection, OptionalExtension, params};
use threadfold_core::SessionId;
use threadfold_fold::Timestamp;
use threadfold_store::pack::{AppendContent, Batch, PreparedAppend, batches, unpack_row};
use threadfold_store::{AppendReceipt, BatchId, Epoch, StoreError};

use crate::bursts::PendingRow;
use crate::cache::{CachedSession, TailSize};
use crate::compact::{group_tail, insert_group};
use crate::failure::Failure;
use crate::schema::{first_of, most_records, place};
use crate::writer::Ledger;

pub(crate) fn append(
    ledger: &mut Ledger<'_>,
    append: PreparedAppend,
) -> Result<AppendReceipt, Failure> {
    let PreparedAppend { session, epoch, after, batch, count, latest, content } = append;
    let cached = ledger.cache.session(ledger.connection, &session)?;
    // Before the epoch: a retry is acknowledged even if the writer was replaced since.
    if after < cached.head {
        let id = cached.id;
        ledger.settle()?;
        if let Some(receipt) = find_batch(ledger.connection, id, after, batch)? {
            return Ok(receipt);
        }
    }
    let cached = ledger.cache.session(ledger.connection, &session)?;
    check_epoch(&session, cached, epoch)?;
    check_place(&session, after, count, cached.head)?;
    let first = cached.head + 1;
    let receipt = AppendReceipt { first, last: cached.head + count };
    if count == 0 {
        return Ok(receipt);
    }
    match content {
        AppendContent::Row(row) => {
            cached.tail.rows += 1;
            cached.tail.bytes += row.len() as u64;
            cached.head = receipt.last;
            ledger.compactions.consider(&session, cached);
            ledger.rows.push(PendingRow { session: cached.id, first, count, latest, row });
        }
        AppendContent::Groups(groups) => {
            let id = cached.id;
            ledger.settle()?;
            // Groups precede the tail, so what is in the tail becomes a group as well.
            group_tail(ledger.connection, ledger.now, &session, id)?;
            for group in &groups {
                insert_group(ledger.connection, ledger.now, id, group)?;
            }
            let cached = ledger.cache.session(ledger.connection, &session)?;
            cached.tail = TailSize::default();
            cached.head = receipt.last;
        }
    }
    ledger.changed.push(session);
    Ok(receipt)
}

pub(crate) fn insert_row(
    connection: &Connection,
    id: i64,
    first: u64,
    count: u64,
    latest: Timestamp,
    row: &[u8],
) -> Result<(), Failure> {
    connection
        .prepare_cached("INSERT INTO tail (place, count, latest, data) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![place(id, first), count, latest.0, row])?;
    Ok(())
}

/// Refuses every epoch but the latest.
pub(crate) fn check_epoch(
    session: &SessionId,
    cached: &CachedSession,
    ours: Epoch,
) -> Result<(), Failure> {
    if ours == cached.epoch {
        return Ok(());
    }
    let holder = Box::new(cached.holder.clone().unwrap_or_default());
    let session = session.clone();
    Err(StoreError::Fenced { session, ours, current: cached.epoch, holder }.into())
}

fn check_place(session: &SessionId, after: u64, count: u64, head: u64) -> Result<(), Failure> {
    if after != head {
        let session = session.clone();
        return Err(StoreError::Conflict { session, expected: after, found: head }.into());
    }
    if count > most_records() - head {
        return Err(StoreError::Unwritable {
            place: format!("session `{session}`"),
            source: format!("a log can have at most {} records", most_records()).into(),
        }
        .into());
    }
    Ok(())
}

/// Finds an append with this batch id at this place, in the tail or in a group.
fn find_batch(
    connection: &Connection,
    id: i64,
    after: u64,
    batch: BatchId,
) -> Result<Option<AppendReceipt>, Failure> {
    let Some(first) = after.checked_add(1).filter(|first| *first <= most_records()) else {
        return Ok(None);
    };
    let mut last_before = connection.prepare_cached(
        "SELECT place, count, data FROM tail WHERE place BETWEEN ?1 AND ?2
         ORDER BY place DESC LIMIT 1",
    )?;
    let in_tail = last_before
        .query_row([place(id, 0), place(id, first)], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get::<_, Vec<u8>>(2)?))
        })
        .optional()?;
    let found = match in_tail {
        Some((row, count, data)) => unpack_row(first_of(row), count, &data)?.0,
        None => batches_in_group(connection, id, first)?,
    };
    let found = found.into_iter().find(|it| it.first == first && it.id == batch);
    Ok(found.map(|it| AppendReceipt { first, last: after.saturating_add(it.count) }))
}

fn batches_in_group(connection: &Connection, id: i64, first: u64) -> Result<Vec<Batch>, Failure> {
    let group = connection
        .prepare_cached(
            "SELECT place, meta FROM groups WHERE place BETWEEN ?1 AND ?2
             ORDER BY place DESC LIMIT 1",
        )?
        .query_row([place(id, 0), place(id, first)], |row| {
            Ok((row.get(0)?, row.get::<_, Vec<u8>>(1)?))
        })
        .optional()?;
    match group {
        Some((group, meta)) => Ok(batches(&meta, first_of(group))?),
        None => Ok(Vec::new()),
    }
}
