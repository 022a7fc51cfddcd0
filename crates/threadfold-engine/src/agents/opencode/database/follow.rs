//! One session in a database, with its children, followed while OpenCode writes it.
//!
//! The log is read on from its last number, and rows from the latest time that was seen. Where
//! that is, the session's own log tells: who is stopped goes on where it was.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use threadfold_convert::opencode::AGENT;
use threadfold_fold::{Cutter, SourceRole, SourceSpec};

use super::OpencodeDb;
use super::progress::RowProgress;
use crate::database::DatabaseError;
use crate::error::EngineError;
use crate::files::Intake;
use crate::session::Session;

/// How many bytes of records are kept at once.
const BATCH: usize = 4 << 20;

/// Follows one session in a database of OpenCode's, with its children.
#[derive(Debug)]
pub(crate) struct RowFollower {
    path: PathBuf,
    session: String,
    spec: SourceSpec,
    /// How the files looked when they were read last.
    seen: Option<Stamp>,
    /// What is in the session's log; nothing until that was looked at.
    said: Option<RowProgress>,
}

/// Lengths and times of a database and of the log beside it.
type Stamp = Vec<(u64, Option<SystemTime>)>;

impl RowFollower {
    /// Returns a follower who has not looked at the database yet.
    pub(crate) fn new(path: &Path, session: &str) -> Self {
        let place = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let name = format!("{session}.rows.jsonl");
        let spec = SourceSpec::new(AGENT, SourceRole::Rows, name);
        Self {
            path: path.to_owned(),
            session: session.to_owned(),
            spec: spec.at(place.to_string_lossy()),
            seen: None,
            said: None,
        }
    }

    /// Takes all that is new; what was written is not looked at twice.
    pub(crate) async fn read(&mut self, session: &mut Session) -> Result<Intake, EngineError> {
        let seen = stamp(&self.path);
        if self.seen.as_ref() == Some(&seen) {
            return Ok(Intake::default());
        }
        // If anything fails from here on, the session's log tells what was taken.
        let mut said = match self.said.take() {
            Some(said) => said,
            None => RowProgress::of(session, &self.spec).await?,
        };
        let lines = news(&OpencodeDb::open(&self.path)?, &self.session, &mut said)?;
        let taken = self.take(session, &lines).await?;
        self.said = Some(said);
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
                session.accept(std::mem::take(&mut batch)).await?;
                size = 0;
            }
        }
        taken.records += batch.len() as u64;
        taken.bytes = lines.len() as u64;
        session.accept(batch).await?;
        Ok(taken)
    }
}

/// Returns what a database tells of a session and was not said yet, as lines.
fn news(
    database: &OpencodeDb,
    session: &str,
    said: &mut RowProgress,
) -> Result<Vec<u8>, DatabaseError> {
    let family = database.family_of(session)?;
    let mut lines = Vec::new();
    if database.is_told_by_log(&family, &said.log)? {
        database.read_log(&family, &mut said.log, &mut |record| {
            add(&mut lines, record);
            Ok::<_, DatabaseError>(())
        })?;
    } else {
        for table in ["session", "message", "part"] {
            for id in &family {
                let since = said.since(table, id);
                let start = lines.len();
                database.read_table(table, id, since, &mut |record| {
                    let start = lines.len();
                    add(&mut lines, record);
                    // Rows of one moment are compared with what was said.
                    if said.has(&lines[start..]) {
                        lines.truncate(start);
                    }
                    Ok::<_, DatabaseError>(())
                })?;
                let new = lines[start..].split_inclusive(|byte| *byte == b'\n');
                new.for_each(|line| said.note(line));
            }
        }
        if !lines.is_empty() {
            // Sessions come once more: what one was taken back to is known only now.
            for id in &family {
                database.read_table("session", id, i64::MIN, &mut |record| {
                    add(&mut lines, record);
                    Ok::<_, DatabaseError>(())
                })?;
            }
        }
    }
    database.check_stillness()?;
    Ok(lines)
}

/// Adds a record as a line.
fn add(lines: &mut Vec<u8>, record: &str) {
    // JSON has no line ends inside strings.
    let one_line = |byte: u8| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte };
    lines.extend(record.bytes().map(one_line));
    lines.push(b'\n');
}

/// Returns how a database and its log look.
fn stamp(path: &Path) -> Stamp {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let look = |path: &Path| {
        let metadata = path.metadata().ok()?;
        Some((metadata.len(), metadata.modified().ok()))
    };
    [look(path), look(Path::new(&log))].into_iter().flatten().collect()
}
