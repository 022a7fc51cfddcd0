//! Follows one session in a database, with its children, while OpenCode writes it.
//!
//! The log is read from its last number, and rows from the latest time seen. Both are restored
//! from the session's own log, so that a stopped follower resumes where it ended.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use threadfold_convert::opencode::AGENT;
use threadfold_fold::{Cutter, SourceRole, SourceSpec};

use super::OpencodeDb;
use super::progress::RowProgress;
use crate::agent_database::DatabaseError;
use crate::error::EngineError;
use crate::files::Intake;
use crate::session::Session;

/// How many bytes of records are written at once.
const BATCH: usize = 4 << 20;

/// Follows one session in a database of OpenCode's, with its children.
#[derive(Debug)]
pub(crate) struct RowFollower {
    path: PathBuf,
    session: String,
    spec: SourceSpec,
    /// The state of the files at the last read.
    seen: Option<Stamp>,
    /// The progress restored from the session's log; `None` until it was read.
    progress: Option<RowProgress>,
}

/// Sizes and modification times of a database and its write-ahead log.
type Stamp = Vec<(u64, Option<SystemTime>)>;

impl RowFollower {
    /// Returns a follower that has not read the database yet.
    pub(crate) fn new(path: &Path, session: &str) -> Self {
        let place = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let name = format!("{session}.rows.jsonl");
        let spec = SourceSpec::new(AGENT, SourceRole::Rows, name);
        Self {
            path: path.to_owned(),
            session: session.to_owned(),
            spec: spec.at(place.to_string_lossy()),
            seen: None,
            progress: None,
        }
    }

    /// Returns the source of the rows.
    pub(crate) fn spec(&self) -> &SourceSpec {
        &self.spec
    }

    /// Reads everything new; unchanged files are not read again.
    pub(crate) async fn read(&mut self, session: &mut Session) -> Result<Intake, EngineError> {
        let seen = stamp(&self.path);
        if self.seen.as_ref() == Some(&seen) {
            return Ok(Intake::default());
        }
        // If anything fails from here on, the progress is restored from the session's log.
        let mut progress = match self.progress.take() {
            Some(progress) => progress,
            None => RowProgress::of(session, &self.spec).await?,
        };
        let lines = news(&OpencodeDb::open(&self.path)?, &self.session, &mut progress)?;
        let taken = self.take(session, &lines).await?;
        self.progress = Some(progress);
        self.seen = Some(seen);
        Ok(taken)
    }

    async fn take(&self, session: &mut Session, lines: &[u8]) -> Result<Intake, EngineError> {
        let mut taken = Intake::default();
        if lines.is_empty() {
            return Ok(taken);
        }
        let source = session.source(&self.spec).await?;
        let known = session.fold().source(&self.spec);
        let offset = known.map_or(0, |it| it.position.offset);
        let mut cutter = Cutter::resume(source, offset, false);
        let (mut batch, mut size) = (Vec::new(), 0);
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            cutter.push(line, &mut batch);
            size += line.len();
            if size >= BATCH {
                taken.records += batch.len() as u64;
                session.accept_in_batches(std::mem::take(&mut batch)).await?;
                size = 0;
            }
        }
        taken.records += batch.len() as u64;
        taken.bytes = lines.len() as u64;
        session.accept_in_batches(batch).await?;
        Ok(taken)
    }
}

/// Returns the database's content of a session that is not in its log yet, as lines.
fn news(
    database: &OpencodeDb,
    session: &str,
    progress: &mut RowProgress,
) -> Result<Vec<u8>, DatabaseError> {
    let family = database.family_of(session)?;
    let (newer, older) = database.by_version(family)?;
    let mut lines = Vec::new();
    database.read_newer(&newer, progress, &mut lines)?;
    if !older.is_empty() {
        older_news(database, &older, progress, &mut lines)?;
    }
    database.check_stillness()?;
    Ok(lines)
}

/// Adds what is new of sessions that only version 1 has.
fn older_news(
    database: &OpencodeDb,
    family: &[String],
    progress: &mut RowProgress,
    lines: &mut Vec<u8>,
) -> Result<(), DatabaseError> {
    if database.is_covered_by_log(family, &progress.log)? {
        return database.read_log(family, &mut progress.log, &mut |record| {
            add(lines, record);
            Ok::<_, DatabaseError>(())
        });
    }
    let before = lines.len();
    for table in ["session", "message", "part"] {
        for id in family {
            let since = progress.since(table, id);
            let start = lines.len();
            database.read_table(table, id, since, &mut |record| {
                add_new(lines, record, progress);
                Ok::<_, DatabaseError>(())
            })?;
            note_all(&lines[start..], progress);
        }
    }
    if lines.len() > before {
        // Sessions are emitted again, because a revert applies only after the messages.
        for id in family {
            database.read_table("session", id, i64::MIN, &mut |record| {
                add(lines, record);
                Ok::<_, DatabaseError>(())
            })?;
        }
    }
    Ok(())
}

/// Appends a record as a line, unless it is unchanged since it was last emitted.
pub(super) fn add_new(lines: &mut Vec<u8>, record: &str, progress: &RowProgress) {
    let start = lines.len();
    add(lines, record);
    if progress.has(&lines[start..]) {
        lines.truncate(start);
    }
}

/// Notes lines as emitted.
pub(super) fn note_all(lines: &[u8], progress: &mut RowProgress) {
    lines.split_inclusive(|byte| *byte == b'\n').for_each(|line| progress.note(line));
}

/// Appends a record as a line.
pub(super) fn add(lines: &mut Vec<u8>, record: &str) {
    // Line ends in JSON occur only between tokens, never inside strings.
    let one_line = |byte: u8| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte };
    lines.extend(record.bytes().map(one_line));
    lines.push(b'\n');
}

/// Returns the sizes and times of a database and its log.
fn stamp(path: &Path) -> Stamp {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let look = |path: &Path| {
        let metadata = path.metadata().ok()?;
        Some((metadata.len(), metadata.modified().ok()))
    };
    [look(path), look(Path::new(&log))].into_iter().flatten().collect()
}
