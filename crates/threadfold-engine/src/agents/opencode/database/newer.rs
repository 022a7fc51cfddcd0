//! The tables of OpenCode 2: `session_v2` and `session_message`.
//!
//! Rows are updated in place and can disappear, so a follower compares them with what it emitted.
//! A session is looked at again when the number of its last event or the time of its latest row has
//! changed.

use rusqlite::OptionalExtension;

use super::columns::row_json;
use super::follow::{add, add_new, note_all};
use super::progress::RowProgress;
use super::{OpencodeDb, RowCallback};
use crate::agent_database::DatabaseError;

/// The columns that are read.
const COLUMNS: [(&str, &[&str]); 2] = [
    ("session_v2", &["id", "parent_id", "directory", "time_updated"]),
    ("session_message", &["id", "session_id", "type", "seq", "time_updated", "data"]),
];

impl OpencodeDb {
    /// Returns whether this is a database of version 2, with the columns that are read.
    pub(super) fn has_newer(&self) -> bool {
        self.has("session_v2") && self.missing_columns().is_empty()
    }

    /// Returns the columns of version 2 that are read and missing, as `table.column`.
    pub(super) fn missing_columns(&self) -> Vec<String> {
        let mut missing = Vec::new();
        for (table, columns) in COLUMNS {
            let present = self.columns_of(table);
            let absent = columns.iter().filter(|it| !present.iter().any(|known| known == *it));
            missing.extend(absent.map(|column| format!("{table}.{column}")));
        }
        missing
    }

    /// Returns the columns of a table; none if it does not exist.
    pub(super) fn columns_of(&self, table: &str) -> Vec<String> {
        let found = self
            .connection
            .prepare("SELECT name FROM pragma_table_info(?1)")
            .and_then(|mut found| found.query_map([table], |row| row.get(0))?.collect());
        found.unwrap_or_default()
    }

    /// Splits sessions into those of version 2, and those that only version 1 has.
    pub(super) fn by_version(
        &self,
        family: Vec<String>,
    ) -> Result<(Vec<String>, Vec<String>), DatabaseError> {
        if !self.has_newer() {
            return Ok((Vec::new(), family));
        }
        let (mut newer, mut older) = (Vec::new(), Vec::new());
        for id in family {
            let query = "SELECT EXISTS (SELECT 1 FROM session_v2 WHERE id = ?1)";
            let is_newer = self.connection.query_row(query, [&id], |row| row.get(0));
            match is_newer.map_err(|error| self.unreadable(error))? {
                true => newer.push(id),
                false => older.push(id),
            }
        }
        Ok((newer, older))
    }

