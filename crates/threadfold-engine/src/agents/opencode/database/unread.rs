//! Reports what a database holds that this version does not read.

use std::path::Path;
use std::time::SystemTime;

use super::OpencodeDb;
use crate::agents::opencode::time;
use crate::unread::{Unit, UnreadContent};

/// Tables that are read, or are known to hold nothing of a conversation.
const KNOWN: [&str; 24] = [
    "session",
    "session_v2",
    "session_share",
    "session_context_epoch",
    "message",
    "part",
    "todo",
    "event",
    "event_sequence",
    "instruction_blob",
    "instruction_entry",
    "instruction_state",
    "kv",
    "permission",
    "project",
    "project_directory",
    "worktree",
    "workspace",
    "migration",
    "data_migration",
    "__drizzle_migrations",
    "sqlite_sequence",
    "sqlite_stat1",
    "sqlite_stat4",
];

/// Tables that are read beside `session_v2`. Without it, a preview of version 2 wrote them.
const NEWER: [&str; 2] = ["session_message", "session_inbox"];

/// Tables that hold secrets. They are never opened, and not even counted.
const SECRET: [&str; 4] = ["credential", "account", "account_state", "control_account"];

/// The types of messages of version 2 that are read.
const MESSAGE_TYPES: &str = "'user', 'assistant', 'idle', 'synthetic', 'compaction', 'shell', \
     'agent-switched', 'model-switched', 'location-switched', 'system', 'skill'";

impl OpencodeDb {
    /// Returns the tables, the columns and the types of messages that this version does not know.
    pub(in crate::agents::opencode) fn unread(&self) -> Vec<UnreadContent> {
        let mut known = [&KNOWN[..], &SECRET[..]].concat();
        if self.has("session_v2") || self.has_newer_log() {
            known.extend(NEWER);
        }
        let is_unknown = |table: &&String| !known.contains(&table.as_str());
        let tables = self.tables.iter().filter(is_unknown).map(|table| {
            let (count, since) = self.count(table, "");
            let meaning = match table.starts_with("session") || table.starts_with("message") {
                true => {
                    "a version of OpenCode that is newer than this program may keep sessions there"
                }
                false => "nothing of it is imported or shown",
            };
            self.found(format!("table `{table}`"), (count, since), meaning)
        });
        let mut unread: Vec<_> = tables.filter(|it| it.count > 0).collect();
        let missing = if self.has("session_v2") { self.missing_columns() } else { Vec::new() };
        if !missing.is_empty() {
            let what = format!("table `session_v2` (without `{}`)", missing.join("`, `"));
            let meaning = "its sessions are not listed: another version of OpenCode wrote them";
            unread.push(self.found(what, self.count("session_v2", ""), meaning));
        }
        if self.has_newer() {
            unread.extend(self.unknown_messages());
        }
        unread
    }

    /// Returns whether the log has the messages of a preview of version 2, so that its tables only
    /// repeat them.
    fn has_newer_log(&self) -> bool {
        let query = "SELECT EXISTS (SELECT 1 FROM event WHERE type LIKE 'session.next.%')";
        let found = self.connection.query_row(query, [], |row| row.get(0));
        self.has("event") && found.unwrap_or(false)
    }

    fn unknown_messages(&self) -> Vec<UnreadContent> {
        let query = format!(
            "SELECT DISTINCT type FROM session_message WHERE type NOT IN ({MESSAGE_TYPES})"
        );
        let kinds = self.connection.prepare(&query).and_then(|mut found| {
            found.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()
        });
        let describe = |kind: String| {
            let counted = self.count("session_message", &kind);
            let meaning = "they are imported, and shown as they are";
            self.found(format!("messages of type `{kind}`"), counted, meaning)
        };
        kinds.unwrap_or_default().into_iter().map(describe).collect()
    }

    /// Returns how many rows a table has, of one type if that is named, and since when.
    fn count(&self, table: &str, kind: &str) -> (u64, Option<SystemTime>) {
        let quoted = table.replace('"', "\"\"");
        let has_time = self.columns_of(table).iter().any(|it| it == "time_created");
        let since = if has_time { "min(time_created)" } else { "NULL" };
        let which = if kind.is_empty() { "?1 = ''" } else { "type = ?1" };
        let query = format!("SELECT count(*), {since} FROM \"{quoted}\" WHERE {which}");
        let counted = self.connection.query_row(&query, [kind], |row| {
            Ok((row.get::<_, u64>(0)?, row.get::<_, Option<i64>>(1).unwrap_or(None)))
        });
        let (count, since) = counted.unwrap_or_default();
        (count, since.and_then(time))
    }

    fn found(
        &self,
        what: String,
        (count, since): (u64, Option<SystemTime>),
        meaning: &'static str,
    ) -> UnreadContent {
        let agent = threadfold_convert::opencode::AGENT;
        let place = self.path.clone();
        UnreadContent { agent, place, what, count, unit: Unit::Row, since, meaning }
    }
}

/// Returns a database of OpenCode's name that holds none of its tables.
pub(in crate::agents::opencode) fn foreign(path: &Path) -> UnreadContent {
    let modified = path.metadata().and_then(|it| it.modified()).ok();
    UnreadContent {
        agent: threadfold_convert::opencode::AGENT,
        place: path.to_owned(),
        what: "a database without OpenCode's tables".to_owned(),
        count: 1,
        unit: Unit::File,
        since: modified,
        meaning: "it has no sessions that this program can read",
    }
}
