//! Checks the whole store for corruption.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rusqlite::Connection;
use threadfold_core::SessionId;
use threadfold_fold::StoredRecord;
use threadfold_store::pack::{PackedGroup, batches, named_blobs, unpack, unpack_row};
use threadfold_store::{BlobHash, Finding, Remedy, Subject};

use crate::blobs;
use crate::bursts;
use crate::cache::parse_holder;
use crate::failure::Failure;
use crate::schema::{first_of, place, session_of};
use crate::snapshots;

/// The ids of all sessions, by row id.
type SessionIds = HashMap<i64, SessionId>;

/// The findings so far.
#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, subject: &Subject, problem: impl Into<String>, remedy: Remedy) {
        self.0.push(Finding::new(subject.clone(), problem, remedy));
    }

    /// Records corruption, and passes on errors of the database itself.
    fn note<T>(
        &mut self,
        subject: &Subject,
        remedy: Remedy,
        found: Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
        match found {
            Ok(value) => Ok(Some(value)),
            Err(Failure::Corrupt(problem)) => {
                self.add(subject, problem, remedy);
                Ok(None)
            }
            Err(other) => Err(other),
        }
    }
}

/// Returns all findings. If SQLite finds its own structures corrupt, nothing else is checked.
pub(crate) fn check(connection: &Connection) -> Result<Vec<Finding>, Failure> {
    let mut findings = Findings::default();
    check_pages(connection, &mut findings)?;
    if findings.0.is_empty() {
        check_contents(connection, &mut findings)?;
    }
    Ok(findings.0)
}

fn check_pages(connection: &Connection, findings: &mut Findings) -> Result<(), Failure> {
    let mut statement = connection.prepare("PRAGMA integrity_check")?;
    let mut rows = statement.query([])?;
    loop {
        match rows.next() {
            Ok(Some(row)) => {
                let line: String = row.get(0)?;
                if line != "ok" {
                    findings.add(&Subject::Store, line, Remedy::RestoreStore);
                }
            }
            Ok(None) => return Ok(()),
            Err(error) => {
                findings.add(&Subject::Store, error.to_string(), Remedy::RestoreStore);
                return Ok(());
            }
        }
    }
}

fn check_contents(connection: &Connection, findings: &mut Findings) -> Result<(), Failure> {
    let ids = check_sessions(connection, findings)?;
    let corrupt = check_blobs(connection, findings)?;
    let mut next: BTreeMap<i64, u64> = BTreeMap::new();
    let mut needed: BTreeSet<(i64, BlobHash)> = BTreeSet::new();
    check_groups(connection, findings, &ids, &mut next, &mut needed)?;
    check_tail(connection, findings, &ids, &mut next)?;
    check_refs(connection, findings, &ids, &needed)?;
    check_snapshots(connection, findings, &ids, &corrupt)
}

fn check_sessions(connection: &Connection, findings: &mut Findings) -> Result<SessionIds, Failure> {
    let mut statement = connection.prepare("SELECT id, name, holder FROM sessions")?;
    let mut rows = statement.query([])?;
    let mut ids = HashMap::new();
    while let Some(row) = rows.next()? {
        let session = SessionId::from(row.get::<_, String>(1)?.as_str());
        if let Some(holder) = row.get::<_, Option<String>>(2)? {
            let subject = Subject::Session(session.clone());
            findings.note(&subject, Remedy::RestoreStore, parse_holder(&holder))?;
        }
        ids.insert(row.get(0)?, session);
    }
    Ok(ids)
}

/// Reads every blob once, and returns what is wrong with each corrupt one.
fn check_blobs(
    connection: &Connection,
    findings: &mut Findings,
) -> Result<HashMap<i64, String>, Failure> {
    let mut statement = connection.prepare("SELECT id FROM blobs")?;
    let mut rows = statement.query([])?;
    let mut corrupt = HashMap::new();
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        match blobs::read_by_id(connection, id) {
            Ok(_) => {}
            Err(Failure::Corrupt(problem)) => {
                // If only snapshots use it, they are reported themselves, and nothing is lost.
                // Whoever stores the same content next rewrites the blob.
                if is_referenced(connection, id)? {
                    findings.add(&Subject::Blob(id), problem.clone(), Remedy::RestoreSession);
                }
                corrupt.insert(id, problem);
            }
            Err(other) => return Err(other),
        }
    }
    Ok(corrupt)
}