    /// Adds what is new of sessions of version 2, as lines.
    pub(super) fn read_newer(
        &self,
        sessions: &[String],
        progress: &mut RowProgress,
        lines: &mut Vec<u8>,
    ) -> Result<(), DatabaseError> {
        let mut changed = Vec::new();
        for id in sessions {
            let mark = self.mark(id)?;
            if progress.marks.get(id) != Some(&mark) {
                progress.marks.insert(id.clone(), mark);
                changed.push(id);
            }
        }
        let before = lines.len();
        for id in &changed {
            let start = lines.len();
            let query = "SELECT * FROM session_v2 WHERE id = ?1 AND ?2 <= 0";
            self.read_rows("session_v2", query, (id, 0), &mut |record| {
                add_new(lines, record, progress);
                Ok(())
            })?;
            note_all(&lines[start..], progress);
        }
        for id in &changed {
            self.read_deleted(id, progress, lines)?;
            let start = lines.len();
            let since = progress.since("session_message", id);
            let query = "SELECT * FROM session_message WHERE session_id = ?1 \
                         AND time_updated >= ?2 ORDER BY seq";
            self.read_rows("session_message", query, (id, since), &mut |record| {
                add_new(lines, record, progress);
                Ok(())
            })?;
            if self.has("session_inbox") {
                let query = "SELECT * FROM session_inbox WHERE session_id = ?1 AND ?2 <= 0 \
                             ORDER BY enqueued_seq";
                self.read_rows("session_inbox", query, (id, 0), &mut |record| {
                    add_new(lines, record, progress);
                    Ok(())
                })?;
            }
            self.read_continuation(id, progress, lines)?;
            note_all(&lines[start..], progress);
        }
        if lines.len() > before {
            // Sessions are emitted again, because a revert applies only after the messages.
            for id in &changed {
                let query = "SELECT * FROM session_v2 WHERE id = ?1 AND ?2 <= 0";
                self.read_rows("session_v2", query, (id, 0), &mut |record| {
                    add(lines, record);
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    /// Returns what shows that a session has changed: the number of its last event, how many
    /// messages it has, and the time of its latest row in either version.
    fn mark(&self, session: &str) -> Result<[i64; 3], DatabaseError> {
        let failed = |error| self.unreadable(error);
        let ask = |query: &str| {
            let value = self.connection.query_row(query, [session], |row| row.get(0)).optional();
            value.map(|it: Option<Option<i64>>| it.flatten().unwrap_or(-1)).map_err(failed)
        };
        let seq = match self.has("event_sequence") {
            true => ask("SELECT seq FROM event_sequence WHERE aggregate_id = ?1")?,
            false => -1,
        };
        let mut latest =
            ask("SELECT max(time_updated) FROM session_message WHERE session_id = ?1")?
                .max(ask("SELECT time_updated FROM session_v2 WHERE id = ?1")?);
        if self.has("session_inbox") {
            // A prompt in the inbox does not touch the messages.
            let waiting = ask("SELECT max(time_created) FROM session_inbox WHERE session_id = ?1")?;
            latest = latest.max(waiting);
        }
        if self.has("message") {
            let older = ask("SELECT max(time_updated) FROM message WHERE session_id = ?1")?;
            latest = latest.max(older);
        }
        let count = ask("SELECT count(*) FROM session_message WHERE session_id = ?1")?;
        Ok([seq, count, latest])
    }

    /// Adds a line for each row that was emitted and is no longer there.
    fn read_deleted(
        &self,
        session: &str,
        progress: &mut RowProgress,
        lines: &mut Vec<u8>,
    ) -> Result<(), DatabaseError> {
        for table in ["session_inbox", "session_message"] {
            let mut gone = progress.present(table, session);
            if gone.is_empty() || !self.has(table) {
                continue;
            }
            let query = format!("SELECT id FROM {table} WHERE session_id = ?1");
            let present = self.connection.prepare(&query).and_then(|mut found| {
                found.query_map([session], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()
            });
            for id in present.map_err(|error| self.unreadable(error))? {
                gone.remove(&id);
            }
            let start = lines.len();
            for id in gone {
                let [id, session] = [id.as_str(), session].map(threadfold_core::Json::string);
                let deleted = format!(r#"{{"id":{id},"session_id":{session}}}"#);
                add(lines, &format!(r#"{{"table":"{table}","deleted":{deleted}}}"#));
            }
            note_all(&lines[start..], progress);
        }
        Ok(())
    }

    /// Adds the messages that version 1 wrote after version 2 had copied the session.
    ///
    /// The copy is made once, and nothing merges the two afterwards.
    fn read_continuation(
        &self,
        session: &str,
        progress: &RowProgress,
        lines: &mut Vec<u8>,
    ) -> Result<(), DatabaseError> {
        if !self.has("message") || !self.has("part") {
            return Ok(());
        }
        let Some(copied) = self.time_of_copy()? else { return Ok(()) };
        let messages = "SELECT * FROM message WHERE session_id = ?1 AND time_created > ?2 \
                        AND id NOT IN (SELECT id FROM session_message) ORDER BY id";
        let parts = "SELECT * FROM part WHERE session_id = ?1 AND message_id IN (\
                       SELECT id FROM message WHERE session_id = ?1 AND time_created > ?2 \
                       AND id NOT IN (SELECT id FROM session_message)) ORDER BY id";
        for (table, query) in [("message", messages), ("part", parts)] {
            let make = |record: String| {
                format!(r#"{{"table":"{table}","after":"session_v2","row":{record}}}"#)
            };
            self.each_row(
                query,
                (session, copied),
                &mut |row, names| row_json(row, names).map(make),
                &mut |record| {
                    add_new(lines, record, progress);
                    Ok::<_, DatabaseError>(())
                },
            )?;
        }
        Ok(())
    }

    /// Returns when version 2 had copied the sessions of version 1, in milliseconds.
    fn time_of_copy(&self) -> Result<Option<i64>, DatabaseError> {
        if !self.has("kv") || !self.columns_of("kv").iter().any(|it| it == "time_updated") {
            return Ok(None);
        }
        let query = "SELECT time_updated FROM kv WHERE key = 'migration.v1-v2'";
        let time = self.connection.query_row(query, [], |row| row.get(0)).optional();
        time.map_err(|error| self.unreadable(error))
    }

    fn read_rows(
        &self,
        table: &str,
        query: &str,
        of: (&str, i64),
        each: &mut RowCallback<'_, DatabaseError>,
    ) -> Result<(), DatabaseError> {
        let make = |record: String| format!(r#"{{"table":"{table}","row":{record}}}"#);
        self.each_row(query, of, &mut |row, names| row_json(row, names).map(make), each)
    }
}
