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

/// The columns of the tables of sessions and their content that are read, or need not be.
const COLUMNS: [(&str, &[&str]); 5] = [
    ("session", SESSION_COLUMNS),
    ("session_v2", SESSION_COLUMNS),
    ("message", &["id", "session_id", "time_created", "time_updated", "data"]),
    ("part", &["id", "message_id", "session_id", "time_created", "time_updated", "data"]),
    (
        "session_message",
        &["id", "session_id", "type", "seq", "time_created", "time_updated", "data"],
    ),
];

const SESSION_COLUMNS: &[&str] = &[
    "id",
    "project_id",
    "workspace_id",
    "parent_id",
    "fork_session_id",
    "fork_boundary",
    "slug",
    "directory",
    "path",
    "title",
    "version",
    "share_url",
    "summary_additions",
    "summary_deletions",
    "summary_files",
    "summary_diffs",
    "metadata",
    "cost",
    "tokens_input",
    "tokens_output",
    "tokens_reasoning",
    "tokens_cache_read",
    "tokens_cache_write",
    "revert",
    "permission",
    "agent",
    "model",
    "time_created",
    "time_updated",
    "time_compacting",
    "time_archived",
    "time_suspended",
    "resume_attempts",
    "time_idle",
    "time_viewed",
    "idle_outcome",
];

/// The latest major version whose sessions were seen.
const LATEST: u64 = 2;

