//! OpenCode's database, read while OpenCode may be writing it.
//!
//! Nothing is written: not to the database, not to its write-ahead log, and not to its shared
//! memory. Rows are passed on as JSON objects; the converter interprets them.

mod columns;
mod connect;
mod follow;
mod newer;
mod progress;
mod session_rows;
mod unread;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use self::columns::row_json;
use self::connect::{Isolation, connect};

pub(crate) use self::follow::RowFollower;
pub(super) use self::session_rows::SessionRows;
pub(super) use self::unread::{foreign, unreadable};
use crate::agent_database::DatabaseError;

/// The last number read of each session's log.
pub(super) type LogRead = BTreeMap<String, i64>;

/// An open database. All reads see one consistent snapshot.
pub(super) struct OpencodeDb {
    connection: Connection,
    path: PathBuf,
    isolation: Isolation,
    tables: Vec<String>,
}

/// A session as the database lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DbSession {
    /// Its id.
    pub id: String,
    /// Its working directory.
    pub directory: String,
    /// When it last changed, in milliseconds.
    pub updated: Option<i64>,
}

type RowCallback<'a, E> = dyn FnMut(&str) -> Result<(), E> + 'a;

impl OpencodeDb {
    /// Opens a database for reading.
    pub(super) fn open(path: &Path) -> Result<Self, DatabaseError> {
        // Opening a pipe would block.
        let is_special = path.metadata().is_ok_and(|it| !it.is_file());
        let checked = match is_special {
            true => Err(rusqlite::Error::InvalidPath(path.to_owned())),
            false => connect(path),
        };
        let opened = checked.and_then(|(connection, isolation)| {
            let tables = connection
                .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")?
                .query_map([], |row| row.get(0))?
                .collect::<Result<Vec<String>, _>>()?;
            Ok((connection, isolation, tables))
        });
        let unreadable = |error| DatabaseError::unreadable(path, error);
        let (connection, isolation, tables) = opened.map_err(unreadable)?;
        let database = Self { connection, path: path.to_owned(), isolation, tables };
        if !database.has("session") && !database.has("session_v2") {
            let agent = threadfold_convert::opencode::AGENT.title();
            return Err(DatabaseError::Foreign { path: path.to_owned(), agent });
        }
        Ok(database)
    }

    fn has(&self, table: &str) -> bool {
        self.tables.iter().any(|it| it == table)
    }

    fn unreadable(&self, source: rusqlite::Error) -> DatabaseError {
        DatabaseError::unreadable(&self.path, source)
    }

    /// Returns the sessions without a parent, by id.
    pub(super) fn root_sessions(&self) -> Result<Vec<DbSession>, DatabaseError> {
        self.sessions("parent_id IS NULL OR parent_id NOT IN (SELECT id FROM everything)")
    }

    /// Returns the child sessions, by id.
    pub(super) fn child_sessions(&self) -> Result<Vec<DbSession>, DatabaseError> {
        self.sessions("parent_id IN (SELECT id FROM everything)")
    }

    fn sessions(&self, which: &str) -> Result<Vec<DbSession>, DatabaseError> {
        let query = format!(
            "WITH everything AS ({}) \
             SELECT id, directory, time_updated FROM everything WHERE {which} ORDER BY id",
            self.everything()
        );
        let rows = self.connection.prepare(&query).and_then(|mut found| {
            found
                .query_map([], |row| {
                    Ok(DbSession {
                        id: row.get(0)?,
                        directory: row.get::<_, Option<String>>(1)?.unwrap_or_default(),
                        updated: row.get(2)?,
                    })
                })?
                .collect()
        });
        rows.map_err(|error| self.unreadable(error))
    }

    /// Returns a query of all sessions: those of version 2, and those that only version 1 has.
    ///
    /// After an update, both versions have the same sessions under the same ids. The row of a
    /// session of version 2 does not change with its messages.
    fn everything(&self) -> String {
        let older = "SELECT id, parent_id, directory, time_updated FROM session";
        let newer = "SELECT id, parent_id, directory, max(time_updated, coalesce((\
                       SELECT max(time_updated) FROM session_message \
                       WHERE session_id = session_v2.id), 0)) AS time_updated FROM session_v2";
        match (self.has_newer(), self.has("session")) {
            (true, true) => {
                format!("{newer} UNION ALL {older} WHERE id NOT IN (SELECT id FROM session_v2)")
            }
            (true, false) => newer.to_owned(),
            (false, true) => older.to_owned(),
            // Its tables have other columns, which is reported.
            (false, false) => {
                "SELECT '' AS id, '' AS parent_id, '' AS directory, 0 AS time_updated WHERE 0"
                    .to_owned()
            }
        }
    }

    /// Fails if another process began to write while the database was read as immutable.
    fn check_stillness(&self) -> Result<(), DatabaseError> {
        self.isolation.check().map_err(|error| self.unreadable(error))
    }

