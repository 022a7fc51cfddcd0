//! How much of a database a session's log already has.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Deserialize;
use threadfold_fold::{RecordKind, SourceSpec};

use super::LogRead;
use crate::error::EngineError;
use crate::session::Session;

/// A row may become visible this many milliseconds after another one with a later time.
pub(super) const SLACK: i64 = 10_000;

/// What was read of a database: the position in its log, and the last version of each row.
#[derive(Clone, Debug, Default)]
pub(super) struct RowProgress {
    pub(super) log: LogRead,
    /// Rows by table and id, as hashes of their last version.
    rows: HashMap<(String, String), [u8; 32]>,
    /// The latest time of a row, by table and session.
    since: BTreeMap<(String, String), i64>,
    /// The rows of each session that a table has, by table and session.
    present: BTreeMap<(String, String), BTreeSet<String>>,
    /// What shows that a session has changed, as it was when the session was read.
    pub(super) marks: BTreeMap<String, [i64; 3]>,
}

#[derive(Deserialize)]
struct LogLine<'a> {
    #[serde(borrow)]
    aggregate_id: Option<Cow<'a, str>>,
    seq: Option<i64>,
    #[serde(borrow)]
    table: Option<Cow<'a, str>>,
    #[serde(borrow)]
    row: Option<LoggedRow<'a>>,
    #[serde(borrow)]
    after: Option<Cow<'a, str>>,
    #[serde(borrow)]
    deleted: Option<LoggedRow<'a>>,
}

#[derive(Deserialize)]
struct LoggedRow<'a> {
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    session_id: Option<Cow<'a, str>>,
    time_updated: Option<i64>,
}

impl RowProgress {
    /// Restores the progress from a session's log.
    pub(super) async fn of(session: &mut Session, spec: &SourceSpec) -> Result<Self, EngineError> {
        let parts: Vec<u32> = session
            .fold()
            .sources()
            .filter(|it| it.spec.is_same_source(spec))
            .map(|it| it.number)
            .collect();
        let mut progress = Self::default();
        if parts.is_empty() {
            return Ok(progress);
        }
        let mut pieces = Vec::new();
        session
            .read_back(|record| {
                if !parts.contains(&record.source) {
                    return;
                }
                match record.kind {
                    RecordKind::Line => progress.note(&record.bytes),
                    RecordKind::Piece => pieces.extend_from_slice(&record.bytes),
                    RecordKind::LastPiece => {
                        pieces.extend_from_slice(&record.bytes);
                        progress.note(&std::mem::take(&mut pieces));
                    }
                    _ => {}
                }
            })
            .await?;
        Ok(progress)
    }

    /// Returns the time from which rows of a session in a table may be new.
    pub(super) fn since(&self, table: &str, session: &str) -> i64 {
        let latest = self.since.get(&(table.to_owned(), session.to_owned()));
        latest.map_or(i64::MIN, |latest| latest.saturating_sub(SLACK))
    }

    /// Returns the rows of a session that a table had when it was last read.
    pub(super) fn present(&self, table: &str, session: &str) -> BTreeSet<String> {
        let rows = self.present.get(&(table.to_owned(), session.to_owned()));
        rows.cloned().unwrap_or_default()
    }

    /// Returns whether a row is unchanged since it was last emitted.
    pub(super) fn has(&self, line: &[u8]) -> bool {
        row_of(line).is_some_and(|row| self.rows.get(&row.key) == Some(&hash(line)))
    }

    /// Records a line.
    pub(super) fn note(&mut self, line: &[u8]) {
        if let Some((table, Some(id), Some(session))) = deleted_row(line) {
            if let Some(rows) = self.present.get_mut(&(table.clone(), session)) {
                rows.remove(&id);
            }
            self.rows.remove(&(table, id));
        } else if let Some(Row { key, session, time }) = row_of(line) {
            let rows = self.present.entry((key.0.clone(), session.clone())).or_default();
            rows.insert(key.1.clone());
            let since = self.since.entry((key.0.clone(), session)).or_insert(i64::MIN);
            *since = time.map_or(*since, |time| time.max(*since));
            self.rows.insert(key, hash(line));
        } else if let Ok(LogLine { aggregate_id: Some(id), seq: Some(seq), .. }) =
            serde_json::from_slice(line)
        {
            let last = self.log.entry(id.into_owned()).or_insert(seq);
            *last = seq.max(*last);
        }
    }
}

/// The fields of a row that matter here.
struct Row {
    /// Its table and its id.
    key: (String, String),
    session: String,
    time: Option<i64>,
}

/// Returns the table, the id and the session of a row that was deleted.
fn deleted_row(line: &[u8]) -> Option<(String, Option<String>, Option<String>)> {
    let noted: LogLine<'_> = serde_json::from_slice(line).ok()?;
    let (table, row) = (noted.table?, noted.deleted?);
    let owned = |it: Option<Cow<'_, str>>| it.map(Cow::into_owned);
    Some((table.into_owned(), owned(row.id), owned(row.session_id)))
}

fn row_of(line: &[u8]) -> Option<Row> {
    let noted: LogLine<'_> = serde_json::from_slice(line).ok()?;
    let (table, row) = (noted.table?, noted.row?);
    // A row that continues what another version has copied is emitted for itself.
    let table = match noted.after {
        Some(after) => Cow::Owned(format!("{table} after {after}")),
        None => table,
    };
    let id = row.id?.into_owned();
    let session = row.session_id.map_or_else(|| id.clone(), Cow::into_owned);
    Some(Row { key: (table.into_owned(), id), session, time: row.time_updated })
}

fn hash(line: &[u8]) -> [u8; 32] {
    *blake3::hash(line.trim_ascii_end()).as_bytes()
}
