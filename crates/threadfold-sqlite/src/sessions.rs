//! Creates, lists and removes sessions.

use rusqlite::{Connection, OptionalExtension, Row, params};
use threadfold_core::SessionId;
use threadfold_fold::{LogId, Timestamp};
use threadfold_store::{Epoch, ListQuery, LogHead, SessionEntry, SessionPage, StoreError, Summary};

use crate::bursts;
use crate::cache;
use crate::failure::Failure;
use crate::leases;
use crate::schema::{last_place, place};
use crate::writer::Ledger;

pub(crate) fn create(
    ledger: &mut Ledger<'_>,
    session: &SessionId,
    log: &LogId,
) -> Result<LogHead, Failure> {
    let created = ledger
        .connection
        .prepare_cached(
            "INSERT INTO sessions (name, log, created, epoch)
             VALUES (?1, ?2, ?3, (SELECT epoch FROM removed))
             ON CONFLICT (name) DO NOTHING RETURNING epoch",
        )?
        .query_row(params![session.as_str(), log.as_str(), ledger.now.0], |row| row.get(0))
        .optional()?;
    if let Some(epoch) = created {
        ledger.changed.push(session.clone());
        return Ok(LogHead { log: log.clone(), seq: 0, epoch: Epoch(epoch) });
    }
    // Appends of the same group may still wait to be written, and belong to the head.
    ledger.write_rows()?;
    head(ledger.connection, session)?
        .ok_or_else(|| StoreError::NotFound { session: session.clone() }.into())
}

pub(crate) fn head(
    connection: &Connection,
    session: &SessionId,
) -> Result<Option<LogHead>, Failure> {
    let found = connection
        .prepare_cached("SELECT id, log, epoch FROM sessions WHERE name = ?1")?
        .query_row([session.as_str()], |row| {
            Ok((row.get(0)?, row.get::<_, String>(1)?, row.get(2)?))
        })
        .optional()?;
    let Some((id, log, epoch)) = found else { return Ok(None) };
    let (seq, _) = cache::head(connection, id)?;
    Ok(Some(LogHead { log: LogId::from(log), seq, epoch: Epoch(epoch) }))
}

/// Returns the row id of a session; refused if there is no such session.
pub(crate) fn session_id(connection: &Connection, session: &SessionId) -> Result<i64, Failure> {
    let found = connection
        .prepare_cached("SELECT id FROM sessions WHERE name = ?1")?
        .query_row([session.as_str()], |row| row.get(0))
        .optional()?;
    found.ok_or_else(|| StoreError::NotFound { session: session.clone() }.into())
}

pub(crate) fn entry(
    connection: &Connection,
    session: &SessionId,
    now: Timestamp,
) -> Result<Option<SessionEntry>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT id, name, log, created, epoch, holder, lease_until,
                summary_generation, summary_seq, summary
         FROM sessions WHERE name = ?1",
    )?;
    let mut rows = statement.query([session.as_str()])?;
    match rows.next()? {
        Some(row) => {
            let head = cache::head(connection, row.get(0)?)?;
            read_entry(row, head, now).map(Some)
        }
        None => Ok(None),
    }
}

pub(crate) fn list(
    connection: &Connection,
    query: &ListQuery,
    now: Timestamp,
) -> Result<SessionPage, Failure> {
    // Whichever is later; every id with the prefix is at or after the prefix itself. SQLite and
    // Rust both compare text by its bytes.
    let (sql, start) = match &query.after {
        Some(after) if after.as_str() >= query.prefix.as_str() => (
            "SELECT id, name, log, created, epoch, holder, lease_until,
                    summary_generation, summary_seq, summary
             FROM sessions WHERE name > ?1 ORDER BY name LIMIT ?2",
            after.as_str(),
        ),
        _ => (
            "SELECT id, name, log, created, epoch, holder, lease_until,
                    summary_generation, summary_seq, summary
             FROM sessions WHERE name >= ?1 ORDER BY name LIMIT ?2",
            query.prefix.as_str(),
        ),
    };
    let limit = query.limit.max(1);
    let one_more = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params![start, one_more])?;
    let in_bursts = bursts::shares(connection)?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        let name = row.get_ref(1)?.as_bytes().map_err(rusqlite::Error::from)?;
        if !name.starts_with(query.prefix.as_bytes()) {
            break;
        }
        let id = row.get(0)?;
        let head = match in_bursts.get(&id) {
            Some(share) => (share.last, Some(share.latest)),
            None => cache::settled_head(connection, id)?,
        };
        entries.push(read_entry(row, head, now)?);
    }
    Ok(SessionPage::cut(entries, limit))
}

