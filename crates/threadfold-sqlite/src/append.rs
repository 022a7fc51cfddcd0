//! Adding records: one row an append.

use rusqlite::{Connection, OptionalExtension, params};
use threadfold_core::SessionId;

use crate::bursts::PendingRow;
use crate::cache::CachedSession;
use crate::compact::{LONG_TAIL, TailRow, replace_tail, tail_rows};
use crate::failure::Failure;
use crate::schema::{first_of, most_records, place};
use crate::writer::Ledger;
use threadfold_store::Epoch;
use threadfold_store::StoreError;
use threadfold_store::pack::{Batch, batches, pack_row, unpack_row};
use threadfold_store::{Append, Appended, BatchId};
use threadfold_store::{NewRecord, Timestamp};

/// An append, with what can be done before the writer's turn.
pub(crate) struct PreparedAppend {
    session: SessionId,
    epoch: Epoch,
    after: u64,
    batch: BatchId,
    count: u64,
    latest: Timestamp,
    content: Content,
}

/// What is appended.
enum Content {
    /// A row of the tail.
    Row(Vec<u8>),
    /// More than a row should have.
    Records(Vec<NewRecord>),
}

impl PreparedAppend {
    pub(crate) fn new(append: Append) -> Self {
        let Append { session, epoch, after, batch, records } = append;
        let latest = records.last().map_or(Timestamp(0), |record| record.received);
        let size: u64 = records.iter().map(|record| record.bytes.len() as u64).sum();
        let first = after.saturating_add(1);
        let count = records.len() as u64;
        let content = if size < LONG_TAIL.bytes {
            Content::Row(pack_row(first, &[Batch { id: batch, first, count }], &records))
        } else {
            Content::Records(records)
        };
        Self { session, epoch, after, batch, count, latest, content }
    }
}

pub(crate) fn append(ledger: &mut Ledger<'_>, append: PreparedAppend) -> Result<Appended, Failure> {
    let PreparedAppend { session, epoch, after, batch, count, latest, content } = append;
    let known = ledger.cache.session(ledger.connection, &session)?;
    if after < known.head {
        let id = known.id;
        ledger.settle()?;
        if let Some(appended) = find_batch(ledger.connection, id, after, batch)? {
            return Ok(appended);
        }
    }
    let known = ledger.cache.session(ledger.connection, &session)?;
    check_epoch(&session, known, epoch)?;
    check_place(&session, after, count, known.head)?;
    let first = known.head + 1;
    let appended = Appended { first, last: known.head + count };
    if count == 0 {
        return Ok(appended);
    }
    match content {
        Content::Row(row) => {
            known.tail.rows += 1;
            known.tail.bytes += row.len() as u64;
            known.head = appended.last;
            ledger.compactions.consider(&session, known);
            ledger.rows.push(PendingRow { session: known.id, first, count, latest, row });
        }
        Content::Records(records) => {
            let id = known.id;
            ledger.settle()?;
            let mut rows = tail_rows(ledger.connection, id)?;
            let batches = vec![Batch { id: batch, first, count }];
            rows.push(TailRow { first, batches, is_stored: false, records });
            let tail = replace_tail(ledger.connection, &session, id, rows)?;
            let known = ledger.cache.session(ledger.connection, &session)?;
            known.tail = tail;
            known.head = appended.last;
        }
    }
    ledger.grown.push(session);
    Ok(appended)
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

/// Refuses whoever does not hold the latest lease.
pub(crate) fn check_epoch(
    session: &SessionId,
    known: &CachedSession,
    ours: Epoch,
) -> Result<(), Failure> {
    if ours == known.epoch {
        return Ok(());
    }
    let holder = Box::new(known.holder.clone().unwrap_or_default());
    let session = session.clone();
    Err(StoreError::Fenced { session, ours, current: known.epoch, holder }.into())
}

fn check_place(session: &SessionId, after: u64, count: u64, head: u64) -> Result<(), Failure> {
    if after != head {
        let session = session.clone();
        return Err(StoreError::Conflict { session, expected: after, found: head }.into());
    }
    if count > most_records() - head {
        return Err(StoreError::Unwritable {
            place: format!("session `{session}`"),
            source: format!("a log has at most {} records", most_records()).into(),
        }
        .into());
    }
    Ok(())
}

/// Finds an append that was done before, at this place, in the tail or in a group.
fn find_batch(
    connection: &Connection,
    id: i64,
    after: u64,
    batch: BatchId,
) -> Result<Option<Appended>, Failure> {
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
    Ok(found.map(|it| Appended { first, last: after.saturating_add(it.count) }))
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