    /// Returns a session and its descendants, parents first.
    pub(super) fn family(&self, id: &str) -> Result<Vec<String>, DatabaseError> {
        // The bound breaks cycles, which only a corrupt database has.
        let query = format!(
            "WITH RECURSIVE everything AS (SELECT id, parent_id FROM ({})), family(id, depth) AS (\
               SELECT id, 0 FROM everything WHERE id = ?1 \
               UNION SELECT everything.id, depth + 1 FROM everything \
               JOIN family ON everything.parent_id = family.id WHERE depth < 100) \
             SELECT id FROM family GROUP BY id ORDER BY min(depth), id DESC",
            self.everything()
        );
        let ids = self.connection.prepare(&query).and_then(|mut found| {
            found.query_map([id], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()
        });
        ids.map_err(|error| self.unreadable(error))
    }

    /// Returns the same, and fails if the session does not exist.
    pub(super) fn family_of(&self, id: &str) -> Result<Vec<String>, DatabaseError> {
        let family = self.family(id)?;
        match family.is_empty() {
            true => {
                let (path, session) = (self.path.clone(), id.to_owned());
                Err(DatabaseError::NoSession { path, session })
            }
            false => Ok(family),
        }
    }

    /// Returns whether the log covers all of these sessions from their beginning. For sessions that
    /// are older than the log, it has only the rest. Entries that were read before are not checked
    /// again, but the log must still have its beginning and what was read last: version 2 empties
    /// it, and version 1 then goes on with numbers that it has used before.
    fn is_covered_by_log(&self, family: &[String], read: &LogRead) -> Result<bool, DatabaseError> {
        if !self.has("message") || !self.has("part") {
            return Ok(true);
        }
        if !self.has("event") {
            return Ok(false);
        }
        let query = "SELECT count(*) > 0 AND max(seq) = count(*) - 1 \
                     AND sum(seq = 0 AND type LIKE 'session.created%') = 1 \
                     FROM event WHERE aggregate_id = ?1";
        let is_begun = "SELECT EXISTS (SELECT 1 FROM event WHERE aggregate_id = ?1) \
                        OR EXISTS (SELECT 1 FROM message WHERE session_id = ?1)";
        let ask = |query: &str, id: &String| {
            let answer = self.connection.query_row(query, [id], |row| row.get(0));
            let answer: Option<bool> = answer.map_err(|error| self.unreadable(error))?;
            Ok::<_, DatabaseError>(answer == Some(true))
        };
        let is_kept = "SELECT EXISTS (SELECT 1 FROM event WHERE aggregate_id = ?1 AND seq = 0) \
                       AND (SELECT max(seq) FROM event WHERE aggregate_id = ?1) >= ?2";
        for (id, last) in read.iter().filter(|(id, _)| family.contains(id)) {
            let kept = self.connection.query_row(is_kept, (id, last), |row| row.get(0));
            let kept: Option<bool> = kept.map_err(|error| self.unreadable(error))?;
            if kept != Some(true) {
                return Ok(false);
            }
        }
        let mut is_logged = !read.is_empty();
        for id in family.iter().filter(|id| !read.contains_key(*id)) {
            if ask(query, id)? {
                is_logged = true;
            } else if !is_logged || ask(is_begun, id)? {
                return Ok(false);
            }
            // Otherwise a child of a session in the log has not emitted anything yet.
        }
        Ok(true)
    }

    /// Passes on the log entries of these sessions after those already read, and updates `read`.
    pub(super) fn read_log<E: From<DatabaseError>>(
        &self,
        family: &[String],
        read: &mut LogRead,
        each: &mut RowCallback<'_, E>,
    ) -> Result<(), E> {
        if !self.has("event") {
            return Ok(());
        }
        let query = "SELECT * FROM event WHERE aggregate_id = ?1 AND seq > ?2 ORDER BY seq";
        for id in family {
            let after = read.get(id).copied().unwrap_or(-1);
            self.each_row(
                query,
                (id, after),
                &mut |row, names| {
                    read.insert(id.clone(), row.get("seq")?);
                    row_json(row, names)
                },
                each,
            )?;
        }
        Ok(())
    }

    /// Passes on a session's rows in a table that changed at this time or later.
    fn read_table<E: From<DatabaseError>>(
        &self,
        table: &str,
        session: &str,
        since: i64,
        each: &mut RowCallback<'_, E>,
    ) -> Result<(), E> {
        let key = if table == "session" { "id" } else { "session_id" };
        let query = match since {
            i64::MIN => format!("SELECT * FROM {table} WHERE {key} = ?1 AND ?2 < 0 ORDER BY id"),
            _ => {
                format!("SELECT * FROM {table} WHERE {key} = ?1 AND time_updated >= ?2 ORDER BY id")
            }
        };
        self.each_row(
            &query,
            (session, since),
            &mut |row, names| {
                Ok(format!(r#"{{"table":"{table}","row":{}}}"#, row_json(row, names)?))
            },
            each,
        )
    }

    fn each_row<E: From<DatabaseError>>(
        &self,
        query: &str,
        of: impl rusqlite::Params,
        make: &mut dyn FnMut(&rusqlite::Row<'_>, &[String]) -> rusqlite::Result<String>,
        each: &mut RowCallback<'_, E>,
    ) -> Result<(), E> {
        let failed = |error| E::from(self.unreadable(error));
        let mut found = self.connection.prepare(query).map_err(failed)?;
        let names: Vec<String> = found.column_names().into_iter().map(str::to_owned).collect();
        let mut rows = found.query(of).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            each(&make(row, &names).map_err(failed)?)?;
        }
        Ok(())
    }
}
