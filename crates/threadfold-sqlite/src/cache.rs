//! What the writer remembers of sessions, so that an append writes one row and reads none.
//!
//! It holds as long as nobody else wrote to the file, which SQLite tells.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension};
use threadfold_core::SessionId;

use crate::bursts::{self, Redistribution};
use crate::failure::Failure;
use crate::schema::{first_of, last_place, place};
use threadfold_store::StoreError;
use threadfold_store::{Epoch, Holder};

/// How many sessions are remembered; with more, all are looked up again.
const MOST: usize = 8192;

/// What is known of a session.
#[derive(Clone, Debug)]
pub(crate) struct CachedSession {
    pub(crate) id: i64,
    pub(crate) epoch: Epoch,
    pub(crate) holder: Option<Holder>,
    /// Its last record.
    pub(crate) head: u64,
    /// How much of it is in the tail and in bursts.
    pub(crate) tail: TailSize,
}

/// How much of a session is not in groups yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TailSize {
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
}

/// What the writer remembers.
#[derive(Debug, Default)]
pub(crate) struct SessionCache {
    sessions: HashMap<SessionId, CachedSession>,
    version: Option<i64>,
    /// How many bursts there are.
    pub(crate) bursts: u64,
}

impl SessionCache {
    /// Forgets everything if another has written since.
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

    /// Forgets everything: what was remembered may not have happened.
    pub(crate) fn forget_all(&mut self) {
        *self = Self::default();
    }

    /// Remembers that bursts were moved to the tails.
    pub(crate) fn settled(&mut self, moved: &HashMap<i64, Redistribution>) {
        self.bursts = 0;
        for known in self.sessions.values_mut() {
            if let Some(Redistribution { from, to }) = moved.get(&known.id) {
                known.tail.rows = (known.tail.rows + to.rows).saturating_sub(from.rows);
                known.tail.bytes = (known.tail.bytes + to.bytes).saturating_sub(from.bytes);
            }
        }
    }

    pub(crate) fn forget(&mut self, session: &SessionId) {
        self.sessions.remove(session);
    }

    /// Returns what is known of a session; refused if there is none.
    pub(crate) fn session(
        &mut self,
        connection: &Connection,
        session: &SessionId,
    ) -> Result<&mut CachedSession, Failure> {
        if !self.sessions.contains_key(session) {
            let known = look_up(connection, session)?;
            self.sessions.insert(session.clone(), known);
        }
        let known = self.sessions.get_mut(session);
        known.ok_or_else(|| StoreError::NotFound { session: session.clone() }.into())
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
    let head = match bursts::parts(connection)?.get(&id) {
        Some(part) => {
            tail.rows += part.size.rows;
            tail.bytes += part.size.bytes;
            part.last
        }
        None => settled_head(connection, id)?.0,
    };
    Ok(CachedSession { id, epoch: Epoch(epoch), holder, head, tail })
}

/// Returns who holds a lease, as the table has it.
pub(crate) fn parse_holder(json: &str) -> Result<Holder, Failure> {
    serde_json::from_str(json).map_err(|_| Failure::Corrupt("a lease's holder is no JSON".into()))
}

/// Returns the last record of a session and when it was received; 0 if there is none.
pub(crate) fn head(connection: &Connection, id: i64) -> Result<(u64, Option<i64>), Failure> {
    if let Some(part) = bursts::parts(connection)?.get(&id) {
        return Ok((part.last, Some(part.latest)));
    }
    settled_head(connection, id)
}

/// Returns the same of what is in no burst.
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

fn tail_size(connection: &Connection, id: i64) -> Result<TailSize, Failure> {
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