fn read_entry(
    row: &Row<'_>,
    (seq, latest): (u64, Option<i64>),
    now: Timestamp,
) -> Result<SessionEntry, Failure> {
    let created = row.get(3)?;
    let epoch = Epoch(row.get(4)?);
    let summary = match (row.get(7)?, row.get::<_, Option<i64>>(8)?, row.get(9)?) {
        (Some(generation), Some(seq), Some(json)) => {
            Some(Summary { generation, seq: seq.cast_unsigned(), json })
        }
        _ => None,
    };
    Ok(SessionEntry {
        session: SessionId::from(row.get::<_, String>(1)?.as_str()),
        head: LogHead { log: LogId::from(row.get::<_, String>(2)?), seq, epoch },
        created: Timestamp(created),
        updated: Timestamp(latest.unwrap_or(created)),
        lease: leases::parse(epoch, row.get(5)?, row.get(6)?, now)?,
        summary,
    })
}

pub(crate) fn put_summary(
    ledger: &mut Ledger<'_>,
    session: &SessionId,
    log: &LogId,
    summary: &Summary,
) -> Result<(), Failure> {
    let id = session_id(ledger.connection, session)?;
    let (found, generation, seq): (String, Option<u32>, Option<i64>) = ledger
        .connection
        .prepare_cached("SELECT log, summary_generation, summary_seq FROM sessions WHERE id = ?1")?
        .query_row([id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let stored = generation.zip(seq.map(i64::cast_unsigned));
    let is_late = stored.is_some_and(|(generation, seq)| !summary.replaces(generation, seq));
    if found != log.as_str() || is_late {
        return Ok(());
    }
    ledger
        .connection
        .prepare_cached(
            "UPDATE sessions SET summary_generation = ?2, summary_seq = ?3, summary = ?4
             WHERE id = ?1",
        )?
        .execute(params![id, summary.generation, summary.seq.cast_signed(), summary.json])?;
    Ok(())
}

pub(crate) fn remove(ledger: &mut Ledger<'_>, session: &SessionId) -> Result<(), Failure> {
    let id = session_id(ledger.connection, session)?;
    leases::check_free(ledger.connection, session, ledger.now, None)?;
    // A burst has rows of several sessions: in the tails, this session's can be deleted alone.
    ledger.settle()?;
    ledger.cache.forget(session);
    for delete in ["DELETE FROM tail", "DELETE FROM groups"] {
        ledger
            .connection
            .prepare_cached(&format!("{delete} WHERE place BETWEEN ?1 AND ?2"))?
            .execute([place(id, 0), last_place(id)])?;
    }
    for change in [
        "UPDATE removed
         SET epoch = max(epoch, 1 + (SELECT epoch FROM sessions WHERE id = ?1))",
        "DELETE FROM snapshot_chunks
         WHERE snapshot IN (SELECT id FROM snapshots WHERE session = ?1)",
        "DELETE FROM snapshots WHERE session = ?1",
        "DELETE FROM blob_refs WHERE session = ?1",
        "DELETE FROM sessions WHERE id = ?1",
    ] {
        ledger.connection.prepare_cached(change)?.execute([id])?;
    }
    ledger.changed.push(session.clone());
    Ok(())
}
