//! Adding records: one row an append.

use rusqlite::{Connection, OptionalExtension, params};
use threadfold_core::SessionId;

use super::fault::Stop;
use super::known::Known;
use super::schema::{first_of, most_records, place};
use super::seal::{LONG_TAIL, TailRow, replace_tail, tail_rows};
use super::writer::Ledger;
use crate::error::StoreError;
use crate::lease::Epoch;
use crate::log::{Append, Appended, BatchId};
use crate::pack::{batches, pack_row};
use crate::record::Timestamp;

/// An append, with what can be done before the writer's turn.
pub(super) struct PreparedAppend {
    append: Append,
    latest: Timestamp,
    size: u64,
    /// The row of the tail; nothing if it is too large for one.
    row: Option<Vec<u8>>,
}

impl PreparedAppend {
    pub(super) fn new(append: Append) -> Self {
        let latest = append.records.last().map_or(Timestamp(0), |record| record.received);
        let size = append.records.iter().map(|record| record.bytes.len() as u64).sum();
        let row = (size < LONG_TAIL.bytes)
            .then(|| pack_row(append.after.saturating_add(1), &append.records));
        Self { append, latest, size, row }
    }
}

pub(super) fn append(ledger: &mut Ledger<'_>, prepared: PreparedAppend) -> Result<Appended, Stop> {
    let PreparedAppend { append, latest, size, row } = prepared;
    let session = &append.session;
    let known = ledger.memory.session(ledger.connection, session)?;
    if append.after < known.head
        && let Some(appended) = find_batch(ledger.connection, known.id, append.after, append.batch)?
    {
        return Ok(appended);
    }
    check_epoch(session, known, append.epoch)?;
    check_place(&append, known.head)?;
    let count = append.records.len() as u64;
    let first = known.head + 1;
    let appended = Appended { first, last: known.head + count };
    if count == 0 {
        return Ok(appended);
    }
    match row {
        Some(row) => {
            known.tail.rows += 1;
            known.tail.bytes += row.len() as u64;
            insert_row(
                ledger.connection,
                known.id,
                first,
                count,
                latest,
                Some(append.batch),
                &row,
            )?;
        }
        None => {
            let mut rows = tail_rows(ledger.connection, known.id)?;
            let batch = Some(append.batch);
            rows.push(TailRow { first, batch, is_stored: false, records: append.records });
            known.tail = replace_tail(ledger.connection, session, known.id, rows)?;
        }
    }
    known.head = appended.last;
    ledger.seals.consider(session, known, size);
    ledger.grown.push(session.clone());
    Ok(appended)
}

pub(super) fn insert_row(
    connection: &Connection,
    id: i64,
    first: u64,
    count: u64,
    latest: Timestamp,
    batch: Option<BatchId>,
    row: &[u8],
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO tail (place, count, latest, batch, data) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![place(id, first), count, latest.0, batch.map(|it| it.0), row])?;
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
    let appended = |count: u64| Appended { first, last: after.saturating_add(count) };
    let in_tail = connection
        .prepare_cached("SELECT count FROM tail WHERE place = ?1 AND batch = ?2")?
        .query_row(params![place(id, first), batch.0], |row| row.get(0))
        .optional()?;
    if let Some(count) = in_tail {
        return Ok(Some(appended(count)));
    }
    let group = connection
        .prepare_cached(
            "SELECT place, meta FROM groups WHERE place BETWEEN ?1 AND ?2
             ORDER BY place DESC LIMIT 1",
        )?
        .query_row([place(id, 0), place(id, first)], |row| {
            Ok((row.get(0)?, row.get::<_, Vec<u8>>(1)?))
        })
        .optional()?;
    let Some((group, meta)) = group else { return Ok(None) };
    let found =
        batches(&meta, first_of(group))?.into_iter().find(|it| it.first == first && it.id == batch);
    Ok(found.map(|it| appended(it.count)))
}