/// Returns whether a session refers to a blob, other than through its snapshots.
fn is_referenced(connection: &Connection, id: i64) -> Result<bool, Failure> {
    let is_referenced = connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM groups WHERE blob = ?1)
                 OR EXISTS (SELECT 1 FROM blob_refs WHERE blob = ?1)",
        )?
        .query_row([id], |row| row.get(0))?;
    Ok(is_referenced)
}

/// Returns the subject of a row, after checking that the row continues the session's log.
fn check_continuity(
    findings: &mut Findings,
    ids: &SessionIds,
    next: &mut BTreeMap<i64, u64>,
    row_place: i64,
    count: u64,
) -> Subject {
    let (number, first) = (session_of(row_place), first_of(row_place));
    let Some(session) = ids.get(&number) else {
        let subject = Subject::LostSession(number);
        findings.add(&subject, "it has records, but does not exist", Remedy::RestoreStore);
        return subject;
    };
    let subject = Subject::Records { session: session.clone(), first };
    let expected = next.entry(number).or_insert(1);
    if first != *expected {
        let problem = format!("record {expected} was expected here");
        findings.add(&subject, problem, Remedy::RestoreSession);
    }
    if count == 0 {
        findings.add(&subject, "the row has no records", Remedy::RestoreSession);
    }
    *expected = first.saturating_add(count);
    subject
}

fn check_groups(
    connection: &Connection,
    findings: &mut Findings,
    ids: &SessionIds,
    next: &mut BTreeMap<i64, u64>,
    needed: &mut BTreeSet<(i64, BlobHash)>,
) -> Result<(), Failure> {
    let mut statement =
        connection.prepare("SELECT place, count, meta, blob, latest FROM groups ORDER BY place")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let row_place: i64 = row.get(0)?;
        let count: u64 = row.get(1)?;
        let subject = check_continuity(findings, ids, next, row_place, count);
        let meta: Vec<u8> = row.get(2)?;
        let content = blobs::read_by_id(connection, row.get(3)?);
        let content = findings.note(&subject, Remedy::RestoreSession, content)?;
        let Some((hash, content)) = content else { continue };
        let number = session_of(row_place);
        let packed = PackedGroup {
            session: ids.get(&number).map_or("", SessionId::as_str),
            first: first_of(row_place),
            count,
            meta: &meta,
            hash: &hash,
            content: &content,
        };
        let records = unpack(&packed, |hash| {
            blobs::read(connection, hash)?
                .ok_or_else(|| Failure::Corrupt(format!("blob {hash} is missing")))
        });
        let records = findings.note(&subject, Remedy::RestoreSession, records)?;
        check_latest(findings, &subject, records.as_deref(), row.get(4)?);
        let appends = batches(&meta, packed.first).map_err(Failure::from);
        findings.note(&subject, Remedy::RestoreSession, appends)?;
        let named = named_blobs(&content, count).map_err(Failure::from);
        if let Some(named) = findings.note(&subject, Remedy::RestoreSession, named)? {
            needed.extend(named.into_iter().map(|hash| (number, hash)));
        }
    }
    Ok(())
}

