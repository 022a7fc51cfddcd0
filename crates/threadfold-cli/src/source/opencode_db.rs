//! OpenCode's database, read while OpenCode may be writing it.
//!
//! Nothing is written: not to the database, not to its log, and not to the memory that its users
//! share. Rows are handed on as JSON objects; what they mean, the converter knows.

mod columns;
mod connect;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use rusqlite::{Connection, ErrorCode};

use super::Format;
use super::opencode_shelf::{EachRecord, SessionRow, Shelf, ShelfFile, missing, only};
use crate::error::CommandError;
use columns::row_json;
use connect::{Stillness, connect};

/// The last number that was read of each session's log.
pub(crate) type Read = BTreeMap<String, i64>;

/// An open database. All that is read of it is as of one moment.
pub(crate) struct Database {
    connection: Connection,
    path: PathBuf,
    stillness: Stillness,
    tables: Vec<String>,
}

type Each<'a> = dyn FnMut(&str) -> Result<(), CommandError> + 'a;

impl Database {
    /// Opens a database for reading.
    pub(crate) fn open(path: &Path) -> Result<Self, CommandError> {
        let opened = connect(path).and_then(|(connection, stillness)| {
            let tables = connection
                .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")?
                .query_map([], |row| row.get(0))?
                .collect::<Result<Vec<String>, _>>()?;
            Ok((connection, stillness, tables))
        });
        let (connection, stillness, tables) = opened.map_err(|error| told(path, error))?;
        let database = Self { connection, path: path.to_owned(), stillness, tables };
        if !database.has("session") {
            return Err(CommandError::new(
                anyhow!("`{}` is a SQLite database, but not OpenCode's", path.display()),
                "OpenCode's is `opencode.db` in `~/.local/share/opencode`",
            ));
        }
        Ok(database)
    }

    fn has(&self, table: &str) -> bool {
        self.tables.iter().any(|it| it == table)
    }

    /// Returns the sessions that no other one made, by id.
    pub(crate) fn root_sessions(&self) -> Result<Vec<SessionRow>, CommandError> {
        self.sessions("parent_id IS NULL OR parent_id NOT IN (SELECT id FROM session)")
    }

    /// Returns the sessions that another one made, by id.
    pub(crate) fn child_sessions(&self) -> Result<Vec<SessionRow>, CommandError> {
        self.sessions("parent_id IN (SELECT id FROM session)")
    }

    fn sessions(&self, which: &str) -> Result<Vec<SessionRow>, CommandError> {
        let query =
            format!("SELECT id, directory, time_updated FROM session WHERE {which} ORDER BY id");
        let rows = self.connection.prepare(&query).and_then(|mut found| {
            found
                .query_map([], |row| {
                    Ok(SessionRow {
                        id: row.get(0)?,
                        directory: row.get::<_, Option<String>>(1)?.unwrap_or_default(),
                        updated: row.get(2)?,
                    })
                })?
                .collect()
        });
        rows.map_err(|error| told(&self.path, error))
    }

    /// Hands on all that is kept of a session and its children: the log where it is whole, the
    /// rows of messages and parts where it is not.
    fn read_session(&self, id: &str, each: &mut Each<'_>) -> Result<(), CommandError> {
        let family = self.family(id)?;
        if family.is_empty() {
            return Err(missing(&self.path, id));
        }
        if self.has_whole_log(&family)? || !self.has("message") || !self.has("part") {
            self.read_log(&family, &mut Read::new(), each)?;
        } else {
            self.read_rows(&family, each)?;
        }
        self.stillness.check().map_err(|error| told(&self.path, error))
    }

