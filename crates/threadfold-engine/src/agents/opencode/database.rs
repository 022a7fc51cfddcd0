//! OpenCode's database, read while OpenCode may be writing it.
//!
//! Nothing is written: not to the database, not to its log, and not to the memory that its users
//! share. Rows are handed on as JSON objects; what they mean, the converter knows.

mod columns;
mod connect;
mod follow;
mod progress;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use self::columns::row_json;
use self::connect::{Stillness, connect};

pub(crate) use self::follow::RowFollower;
use crate::database::DatabaseError;

/// The last number that was read of each session's log.
pub(super) type LogRead = BTreeMap<String, i64>;

/// An open database. All that is read of it is as of one moment.
pub(super) struct OpencodeDb {
    connection: Connection,
    path: PathBuf,
    stillness: Stillness,
    tables: Vec<String>,
}

/// A session as the database lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DbSession {
    /// Its name.
    pub id: String,
    /// The folder that was worked in.
    pub directory: String,
    /// When it changed last, in milliseconds.
    pub updated: Option<i64>,
}

type Each<'a, E> = dyn FnMut(&str) -> Result<(), E> + 'a;

impl OpencodeDb {
    /// Opens a database for reading.
    pub(super) fn open(path: &Path) -> Result<Self, DatabaseError> {
        let opened = connect(path).and_then(|(connection, stillness)| {
            let tables = connection
                .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")?
                .query_map([], |row| row.get(0))?
                .collect::<Result<Vec<String>, _>>()?;
            Ok((connection, stillness, tables))
        });
        let unreadable = |error| DatabaseError::unreadable(path, error);
        let (connection, stillness, tables) = opened.map_err(unreadable)?;
        let database = Self { connection, path: path.to_owned(), stillness, tables };
        if !database.has("session") {
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

    /// Returns the sessions that no other one made, by id.
    pub(super) fn root_sessions(&self) -> Result<Vec<DbSession>, DatabaseError> {
        self.sessions("parent_id IS NULL OR parent_id NOT IN (SELECT id FROM session)")
    }

    /// Returns the sessions that another one made, by id.
    pub(super) fn child_sessions(&self) -> Result<Vec<DbSession>, DatabaseError> {
        self.sessions("parent_id IN (SELECT id FROM session)")
    }

    fn sessions(&self, which: &str) -> Result<Vec<DbSession>, DatabaseError> {
        let query =
            format!("SELECT id, directory, time_updated FROM session WHERE {which} ORDER BY id");
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

    /// Refuses what was read if somebody began to write where nobody was.
    fn check_stillness(&self) -> Result<(), DatabaseError> {
        self.stillness.check().map_err(|error| self.unreadable(error))
    }

    /// Returns a session and its children to any depth, parents first.
    pub(super) fn family(&self, id: &str) -> Result<Vec<String>, DatabaseError> {
        // The bound ends circles, which only a damaged database has.
        let query = "WITH RECURSIVE family(id, depth) AS (\
                       SELECT id, 0 FROM session WHERE id = ?1 \
                       UNION SELECT session.id, depth + 1 FROM session \
                       JOIN family ON session.parent_id = family.id WHERE depth < 100) \
                     SELECT id FROM family GROUP BY id ORDER BY min(depth), id DESC";
        let ids = self.connection.prepare(query).and_then(|mut found| {
            found.query_map([id], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()
        });
        ids.map_err(|error| self.unreadable(error))
    }

    /// Returns the same; refused if the session is not there.
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

    /// Says whether the log tells all of these sessions from their beginning. Of sessions that
    /// are older than the log it tells the rest alone. What was read of it before is not looked
    /// at again.
    fn is_told_by_log(&self, family: &[String], read: &LogRead) -> Result<bool, DatabaseError> {
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
        let mut is_logged = !read.is_empty();
        for id in family.iter().filter(|id| !read.contains_key(*id)) {
            if ask(query, id)? {
                is_logged = true;
            } else if !is_logged || ask(is_begun, id)? {
                return Ok(false);
            }
            // Else a child of a session that is in the log has said nothing yet.
        }
        Ok(true)
    }

    /// Hands on what the logs of these sessions say after what was read, and notes how far that is.
    pub(super) fn read_log<E: From<DatabaseError>>(
        &self,
        family: &[String],
        read: &mut LogRead,
        each: &mut Each<'_, E>,
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

    /// Hands on the rows of a session in a table that changed at this time or later.
    fn read_table<E: From<DatabaseError>>(
        &self,
        table: &str,
        session: &str,
        since: i64,
        each: &mut Each<'_, E>,
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
        each: &mut Each<'_, E>,
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
