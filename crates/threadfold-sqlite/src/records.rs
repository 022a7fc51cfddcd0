//! Reads a log: groups, then the tail, then bursts.

use rusqlite::{Connection, OptionalExtension};
use threadfold_core::SessionId;
use threadfold_fold::StoredRecord;
use threadfold_store::Limit;
use threadfold_store::pack::{PackedGroup, ReadProgress, unpack, unpack_row};

use crate::blobs;
use crate::bursts;
use crate::failure::Failure;
use crate::schema::{first_of, last_place, place};
use crate::sessions::session_id;

/// Returns records after `after`, within the limit, but at least one if there is one.
pub(crate) fn read(
    connection: &Connection,
    session: &SessionId,
    after: u64,
    limit: Limit,
) -> Result<Vec<StoredRecord>, Failure> {
    let id = session_id(connection, session)?;
    let mut wanted = ReadProgress::new(after, limit);
    if wanted.next() > first_of(last_place(id)) {
        return Ok(Vec::new());
    }
    read_groups(connection, session, id, &mut wanted)?;
    read_tail(connection, id, &mut wanted)?;
    read_bursts(connection, id, &mut wanted)?;
    Ok(wanted.into_records())
}

/// Returns the key of the row that contains a record; if the table has none, the start of the
/// session's rows.
fn start(connection: &Connection, sql: &str, id: i64, next: u64) -> Result<i64, Failure> {
    let found: Option<i64> = connection
        .prepare_cached(sql)?
        .query_row([place(id, 0), place(id, next)], |row| row.get(0))
        .optional()?;
    Ok(found.unwrap_or_else(|| place(id, 0)))
}

fn read_groups(
    connection: &Connection,
    session: &SessionId,
    id: i64,
    wanted: &mut ReadProgress,
) -> Result<(), Failure> {
    let before = "SELECT place FROM groups WHERE place BETWEEN ?1 AND ?2
                  ORDER BY place DESC LIMIT 1";
    let start = start(connection, before, id, wanted.next())?;
    let mut statement = connection.prepare_cached(
        "SELECT place, count, meta, blob FROM groups WHERE place BETWEEN ?1 AND ?2 ORDER BY place",
    )?;
    let mut rows = statement.query([start, last_place(id)])?;
    while !wanted.is_done()
        && let Some(row) = rows.next()?
    {
        let first = first_of(row.get(0)?);
        let count: u64 = row.get(1)?;
        if first.saturating_add(count) <= wanted.next() {
            continue;
        }
        let meta = row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?;
        let (hash, content) = blobs::read_by_id(connection, row.get(3)?)?;
        let packed = PackedGroup {
            session: session.as_str(),
            first,
            count,
            meta,
            hash: &hash,
            content: &content,
        };
        let records = unpack(&packed, |hash| {
            blobs::read(connection, hash)?
                .ok_or_else(|| Failure::Corrupt(format!("blob {hash} is missing")))
        })
        .map_err(|stop| in_session(stop, session, first))?;
        wanted.take(records)?;
    }
    Ok(())
}

fn read_tail(connection: &Connection, id: i64, wanted: &mut ReadProgress) -> Result<(), Failure> {
    let before = "SELECT place FROM tail WHERE place BETWEEN ?1 AND ?2
                  ORDER BY place DESC LIMIT 1";
    let start = start(connection, before, id, wanted.next())?;
    let mut statement = connection.prepare_cached(
        "SELECT place, count, data FROM tail WHERE place BETWEEN ?1 AND ?2 ORDER BY place",
    )?;
    let mut rows = statement.query([start, last_place(id)])?;
    while !wanted.is_done()
        && let Some(row) = rows.next()?
    {
        let first = first_of(row.get(0)?);
        let data = row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?;
        let (_, records) = unpack_row(first, row.get(1)?, data)?;
        wanted.take(records)?;
    }
    Ok(())
}

fn read_bursts(connection: &Connection, id: i64, wanted: &mut ReadProgress) -> Result<(), Failure> {
    bursts::each(connection, |entry, data| {
        let is_ours = entry.session.cast_signed() == id;
        if is_ours && entry.last() >= wanted.next() && !wanted.is_done() {
            let (_, records) = unpack_row(entry.first, entry.count, &data()?)?;
            wanted.take(records)?;
        }
        Ok(())
    })
}

/// Adds the place of corruption to its description.
fn in_session(stop: Failure, session: &SessionId, first: u64) -> Failure {
    match stop {
        Failure::Corrupt(what) => {
            Failure::Corrupt(format!("session `{session}`, group of record {first}: {what}"))
        }
        other => other,
    }
}
