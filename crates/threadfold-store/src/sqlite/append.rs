//! Adding records: one row an append.

use rusqlite::{Connection, OptionalExtension, params};
use threadfold_core::SessionId;

use super::bursts::PendingRow;
use super::fault::Stop;
use super::known::Known;
use super::schema::{first_of, most_records, place};
use super::seal::{LONG_TAIL, TailRow, replace_tail, tail_rows};
use super::writer::Ledger;
use crate::error::StoreError;
use crate::lease::Epoch;
use crate::log::{Append, Appended, BatchId};
use crate::pack::{Batch, batches, pack_row, unpack_row};
use crate::record::Timestamp;

/// An append, with what can be done before the writer's turn.
pub(super) struct PreparedAppend {
    append: Append,
    latest: Timestamp,
    /// The row of the tail; nothing if it is too large for one.
    row: Option<Vec<u8>>,
}

impl PreparedAppend {
    pub(super) fn new(append: Append) -> Self {
        let latest = append.records.last().map_or(Timestamp(0), |record| record.received);
        let size: u64 = append.records.iter().map(|record| record.bytes.len() as u64).sum();
        let first = append.after.saturating_add(1);
        let row = (size < LONG_TAIL.bytes)
            .then(|| pack_row(first, &[batch_of(&append, first)], &append.records));
        Self { append, latest, row }
    }
}

fn batch_of(append: &Append, first: u64) -> Batch {
    Batch { id: append.batch, first, count: append.records.len() as u64 }
}

pub(super) fn append(ledger: &mut Ledger<'_>, prepared: PreparedAppend) -> Result<Appended, Stop> {
    let PreparedAppend { append, latest, row } = prepared;
    let session = &append.session;
    let known = ledger.memory.session(ledger.connection, session)?;
    if append.after < known.head {
        let id = known.id;
        ledger.settle()?;
        if let Some(appended) = find_batch(ledger.connection, id, append.after, append.batch)? {
            return Ok(appended);
        }
    }
    let known = ledger.memory.session(ledger.connection, session)?;
    check_epoch(session, known, append.epoch)?;
    check_place(&append, known.head)?;
    let count = append.records.len() as u64;
    let first = known.head + 1;
    let appended = Appended { first, last: known.head + count };
    if count == 0 {
        return Ok(appended);
    }
    if let Some(row) = row {
        known.tail.rows += 1;
        known.tail.bytes += row.len() as u64;
        known.head = appended.last;
        ledger.seals.consider(session, known);
        ledger.rows.push(PendingRow { session: known.id, first, count, latest, row });
    } else {
        let id = known.id;
        ledger.settle()?;
        let mut rows = tail_rows(ledger.connection, id)?;
        let batches = vec![batch_of(&append, first)];
        rows.push(TailRow { first, batches, is_stored: false, records: append.records });
        let tail = replace_tail(ledger.connection, session, id, rows)?;
        let known = ledger.memory.session(ledger.connection, session)?;
        known.tail = tail;
        known.head = appended.last;
    }
    ledger.grown.push(session.clone());
    Ok(appended)
}

pub(super) fn insert_row(
    connection: &Connection,
    id: i64,
    first: u64,
    count: u64,
    latest: Timestamp,
    row: &[u8],
) -> Result<(), Stop> {
    connection
        .prepare_cached("INSERT INTO tail (place, count, latest, data) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![place(id, first), count, latest.0, row])?;
    Ok(())
}

/// Refuses whoever does not hold the latest lease.
pub(super) fn check_epoch(session: &SessionId, known: &Known, ours: Epoch) -> Result<(), Stop> {
    if ours == known.epoch {
        return Ok(());
    }
    let holder = Box::new(known.holder.clone().unwrap_or_default());
    let session = session.clone();
    Err(StoreError::Fenced { session, ours, current: known.epoch, holder }.into())
}

fn check_place(append: &Append, head: u64) -> Result<(), Stop> {
    if append.after != head {
        let (session, expected) = (append.session.clone(), append.after);
        return Err(StoreError::Conflict { session, expected, found: head }.into());
    }
    if append.records.len() as u64 > most_records() - head {
        return Err(StoreError::Unwritable {
            place: format!("session `{}`", append.session),
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
) -> Result<Option<Appended>, Stop> {
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

fn batches_in_group(connection: &Connection, id: i64, first: u64) -> Result<Vec<Batch>, Stop> {
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
