//! Bursts: appends to many sessions in one row.
//!
//! Each session's tail has pages of its own. If hundreds of sessions append at once, a commit would
//! write hundreds of pages, each for one short row. So their rows are written together, and moved to
//! the tails later, when each session has more to move.
//!
//! While there is a burst, all appends go into bursts: records in bursts always come after those in
//! the tails.

use std::collections::{BTreeMap, HashMap};

use rusqlite::{Connection, params};
use threadfold_store::pack::{DirectoryEntry, merge_rows, pack_directory, unpack_directory};

use threadfold_fold::Timestamp;

use crate::append::insert_row;
use crate::cache::TailSize;
use crate::failure::Failure;

/// From this many appends in one commit on, they form a burst.
const MANY: usize = 16;
/// With this many bursts, they are moved to the tails.
pub(crate) const MOST: u64 = 64;

/// A row that is written at the end of its group.
pub(crate) struct PendingRow {
    pub(crate) session: i64,
    pub(crate) first: u64,
    pub(crate) count: u64,
    pub(crate) latest: Timestamp,
    pub(crate) row: Vec<u8>,
}

pub(crate) fn count(connection: &Connection) -> Result<u64, Failure> {
    let count = connection
        .prepare_cached("SELECT count(*) FROM packed_bursts")?
        .query_row([], |row| row.get(0))?;
    Ok(count)
}

/// Writes the rows of a group; `bursts` counts the existing bursts.
pub(crate) fn write(
    connection: &Connection,
    rows: Vec<PendingRow>,
    bursts: &mut u64,
) -> Result<(), Failure> {
    if *bursts == 0 && rows.len() < MANY {
        for PendingRow { session, first, count, latest, row } in rows {
            insert_row(connection, session, first, count, latest, &row)?;
        }
        return Ok(());
    }
    let mut entries = Vec::with_capacity(rows.len());
    let mut data = Vec::with_capacity(rows.iter().map(|it| it.row.len()).sum());
    for PendingRow { session, first, count, latest, row } in rows {
        let range = data.len()..data.len() + row.len();
        data.extend(row);
        entries.push(DirectoryEntry {
            session: session.cast_unsigned(),
            first,
            count,
            latest,
            range,
        });
    }
    connection
        .prepare_cached("INSERT INTO packed_bursts (directory, data) VALUES (?1, ?2)")?
        .execute(params![pack_directory(&entries), data])?;
    *bursts += 1;
    Ok(())
}

/// Calls `visit` with each row in bursts, in order, and with a function that returns its bytes.
pub(crate) fn each(
    connection: &Connection,
    mut visit: impl FnMut(&DirectoryEntry, &dyn Fn() -> Result<Vec<u8>, Failure>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut statement =
        connection.prepare_cached("SELECT directory, data FROM packed_bursts ORDER BY id")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let entries = unpack_directory(row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?)?;
        for entry in &entries {
            visit(entry, &|| {
                let data = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
                let row = data.get(entry.range.clone());
                let row = row.ok_or_else(|| Failure::Corrupt("a burst is truncated".to_owned()))?;
                Ok(row.to_vec())
            })?;
        }
    }
    Ok(())
}

/// The records of one session in bursts.
#[derive(Debug, Default)]
pub(crate) struct BurstShare {
    /// The last record, and when it was received.
    pub(crate) last: u64,
    pub(crate) latest: i64,
    pub(crate) size: TailSize,
}

/// Returns the share of each session that has records in bursts.
pub(crate) fn shares(connection: &Connection) -> Result<BTreeMap<i64, BurstShare>, Failure> {
    let mut shares: BTreeMap<i64, BurstShare> = BTreeMap::new();
    each(connection, |entry, _| {
        let share = shares.entry(entry.session.cast_signed()).or_default();
        share.last = entry.last();
        share.latest = entry.latest.0;
        share.size.rows += 1;
        share.size.bytes += entry.range.len() as u64;
        Ok(())
    })?;
    Ok(shares)
}

/// How a session's rows changed in size when they moved from bursts to its tail.
#[derive(Debug)]
pub(crate) struct Redistribution {
    /// Their size in the bursts.
    pub(crate) from: TailSize,
    /// Their size in the tail.
    pub(crate) to: TailSize,
}

/// Moves all bursts to the tails, as one row per session.
pub(crate) fn distribute(connection: &Connection) -> Result<HashMap<i64, Redistribution>, Failure> {
    let mut sessions: BTreeMap<i64, Vec<(DirectoryEntry, Vec<u8>)>> = BTreeMap::new();
    each(connection, |entry, data| {
        let rows = sessions.entry(entry.session.cast_signed()).or_default();
        rows.push((entry.clone(), data()?));
        Ok(())
    })?;
    // Everything is unpacked before anything is written: a corrupt burst must not leave half a move.
    let mut merged = Vec::new();
    for (session, rows) in &sessions {
        let parts: Vec<(u64, &[u8])> =
            rows.iter().map(|(entry, row)| (entry.first, row.as_slice())).collect();
        if let (Some((first, _)), Some((last, _))) = (rows.first(), rows.last()) {
            let bytes = parts.iter().map(|(_, row)| row.len() as u64).sum();
            let from = TailSize { rows: parts.len() as u64, bytes };
            merged.push((*session, first.first, last, from, merge_rows(&parts)?));
        }
    }
    let mut moved = HashMap::with_capacity(merged.len());
    for (session, first, last, from, row) in merged {
        insert_row(connection, session, first, last.last() + 1 - first, last.latest, &row)?;
        let to = TailSize { rows: 1, bytes: row.len() as u64 };
        moved.insert(session, Redistribution { from, to });
    }
    connection.prepare_cached("DELETE FROM packed_bursts")?.execute([])?;
    Ok(moved)
}
