//! From the tail, which is quick to write, into groups, which are small and shared.

use std::collections::{BTreeSet, HashMap};

use rusqlite::{Connection, params};
use threadfold_core::SessionId;

use crate::append::insert_row;
use crate::blobs::{Content, keep, refer};
use crate::cache::{CachedSession, SessionCache, TailSize};
use crate::failure::Failure;
use crate::schema::{first_of, last_place, place};
use threadfold_store::pack::{Batch, Group, Packer, pack_row, unpack_row};
use threadfold_store::{NewRecord, StoredRecord};

/// A tail of this size is made into groups.
pub(crate) const LONG_TAIL: TailSize = TailSize { rows: 512, bytes: 256 << 10 };

/// Which tails became long.
#[derive(Debug, Default)]
pub(crate) struct CompactionQueue {
    due: BTreeSet<SessionId>,
    /// How large a tail was when no group ended in it; it is tried again when it has grown well.
    tried: HashMap<SessionId, TailSize>,
}

impl CompactionQueue {
    /// Remembers a session if its tail became long.
    pub(crate) fn consider(&mut self, session: &SessionId, known: &CachedSession) {
        let TailSize { rows, bytes } = known.tail;
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

    /// Returns some of those that became long.
    pub(crate) fn take(&mut self, count: usize) -> Vec<SessionId> {
        (0..count).map_while(|_| self.due.pop_first()).collect()
    }

    /// Makes groups of a session's tail, as far as groups end in it.
    pub(crate) fn seal(
        &mut self,
        connection: &Connection,
        cache: &mut SessionCache,
        session: &SessionId,
    ) -> Result<(), Failure> {
        let known = cache.session(connection, session)?;
        let rows = tail_rows(connection, known.id)?;
        let before = known.tail;
        known.tail = replace_tail(connection, session, known.id, rows)?;
        if known.tail == before {
            self.tried.insert(session.clone(), before);
        } else {
            self.tried.remove(session);
        }
        Ok(())
    }
}

/// The records of an append or several, or what is left of them.
pub(crate) struct TailRow {
    pub(crate) first: u64,
    /// The appends that begin in it.
    pub(crate) batches: Vec<Batch>,
    /// Whether it is in the table already.
    pub(crate) is_stored: bool,
    pub(crate) records: Vec<NewRecord>,
}

impl TailRow {
    fn last(&self) -> u64 {
        self.first + self.records.len() as u64 - 1
    }
}

/// Returns what is in a session's tail.
pub(crate) fn tail_rows(connection: &Connection, id: i64) -> Result<Vec<TailRow>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT place, count, data FROM tail WHERE place BETWEEN ?1 AND ?2 ORDER BY place",
    )?;
    let mut found = statement.query([place(id, 0), last_place(id)])?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        let first = first_of(row.get(0)?);
        let data = row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?;
        let (batches, records) = unpack_row(first, row.get(1)?, data)?;
        if records.is_empty() {
            return Err(Failure::Corrupt(format!("record {first} is an append of no records")));
        }
        let records = records.into_iter().map(as_new).collect();
        rows.push(TailRow { first, batches, is_stored: true, records });
    }
    Ok(rows)
}

fn as_new(record: StoredRecord) -> NewRecord {
    let StoredRecord { seq: _, kind, source, position, received, bytes } = record;
    NewRecord { kind, source, position, received, bytes }
}

/// Makes groups of `rows` as far as groups end in them, and keeps the rest as the tail.
pub(crate) fn replace_tail(
    connection: &Connection,
    session: &SessionId,
    id: i64,
    rows: Vec<TailRow>,
) -> Result<TailSize, Failure> {
    let mut sealed_until = 0;
    if let Some(first) = rows.first().map(|row| row.first) {
        let mut packer = Packer::new(session.as_str(), first);
        for row in &rows {
            let mut batches = row.batches.iter().peekable();
            for (record, seq) in row.records.iter().zip(row.first..) {
                if let Some(batch) = batches.next_if(|batch| batch.first == seq) {
                    packer.begin(*batch);
                }
                if let Some(group) = packer.push(record) {
                    sealed_until = group.last();
                    insert_group(connection, id, group)?;
                }
            }
        }
    }
    if sealed_until > 0 {
        connection
            .prepare_cached("DELETE FROM tail WHERE place BETWEEN ?1 AND ?2")?
            .execute([place(id, 0), place(id, sealed_until)])?;
    }
    let mut size = TailSize::default();
    for mut row in rows.into_iter().filter(|row| row.last() > sealed_until) {
        let is_cut = row.first <= sealed_until;
        if is_cut {
            let sealed = usize::try_from(sealed_until + 1 - row.first).unwrap_or(usize::MAX);
            row.records.drain(..sealed);
            row.first = sealed_until + 1;
            row.batches.retain(|batch| batch.first > sealed_until);
        }
        let data = pack_row(row.first, &row.batches, &row.records);
        size.rows += 1;
        size.bytes += data.len() as u64;
        if (is_cut || !row.is_stored)
            && let Some(latest) = row.records.last().map(|record| record.received)
        {
            let count = row.records.len() as u64;
            insert_row(connection, id, row.first, count, latest, &data)?;
        }
    }
    Ok(size)
}

fn insert_group(connection: &Connection, id: i64, group: Group) -> Result<(), Failure> {
    for extracts in &group.extracts {
        let blob = keep(connection, &Content::of(extracts.hash, &extracts.bytes))?;
        refer(connection, id, blob)?;
    }
    let content = keep(connection, &Content::of(group.hash, &group.content))?;
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
