//! Compacts tails, which are fast to write, into groups, which are small and deduplicated.

use std::collections::{BTreeSet, HashMap};

use rusqlite::{Connection, params};
use threadfold_core::SessionId;
use threadfold_fold::Timestamp;
use threadfold_store::pack::{CompressedGroup, TailRow, all_groups, complete_groups};

use crate::append::insert_row;
use crate::blobs::{keep, refer};
use crate::cache::{CachedSession, SessionCache, TailSize, tail_size};
use crate::failure::Failure;
use crate::schema::{first_of, last_place, place};

/// A tail of this size is compacted; the bytes are those that are stored.
pub(crate) const LONG_TAIL: TailSize = TailSize { rows: 512, bytes: 256 << 10 };

/// How many bytes of records are compacted at once: rows that compress well are many times as large
/// in memory as they are stored.
const MOST_BYTES: usize = 2 << 20;

/// The sessions whose tails became long.
#[derive(Debug, Default)]
pub(crate) struct CompactionQueue {
    due: BTreeSet<SessionId>,
    /// The size of tails in which no group ended; they are retried once they have grown noticeably.
    tried: HashMap<SessionId, TailSize>,
}

impl CompactionQueue {
    /// Queues a session if its tail is long.
    pub(crate) fn consider(&mut self, session: &SessionId, cached: &CachedSession) {
        let TailSize { rows, bytes } = cached.tail;
        let is_long = rows >= LONG_TAIL.rows || bytes >= LONG_TAIL.bytes;
        if !is_long {
            return;
        }
        let tried = self.tried.get(session).copied().unwrap_or_default();
        let has_shrunk = rows < tried.rows;
        if has_shrunk || rows >= tried.rows + LONG_TAIL.rows / 4 || bytes >= tried.bytes * 5 / 4 {
            self.due.insert(session.clone());
        }
    }

    pub(crate) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Removes up to `count` sessions from the queue.
    pub(crate) fn take(&mut self, count: usize) -> Vec<SessionId> {
        (0..count).map_while(|_| self.due.pop_first()).collect()
    }

    /// Packs a session's tail into groups, up to the end of the last complete group.
    pub(crate) fn compact(
        &mut self,
        connection: &Connection,
        now: Timestamp,
        cache: &mut SessionCache,
        session: &SessionId,
    ) -> Result<(), Failure> {
        let cached = cache.session(connection, session)?;
        let rows = tail_rows(connection, cached.id, MOST_BYTES)?;
        let before = cached.tail;
        replace_tail(connection, now, session, cached.id, rows)?;
        cached.tail = tail_size(connection, cached.id)?;
        if cached.tail == before {
            self.tried.insert(session.clone(), before);
        } else {
            self.tried.remove(session);
        }
        Ok(())
    }
}

/// Returns the first rows of a session's tail, until they have so many bytes of records.
fn tail_rows(connection: &Connection, id: i64, most: usize) -> Result<Vec<TailRow>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT place, count, data FROM tail WHERE place BETWEEN ?1 AND ?2 ORDER BY place",
    )?;
    let mut found = statement.query([place(id, 0), last_place(id)])?;
    let (mut rows, mut bytes) = (Vec::new(), 0);
    while bytes < most
        && let Some(row) = found.next()?
    {
        let data = row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?;
        let row = TailRow::unpack(first_of(row.get(0)?), row.get(1)?, data)?;
        bytes += row.records.iter().map(|it| it.bytes.len()).sum::<usize>();
        rows.push(row);
    }
    Ok(rows)
}

/// Packs the first rows of a tail into groups, up to the end of the last complete group.
fn replace_tail(
    connection: &Connection,
    now: Timestamp,
    session: &SessionId,
    id: i64,
    rows: Vec<TailRow>,
) -> Result<(), Failure> {
    let groups = complete_groups(session.as_str(), &rows);
    let packed_until = groups.last().map_or(0, CompressedGroup::last);
    for group in &groups {
        insert_group(connection, now, id, group)?;
    }
    if packed_until > 0 {
        delete_tail(connection, id, packed_until)?;
    }
    for row in rows.into_iter().filter(|row| row.first <= packed_until) {
        if let Some((rest, data)) = row.rest_after(packed_until) {
            let latest = rest.records.last().map_or(Timestamp(0), |record| record.received);
            let count = rest.records.len() as u64;
            insert_row(connection, id, rest.first, count, latest, &data)?;
        }
    }
    Ok(())
}

/// Packs a session's tail into groups, all of it.
pub(crate) fn group_tail(
    connection: &Connection,
    now: Timestamp,
    session: &SessionId,
    id: i64,
) -> Result<(), Failure> {
    let rows = tail_rows(connection, id, usize::MAX)?;
    let Some(last) = rows.last().map(TailRow::last) else { return Ok(()) };
    for group in all_groups(session.as_str(), &rows) {
        insert_group(connection, now, id, &group)?;
    }
    delete_tail(connection, id, last)
}

fn delete_tail(connection: &Connection, id: i64, until: u64) -> Result<(), Failure> {
    connection
        .prepare_cached("DELETE FROM tail WHERE place BETWEEN ?1 AND ?2")?
        .execute([place(id, 0), place(id, until)])?;
    Ok(())
}

pub(crate) fn insert_group(
    connection: &Connection,
    now: Timestamp,
    id: i64,
    group: &CompressedGroup,
) -> Result<(), Failure> {
    for extract in &group.extracts {
        refer(connection, id, keep(connection, now, extract)?)?;
    }
    let content = keep(connection, now, &group.content)?;
    connection
        .prepare_cached(
            "INSERT INTO groups (place, count, latest, meta, blob) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![
            place(id, group.first),
            group.count,
            group.latest.0,
            group.meta,
            content
        ])?;
    Ok(())
}
