//! What a session's log holds already of a database.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use threadfold_fold::{RecordKind, SourceSpec};

use super::LogRead;
use crate::error::EngineError;
use crate::session::Session;

/// A row may be seen so many milliseconds later than another that has a later time.
const SLACK: i64 = 10_000;

/// What was taken of a database: how far its log, and its rows as they were.
#[derive(Clone, Debug, Default)]
pub(super) struct RowProgress {
    pub(super) log: LogRead,
    /// Rows by table and name, as hashes of what was said last.
    rows: HashMap<(String, String), [u8; 32]>,
    /// The latest time of a row, by table and session.
    since: BTreeMap<(String, String), i64>,
}

#[derive(Deserialize)]
struct Noted<'a> {
    #[serde(borrow)]
    aggregate_id: Option<Cow<'a, str>>,
    seq: Option<i64>,
    #[serde(borrow)]
    table: Option<Cow<'a, str>>,
    #[serde(borrow)]
    row: Option<NotedRow<'a>>,
}

#[derive(Deserialize)]
struct NotedRow<'a> {
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    session_id: Option<Cow<'a, str>>,
    time_updated: Option<i64>,
}

impl RowProgress {
    /// Finds out what a session's log holds.
    pub(super) async fn of(session: &mut Session, spec: &SourceSpec) -> Result<Self, EngineError> {
        let parts: Vec<u32> = session
            .fold()
            .sources()
            .filter(|it| it.spec.is_same_source(spec))
            .map(|it| it.number)
            .collect();
        let mut said = Self::default();
        if parts.is_empty() {
            return Ok(said);
        }
        let mut pieces = Vec::new();
        session
            .read_back(|record| {
                if !parts.contains(&record.source) {
                    return;
                }
                match record.kind {
                    RecordKind::Line => said.note(&record.bytes),
                    RecordKind::Piece => pieces.extend_from_slice(&record.bytes),
                    RecordKind::LastPiece => {
                        pieces.extend_from_slice(&record.bytes);
                        said.note(&std::mem::take(&mut pieces));
                    }
                    _ => {}
                }
            })
            .await?;
        Ok(said)
    }

    /// Returns from when on the rows of a session in a table may be new.
    pub(super) fn since(&self, table: &str, session: &str) -> i64 {
        let latest = self.since.get(&(table.to_owned(), session.to_owned()));
        latest.map_or(i64::MIN, |latest| latest.saturating_sub(SLACK))
    }

    /// Says whether a row is as it was said last.
    pub(super) fn has(&self, line: &[u8]) -> bool {
        row_of(line).is_some_and(|row| self.rows.get(&row.key) == Some(&hash(line)))
    }

    /// Remembers a line.
    pub(super) fn note(&mut self, line: &[u8]) {
        if let Some(Row { key, session, time }) = row_of(line) {
            let since = self.since.entry((key.0.clone(), session)).or_insert(i64::MIN);
            *since = time.map_or(*since, |time| time.max(*since));
            self.rows.insert(key, hash(line));
        } else if let Ok(Noted { aggregate_id: Some(id), seq: Some(seq), .. }) =
            serde_json::from_slice(line)
        {
            let last = self.log.entry(id.into_owned()).or_insert(seq);
            *last = seq.max(*last);
        }
    }
}

/// A row, as far as it matters here.
struct Row {
    /// Its table and its name.
    key: (String, String),
    session: String,
    time: Option<i64>,
}

fn row_of(line: &[u8]) -> Option<Row> {
    let noted: Noted<'_> = serde_json::from_slice(line).ok()?;
    let (table, row) = (noted.table?, noted.row?);
    let id = row.id?.into_owned();
    let session = row.session_id.map_or_else(|| id.clone(), Cow::into_owned);
    Some(Row { key: (table.into_owned(), id), session, time: row.time_updated })
}

fn hash(line: &[u8]) -> [u8; 32] {
    *blake3::hash(line.trim_ascii_end()).as_bytes()
}