    /// Returns a session and its children to any depth, parents first.
    pub(crate) fn family(&self, id: &str) -> Result<Vec<String>, CommandError> {
        // The bound ends circles, which only a damaged database has.
        let query = "WITH RECURSIVE family(id, depth) AS (\
                       SELECT id, 0 FROM session WHERE id = ?1 \
                       UNION SELECT session.id, depth + 1 FROM session \
                       JOIN family ON session.parent_id = family.id WHERE depth < 100) \
                     SELECT id FROM family GROUP BY id ORDER BY min(depth), id DESC";
        let ids = self.connection.prepare(query).and_then(|mut found| {
            found.query_map([id], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()
        });
        ids.map_err(|error| told(&self.path, error))
    }

    /// Says whether the log tells all of these sessions from their beginning. Of sessions that
    /// are older than the log it tells the rest alone.
    fn has_whole_log(&self, family: &[String]) -> Result<bool, CommandError> {
        if !self.has("event") {
            return Ok(false);
        }
        let query = "SELECT count(*) > 0 AND max(seq) = count(*) - 1 \
                     AND sum(seq = 0 AND type LIKE 'session.created%') = 1 \
                     FROM event WHERE aggregate_id = ?1";
        let is_whole = |id: &String| {
            let answer = self.connection.query_row(query, [id], |row| row.get(0));
            answer.map(|it: Option<bool>| it == Some(true))
        };
        for id in family {
            if !is_whole(id).map_err(|error| told(&self.path, error))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Hands on what the logs of these sessions say after what was read, and notes how far that is.
    pub(crate) fn read_log(
        &self,
        family: &[String],
        read: &mut Read,
        each: &mut Each<'_>,
    ) -> Result<(), CommandError> {
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

    fn read_rows(&self, family: &[String], each: &mut Each<'_>) -> Result<(), CommandError> {
        // Sessions come once more at the end: what one was taken back to is known only then.
        for table in ["session", "message", "part", "session"] {
            let key = if table == "session" { "id" } else { "session_id" };
            let query = format!("SELECT * FROM {table} WHERE {key} = ?1 ORDER BY id");
            for id in family {
                self.each_row(
                    &query,
                    [id],
                    &mut |row, names| {
                        Ok(format!(r#"{{"table":"{table}","row":{}}}"#, row_json(row, names)?))
                    },
                    each,
                )?;
            }
        }
        Ok(())
    }

    fn each_row(
        &self,
        query: &str,
        of: impl rusqlite::Params,
        make: &mut dyn FnMut(&rusqlite::Row<'_>, &[String]) -> rusqlite::Result<String>,
        each: &mut Each<'_>,
    ) -> Result<(), CommandError> {
        let failed = |error| told(&self.path, error);
        let mut found = self.connection.prepare(query).map_err(failed)?;
        let names: Vec<String> = found.column_names().into_iter().map(str::to_owned).collect();
        let mut rows = found.query(of).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            each(&make(row, &names).map_err(failed)?)?;
        }
        Ok(())
    }
}

impl Shelf for Database {
    fn format(&self) -> Format {
        Format::OpencodeDb
    }

    fn only_session(&self) -> Result<String, CommandError> {
        only(&self.path, self.root_sessions()?)
    }

    fn read(&self, session: &str, each: &mut EachRecord<'_>) -> Result<(), CommandError> {
        self.read_session(session, &mut |record| each(record.as_bytes()))
    }

    fn files(&self, _: &str) -> Result<Option<Vec<ShelfFile>>, CommandError> {
        Ok(None)
    }
}

/// Tells what is wrong with a database, and what can be done.
fn told(path: &Path, error: rusqlite::Error) -> CommandError {
    let place = path.display();
    let (what, hint) = match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => (
            format!("`{place}` is not a SQLite database, or is encrypted"),
            "OpenCode's is `opencode.db` in `~/.local/share/opencode`",
        ),
        Some(ErrorCode::DatabaseCorrupt) => (
            format!("`{place}` is damaged"),
            "`opencode export` may still read the session; `sqlite3 FILE .recover` saves what is left",
        ),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => (
            format!("`{place}` is locked by another program"),
            "try again when it is done; nothing was changed",
        ),
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => (
            format!("`{place}` cannot be opened"),
            "look whether it is there and may be read, with its `-wal` and `-shm` files",
        ),
        _ => (
            format!("`{place}` cannot be read as OpenCode's database"),
            "`opencode export` prints a session in a form that can be read as well",
        ),
    };
    CommandError::new(anyhow::Error::new(error).context(what), hint)
}

#[cfg(test)]
mod tests;