/// What is not read, and what it means.
enum Treatment {
    Skipped(&'static str),
    /// It is imported, and shown as it is.
    Imported(&'static str),
}

impl OpencodeDb {
    /// Returns the tables, the columns, the types of messages and of events, and the versions that
    /// this version does not know.
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
            self.found(format!("table `{table}`"), (count, since), Treatment::Skipped(meaning))
        });
        let mut unread: Vec<_> = tables.filter(|it| it.count > 0).collect();
        let missing = if self.has("session_v2") { self.missing_columns() } else { Vec::new() };
        if !missing.is_empty() {
            let what = format!("table `session_v2` (without `{}`)", missing.join("`, `"));
            let meaning = "its sessions are not listed: another version of OpenCode wrote them";
            let counted = self.count("session_v2", "");
            unread.push(self.found(what, counted, Treatment::Skipped(meaning)));
        }
        if self.has_newer() {
            unread.extend(self.unknown_messages());
        }
        unread.extend(self.unknown_events());
        unread.extend(self.unknown_versions());
        unread.extend(self.unknown_columns());
        unread
    }

    /// Returns the types of events in the log that are not known: of sessions, and of what is none.
    fn unknown_events(&self) -> Vec<UnreadContent> {
        if !self.has("event") {
            return Vec::new();
        }
        // An index has the types, so the events themselves are not read.
        let kinds = self.texts("SELECT DISTINCT type FROM event ORDER BY type");
        let since = match self.columns_of("event").iter().any(|it| it == "created") {
            true => "min(nullif(created, 0))",
            false => "NULL",
        };
        let mut unread = Vec::new();
        for kind in kinds.iter().filter(|it| !threadfold_convert::opencode::is_known_event(it)) {
            let count = |which: &str| {
                let query = format!(
                    "SELECT count(*), {since} FROM event WHERE type = ?1 \
                     AND aggregate_id {which} (SELECT id FROM ({}))",
                    self.everything()
                );
                self.counted(&query, kind)
            };
            let shown = "where the log of a session is read, they are shown as they are";
            let skipped = "they are of no session that this program knows, and nothing of them is \
                           imported or shown";
            for (which, treatment) in
                [("IN", Treatment::Imported(shown)), ("NOT IN", Treatment::Skipped(skipped))]
            {
                let counted = count(which);
                if counted.0 > 0 {
                    unread.push(self.found(format!("events of type `{kind}`"), counted, treatment));
                }
            }
        }
        unread
    }

    /// Returns the versions of OpenCode that wrote sessions and that are newer than any known one.
    fn unknown_versions(&self) -> Vec<UnreadContent> {
        let mut unread = Vec::new();
        for table in ["session", "session_v2"] {
            if !self.columns_of(table).iter().any(|it| it == "version") {
                continue;
            }
            let is_newer = |version: &&String| {
                let major = version.split('.').next().and_then(|it| it.parse::<u64>().ok());
                major.is_some_and(|it| it > LATEST)
            };
            let versions = self.texts(&format!("SELECT DISTINCT version FROM {table}"));
            for version in versions.iter().filter(is_newer) {
                let query =
                    format!("SELECT count(*), min(time_created) FROM {table} WHERE version = ?1");
                let what = format!("sessions of version `{version}` in table `{table}`");
                let meaning = "they are read like those of version 2, so something may be missing";
                let counted = self.counted(&query, version);
                unread.push(self.found(what, counted, Treatment::Imported(meaning)));
            }
        }
        unread
    }

    /// Returns the columns that are not known and have a value in some row.
    fn unknown_columns(&self) -> Vec<UnreadContent> {
        let mut unread = Vec::new();
        for (table, known) in COLUMNS.iter().filter(|(table, _)| self.has(table)) {
            let columns = self.columns_of(table);
            for column in columns.iter().filter(|it| !known.contains(&it.as_str())) {
                let quoted = column.replace('"', "\"\"");
                let query = format!(
                    "SELECT count(*), min(time_created) FROM {table} \
                     WHERE \"{quoted}\" IS NOT NULL AND \"{quoted}\" NOT IN (0, '') AND ?1 <> ''"
                );
                let counted = self.counted(&query, column);
                if counted.0 > 0 {
                    let what = format!("column `{column}` of table `{table}`");
                    let meaning = "it is imported with its rows, and not shown";
                    unread.push(self.found(what, counted, Treatment::Imported(meaning)));
                }
            }
        }
        unread
    }

    /// Returns the texts that a query finds; none if it fails.
    fn texts(&self, query: &str) -> Vec<String> {
        let found = self.connection.prepare(query).and_then(|mut found| {
            found.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()
        });
        found.unwrap_or_default()
    }

    /// Returns a count and a time that a query finds.
    fn counted(&self, query: &str, of: &str) -> (u64, Option<SystemTime>) {
        let counted = self.connection.query_row(query, [of], |row| {
            Ok((row.get::<_, u64>(0)?, row.get::<_, Option<i64>>(1).unwrap_or(None)))
        });
        let (count, since) = counted.unwrap_or_default();
        (count, since.and_then(time))
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
        let describe = |kind: String| {
            let counted = self.count("session_message", &kind);
            let treatment = Treatment::Imported("they are imported, and shown as they are");
            self.found(format!("messages of type `{kind}`"), counted, treatment)
        };
        self.texts(&query).into_iter().map(describe).collect()
    }

    /// Returns how many rows a table has, of one type if that is named, and since when.
    fn count(&self, table: &str, kind: &str) -> (u64, Option<SystemTime>) {
        let quoted = table.replace('"', "\"\"");
        let has_time = self.columns_of(table).iter().any(|it| it == "time_created");
        let since = if has_time { "min(time_created)" } else { "NULL" };
        let which = if kind.is_empty() { "?1 = ''" } else { "type = ?1" };
        let query = format!("SELECT count(*), {since} FROM \"{quoted}\" WHERE {which}");
        self.counted(&query, kind)
    }

    fn found(
        &self,
        what: String,
        (count, since): (u64, Option<SystemTime>),
        treatment: Treatment,
    ) -> UnreadContent {
        let agent = threadfold_convert::opencode::AGENT;
        let (place, unit) = (self.path.clone(), Unit::Row);
        let (is_imported, meaning) = match treatment {
            Treatment::Skipped(meaning) => (false, meaning),
            Treatment::Imported(meaning) => (true, meaning),
        };
        UnreadContent { agent, place, what, count, unit, since, is_imported, meaning }
    }
}

/// Returns a database of OpenCode's name that holds none of its tables.
pub(in crate::agents::opencode) fn foreign(path: &Path) -> UnreadContent {
    file(path, "a database without OpenCode's tables", NO_SESSIONS)
}

/// Returns a database of OpenCode's name that cannot be opened.
pub(in crate::agents::opencode) fn unreadable(path: &Path) -> UnreadContent {
    file(path, "a database that cannot be opened", NO_SESSIONS)
}

const NO_SESSIONS: &str = "it has no sessions that this program can read";

fn file(path: &Path, what: &str, meaning: &'static str) -> UnreadContent {
    let modified = path.metadata().and_then(|it| it.modified()).ok();
    UnreadContent {
        agent: threadfold_convert::opencode::AGENT,
        place: path.to_owned(),
        what: what.to_owned(),
        count: 1,
        unit: Unit::File,
        since: modified,
        is_imported: false,
        meaning,
    }
}
