//! The rows of all sessions of a database, read at once: what lists show of a session, and what
//! shows that it changed.
//!
//! When one session of a database changed, its file did; the others are recognized by the number
//! and the latest time of their rows, so that their rows are not read again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use super::OpencodeDb;
use super::columns::row_json;
use super::progress::SLACK;
use crate::agent_database::DatabaseError;

/// The tables that are read, with the columns that name the session, and that only rise.
const TABLES: [(&str, &str, &str); 6] = [
    ("message", "session_id", "time_updated"),
    ("part", "session_id", "time_updated"),
    ("event", "aggregate_id", "seq"),
    ("event_sequence", "aggregate_id", "seq"),
    ("session_message", "session_id", "time_updated"),
    ("session_inbox", "session_id", "time_created"),
];

/// Columns of a session that may be long, and that no list shows.
const LONG_COLUMNS: [&str; 2] = ["summary_diffs", "revert"];

/// The rows of all sessions of a database, read when the first one is needed.
#[derive(Debug)]
pub(in crate::agents::opencode) struct SessionRows {
    path: PathBuf,
    stamps: OnceLock<BTreeMap<String, String>>,
    lines: OnceLock<BTreeMap<String, String>>,
}

impl SessionRows {
    pub(in crate::agents::opencode) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), stamps: OnceLock::new(), lines: OnceLock::new() }
    }

    /// Returns what shows that a session or a child of it changed; nothing if it changed just now,
    /// or if it cannot be known.
    pub(in crate::agents::opencode) fn stamp_of(&self, session: &str) -> Option<String> {
        // Why it cannot be read is reported where it is read for its rows.
        let read = || OpencodeDb::open(&self.path).and_then(|it| it.row_stamps());
        self.stamps.get_or_init(|| read().unwrap_or_default()).get(session).cloned()
    }

    /// Returns the row of a session, as the converter reads it.
    pub(in crate::agents::opencode) fn line_of(&self, session: &str) -> Option<&str> {
        let read = || OpencodeDb::open(&self.path).and_then(|it| it.session_lines());
        let lines = self.lines.get_or_init(|| read().unwrap_or_default());
        lines.get(session).map(String::as_str)
    }
}

/// What shows that a session changed, without its children.
#[derive(Default)]
struct OwnStamp {
    text: String,
    /// The latest time of a row, in milliseconds.
    latest: i64,
}

impl OpencodeDb {
    /// Returns the row of each session, of the version that is read.
    fn session_lines(&self) -> Result<BTreeMap<String, String>, DatabaseError> {
        let mut lines = BTreeMap::new();
        let newer = if self.has_newer() { Some("session_v2") } else { None };
        let older = if self.has("session") { Some("session") } else { None };
        // The later one replaces the row of the same session in the other version.
        for table in older.into_iter().chain(newer) {
            let mut columns = self.columns_of(table);
            columns.retain(|it| !LONG_COLUMNS.contains(&it.as_str()));
            let columns: Vec<_> =
                columns.iter().map(|it| format!("\"{}\"", it.replace('"', "\"\""))).collect();
            let query = format!("SELECT {} FROM {table}", columns.join(", "));
            let mut make = |row: &rusqlite::Row<'_>, names: &[String]| {
                let line = format!(r#"{{"table":"{table}","row":{}}}"#, row_json(row, names)?);
                lines.insert(row.get::<_, String>("id")?, line);
                Ok(String::new())
            };
            self.each_row(&query, [], &mut make, &mut |_| Ok::<_, DatabaseError>(()))?;
        }
        Ok(lines)
    }

    fn row_stamps(&self) -> Result<BTreeMap<String, String>, DatabaseError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        let mut own: BTreeMap<String, OwnStamp> = BTreeMap::new();
        let mut children: BTreeMap<String, Vec<String>> = BTreeMap::new();
        self.add_sessions(&mut own, &mut children)?;
        for (table, session, rising) in TABLES {
            let columns = self.columns_of(table);
            if [session, rising].iter().all(|it| columns.iter().any(|known| known == it)) {
                self.add_table((table, session, rising), &mut own)?;
            }
        }
        self.check_stillness()?;
        let mut stamps = BTreeMap::new();
        for root in own.keys() {
            let family = family(root, &children);
            let own: Vec<&OwnStamp> = family.iter().filter_map(|it| own.get(*it)).collect();
            // A row may become visible after another one with a later time.
            if own.iter().all(|it| it.latest < now.saturating_sub(SLACK)) {
                let mut hasher = blake3::Hasher::new();
                for (id, stamp) in family.iter().zip(own) {
                    hasher.update(format!("{id}\n{}\n", stamp.text).as_bytes());
                }
                stamps.insert(root.clone(), hasher.finalize().to_hex()[..32].to_owned());
            }
        }
        Ok(stamps)
    }

    /// Adds the rows of all sessions, each with everything in it.
    fn add_sessions(
        &self,
        own: &mut BTreeMap<String, OwnStamp>,
        children: &mut BTreeMap<String, Vec<String>>,
    ) -> Result<(), DatabaseError> {
        for table in ["session", "session_v2"].into_iter().filter(|it| self.has(it)) {
            let query = format!("SELECT * FROM {table} ORDER BY id");
            let mut make = |row: &rusqlite::Row<'_>, names: &[String]| {
                let id: String = row.get("id")?;
                let parent: Option<String> = row.get("parent_id")?;
                let stamp = own.entry(id.clone()).or_default();
                stamp.text.push_str(&row_json(row, names)?);
                stamp.latest = stamp.latest.max(row.get("time_updated").unwrap_or(i64::MAX));
                if let Some(parent) = parent {
                    children.entry(parent).or_default().push(id);
                }
                Ok(String::new())
            };
            self.each_row(&query, [], &mut make, &mut |_| Ok::<_, DatabaseError>(()))?;
        }
        Ok(())
    }

    /// Adds the number of rows of each session, and the latest.
    fn add_table(
        &self,
        (table, session, rising): (&str, &str, &str),
        own: &mut BTreeMap<String, OwnStamp>,
    ) -> Result<(), DatabaseError> {
        let query =
            // The remainders keep the sum of millions of times within a number.
            format!(
                "SELECT {session}, count(*), max({rising}), sum({rising} % 1000000007) \
                 FROM {table} GROUP BY {session}"
            );
        let mut make = |row: &rusqlite::Row<'_>, _: &[String]| {
            let id: Option<String> = row.get(0)?;
            let (count, latest): (i64, Option<i64>) = (row.get(1)?, row.get(2)?);
            let sum: Option<i64> = row.get(3)?;
            if let Some(stamp) = id.and_then(|id| own.get_mut(&id)) {
                stamp.text.push_str(&format!("\n{table} {count} {latest:?} {sum:?}"));
                if rising != "seq" {
                    stamp.latest = stamp.latest.max(latest.unwrap_or_default());
                }
            }
            Ok(String::new())
        };
        self.each_row(&query, [], &mut make, &mut |_| Ok::<_, DatabaseError>(()))
    }
}

/// Returns a session and its descendants.
fn family<'a>(root: &'a str, children: &'a BTreeMap<String, Vec<String>>) -> Vec<&'a str> {
    let (mut ids, mut known) = (vec![root], BTreeSet::from([root]));
    let mut next = 0;
    while let Some(parent) = ids.get(next).copied() {
        let children = children.get(parent).into_iter().flatten();
        ids.extend(children.map(String::as_str).filter(|it| known.insert(it)));
        next += 1;
    }
    ids
}