/// Checks the tails and then the bursts, which continue them.
fn check_tail(
    connection: &Connection,
    findings: &mut Findings,
    ids: &SessionIds,
    next: &mut BTreeMap<i64, u64>,
) -> Result<(), Failure> {
    let mut statement =
        connection.prepare("SELECT place, count, data, latest FROM tail ORDER BY place")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let row_place: i64 = row.get(0)?;
        let count: u64 = row.get(1)?;
        let subject = check_continuity(findings, ids, next, row_place, count);
        let data = row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?;
        let records = unpack_row(first_of(row_place), count, data).map_err(Failure::from);
        let records = findings.note(&subject, Remedy::RestoreSession, records)?;
        let records = records.map(|(_, records)| records);
        check_latest(findings, &subject, records.as_deref(), row.get(3)?);
    }
    let burst = bursts::each(connection, |entry, data| {
        let row_place = place(entry.session.cast_signed(), entry.first);
        let subject = check_continuity(findings, ids, next, row_place, entry.count);
        let records = data().and_then(|data| Ok(unpack_row(entry.first, entry.count, &data)?.1));
        let records = findings.note(&subject, Remedy::RestoreSession, records)?;
        check_latest(findings, &subject, records.as_deref(), entry.latest.0);
        Ok(())
    });
    findings.note(&Subject::Store, Remedy::RestoreSession, burst)?;
    Ok(())
}

/// Checks that the time of a row is the time of its last record.
fn check_latest(
    findings: &mut Findings,
    subject: &Subject,
    records: Option<&[StoredRecord]>,
    latest: i64,
) {
    let last = records.and_then(<[_]>::last);
    if last.is_some_and(|record| record.received.0 != latest) {
        let problem = "the time of the last record does not match";
        findings.add(subject, problem, Remedy::RestoreSession);
    }
}

/// Checks that each session refers to every blob that its records need, and that those exist.
fn check_refs(
    connection: &Connection,
    findings: &mut Findings,
    ids: &SessionIds,
    needed: &BTreeSet<(i64, BlobHash)>,
) -> Result<(), Failure> {
    let mut referenced = BTreeSet::new();
    let mut statement = connection
        .prepare("SELECT session, blob, hash FROM blob_refs LEFT JOIN blobs ON blobs.id = blob")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (number, blob): (i64, i64) = (row.get(0)?, row.get(1)?);
        let subject = session_subject(ids, number);
        match row.get::<_, Option<[u8; 32]>>(2)? {
            Some(hash) => drop(referenced.insert((number, BlobHash::from(hash)))),
            None => {
                let problem = format!("blob number {blob} is missing");
                findings.add(&subject, problem, Remedy::RestoreStore);
            }
        }
        if !ids.contains_key(&number) {
            let problem = "it refers to a blob, but does not exist";
            findings.add(&subject, problem, Remedy::RestoreStore);
        }
    }
    for (number, hash) in needed.difference(&referenced) {
        let problem = format!("its records need blob {hash}, but it does not refer to it");
        findings.add(&session_subject(ids, *number), problem, Remedy::RestoreStore);
    }
    Ok(())
}

fn session_subject(ids: &SessionIds, number: i64) -> Subject {
    match ids.get(&number) {
        Some(session) => Subject::Session(session.clone()),
        None => Subject::LostSession(number),
    }
}

fn check_snapshots(
    connection: &Connection,
    findings: &mut Findings,
    ids: &SessionIds,
    corrupt: &HashMap<i64, String>,
) -> Result<(), Failure> {
    let mut statement = connection.prepare("SELECT id, session, generation, seq FROM snapshots")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let number: i64 = row.get(1)?;
        let Some(session) = ids.get(&number) else {
            let problem = "it has a snapshot, but does not exist";
            findings.add(&Subject::LostSession(number), problem, Remedy::RestoreStore);
            continue;
        };
        let subject = Subject::Snapshot {
            session: session.clone(),
            generation: row.get(2)?,
            seq: row.get::<_, i64>(3)?.cast_unsigned(),
        };
        findings.note(
            &subject,
            Remedy::Rebuild,
            snapshots::check(connection, row.get(0)?, corrupt),
        )?;
    }
    let strays = "SELECT count(*) FROM snapshot_chunks
                  WHERE snapshot NOT IN (SELECT id FROM snapshots)";
    if connection.query_row(strays, [], |row| row.get::<_, i64>(0))? > 0 {
        let problem = "there are pieces of a snapshot that does not exist";
        findings.add(&Subject::Store, problem, Remedy::RestoreStore);
    }
    Ok(())
}
