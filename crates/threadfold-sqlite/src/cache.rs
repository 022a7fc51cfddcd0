//! The writer's cache of sessions, so that an append writes one row and reads none.
//!
//! It is valid until another process writes to the file, which SQLite reports.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension};
use threadfold_core::SessionId;
use threadfold_store::{Epoch, Holder, StoreError};

use crate::bursts::{self, Redistribution};
use crate::failure::Failure;
use crate::schema::{first_of, last_place, place};

/// The maximum number of cached sessions; beyond it, the cache is cleared.
const MOST: usize = 8192;

/// A session, as the writer last saw it.
#[derive(Clone, Debug)]
pub(crate) struct CachedSession {
    pub(crate) id: i64,
    pub(crate) epoch: Epoch,
    pub(crate) holder: Option<Holder>,
    /// Its last record.
    pub(crate) head: u64,
    /// The size of its tail, including its share of bursts.
    pub(crate) tail: TailSize,
}

/// How much of a session is not in groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TailSize {
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
}

/// The cache.
#[derive(Debug, Default)]
pub(crate) struct SessionCache {
    sessions: HashMap<SessionId, CachedSession>,
    version: Option<i64>,
    /// How many bursts exist.
    pub(crate) bursts: u64,
}

impl SessionCache {
    /// Empties the cache if another process has written since the last group.
    pub(crate) fn refresh(&mut self, connection: &Connection) -> Result<(), Failure> {
        let version: i64 =
            connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if self.version != Some(version) || self.sessions.len() > MOST {
            self.sessions.clear();
            self.bursts = bursts::count(connection)?;
        }
        self.version = Some(version);
        Ok(())
    }

    /// Empties the cache after a rollback: it may contain what was rolled back.
    pub(crate) fn forget_all(&mut self) {
        *self = Self::default();
    }

    /// Updates the tail sizes after all bursts were moved to the tails.
    pub(crate) fn settled(&mut self, moved: &HashMap<i64, Redistribution>) {
        self.bursts = 0;
        for cached in self.sessions.values_mut() {
            if let Some(Redistribution { from, to }) = moved.get(&cached.id) {
                cached.tail.rows = (cached.tail.rows + to.rows).saturating_sub(from.rows);
                cached.tail.bytes = (cached.tail.bytes + to.bytes).saturating_sub(from.bytes);
            }
        }
    }

    pub(crate) fn forget(&mut self, session: &SessionId) {
        self.sessions.remove(session);
    }

    /// Returns a session; refused if there is no such session.
    pub(crate) fn session(
        &mut self,
        connection: &Connection,
        session: &SessionId,
    ) -> Result<&mut CachedSession, Failure> {
        if !self.sessions.contains_key(session) {
            let cached = look_up(connection, session)?;
            self.sessions.insert(session.clone(), cached);
        }
        let cached = self.sessions.get_mut(session);
        cached.ok_or_else(|| StoreError::NotFound { session: session.clone() }.into())
    }
}

fn look_up(connection: &Connection, session: &SessionId) -> Result<CachedSession, Failure> {
    let found = connection
        .prepare_cached("SELECT id, epoch, holder FROM sessions WHERE name = ?1")?
        .query_row([session.as_str()], |row| {
            Ok((row.get(0)?, row.get::<_, u64>(1)?, row.get::<_, Option<String>>(2)?))
        })
        .optional()?;
    let Some((id, epoch, holder)) = found else {
        return Err(StoreError::NotFound { session: session.clone() }.into());
    };
    let holder = holder.as_deref().map(parse_holder).transpose()?;
    let mut tail = tail_size(connection, id)?;
    let head = match bursts::shares(connection)?.get(&id) {
        Some(share) => {
            tail.rows += share.size.rows;
            tail.bytes += share.size.bytes;
            share.last
        }
        None => settled_head(connection, id)?.0,
    };
    Ok(CachedSession { id, epoch: Epoch(epoch), holder, head, tail })
}

/// Parses the holder of a lease.
pub(crate) fn parse_holder(json: &str) -> Result<Holder, Failure> {
    serde_json::from_str(json)
        .map_err(|_| Failure::Corrupt("the holder of a lease is not JSON".into()))
}

/// Returns the last record of a session, or 0, and when it was received.
pub(crate) fn head(connection: &Connection, id: i64) -> Result<(u64, Option<i64>), Failure> {
    if let Some(share) = bursts::shares(connection)?.get(&id) {
        return Ok((share.last, Some(share.latest)));
    }
    settled_head(connection, id)
}

/// Returns the same as [`head`] for a session that has no records in bursts.
pub(crate) fn settled_head(
    connection: &Connection,
    id: i64,
) -> Result<(u64, Option<i64>), Failure> {
    for last_row in [
        "SELECT place, count, latest FROM tail WHERE place BETWEEN ?1 AND ?2
         ORDER BY place DESC LIMIT 1",
        "SELECT place, count, latest FROM groups WHERE place BETWEEN ?1 AND ?2
         ORDER BY place DESC LIMIT 1",
    ] {
        let found = connection
            .prepare_cached(last_row)?
            .query_row([place(id, 0), last_place(id)], |row| {
                Ok((row.get(0)?, row.get::<_, u64>(1)?, row.get(2)?))
            })
            .optional()?;
        if let Some((place, count, latest)) = found {
            let last = first_of(place).saturating_add(count).saturating_sub(1);
            return Ok((last, Some(latest)));
        }
    }
    Ok((0, None))
}

/// Returns the size of a session's tail, without its share of bursts.
pub(crate) fn tail_size(connection: &Connection, id: i64) -> Result<TailSize, Failure> {
    let size = connection
        .prepare_cached(
            "SELECT count(*), coalesce(sum(length(data)), 0) FROM tail
             WHERE place BETWEEN ?1 AND ?2",
        )?
        .query_row([place(id, 0), last_place(id)], |row| {
            Ok(TailSize { rows: row.get(0)?, bytes: row.get(1)? })
        })?;
    Ok(size)
}
