//! Looking at everything, for a doctor.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rusqlite::Connection;

use crate::blobs;
use crate::bursts;
use crate::cache::parse_holder;
use crate::failure::Failure;
use crate::schema::{first_of, place, session_of};
use crate::snapshots;
use threadfold_store::BlobHash;
use threadfold_store::StoredRecord;
use threadfold_store::pack::{PackedGroup, batches, named_blobs, unpack, unpack_row};

/// Something that is wrong in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// Where it is.
    pub place: String,
    /// What is wrong.
    pub what: String,
    /// What can be done about it.
    pub advice: &'static str,
}

const FROM_BACKUP: &str = "restore the store from a backup; `threadfold export SESSION --salvage --output FOLDER` writes what can still be read. If the agent still has its files: remove the session, collect garbage at once (`threadfold rm`, `gc --now`) and import it again";
const DELETE_DERIVED: &str = "delete what was derived of the session; it will be made again";
const COPY: &str = "restore the store from a backup, or `threadfold export` what can be read of its sessions, and import that into a new one";

/// What was found so far.
#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, place: impl Into<String>, what: impl Into<String>, advice: &'static str) {
        self.0.push(Finding { place: place.into(), what: what.into(), advice });
    }

    /// Notes what is damaged, and lets pass what the database itself says.
    fn note<T>(
        &mut self,
        place: &str,
        advice: &'static str,
        found: Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
        match found {
            Ok(value) => Ok(Some(value)),
            Err(Failure::Corrupt(what)) => {
                self.add(place, what, advice);
                Ok(None)
            }
            Err(other) => Err(other),
        }
    }
}

/// Returns all that is wrong. What SQLite itself cannot read ends the search.
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
                    findings.add("the file", line, COPY);
                }
            }
            Ok(None) => return Ok(()),
            Err(error) => {
                findings.add("the file", error.to_string(), COPY);
                return Ok(());
            }
        }
    }
}

fn check_contents(connection: &Connection, findings: &mut Findings) -> Result<(), Failure> {
    let names = check_sessions(connection, findings)?;
    check_blobs(connection, findings)?;
    let mut next: BTreeMap<i64, u64> = BTreeMap::new();
    let mut needed: BTreeSet<(i64, BlobHash)> = BTreeSet::new();
    check_groups(connection, findings, &names, &mut next, &mut needed)?;
    check_tail(connection, findings, &names, &mut next)?;
    check_refs(connection, findings, &names, &needed)?;
    check_snapshots(connection, findings, &names)
}

fn check_sessions(
    connection: &Connection,
    findings: &mut Findings,
) -> Result<HashMap<i64, String>, Failure> {
    let mut statement = connection.prepare("SELECT id, name, holder FROM sessions")?;
    let mut rows = statement.query([])?;
    let mut names = HashMap::new();
    while let Some(row) = rows.next()? {
        let name: String = row.get(1)?;
        if let Some(holder) = row.get::<_, Option<String>>(2)? {
            findings.note(&format!("session `{name}`"), COPY, parse_holder(&holder))?;
        }
        names.insert(row.get(0)?, name);
    }
    Ok(names)
}

fn check_blobs(connection: &Connection, findings: &mut Findings) -> Result<(), Failure> {
    let mut statement = connection.prepare("SELECT id FROM blobs")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        match blobs::read_by_id(connection, id) {
            Err(Failure::Corrupt(what)) if is_kept(connection, id)? => {
                findings.add(format!("blob number {id}"), what, FROM_BACKUP);
            }
            // It is told of the snapshots that name it, and is no loss. Whoever keeps the same
            // content next writes it anew.
            Ok(_) | Err(Failure::Corrupt(_)) => {}
            Err(other) => return Err(other),
        }
    }
    Ok(())
}

/// Says whether a session keeps a blob, other than for its snapshots.
fn is_kept(connection: &Connection, id: i64) -> Result<bool, Failure> {
    let is_kept = connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM groups WHERE blob = ?1)
                 OR EXISTS (SELECT 1 FROM blob_refs WHERE blob = ?1)",
        )?
        .query_row([id], |row| row.get(0))?;
    Ok(is_kept)
}

/// Says where a row is, and notes whether it follows the one before.
fn follows(
    findings: &mut Findings,
    names: &HashMap<i64, String>,
    next: &mut BTreeMap<i64, u64>,
    row_place: i64,
    count: u64,
) -> String {
    let (session, first) = (session_of(row_place), first_of(row_place));
    let Some(name) = names.get(&session) else {
        let place = format!("session number {session}");
        findings.add(place.as_str(), "there are records of a session that is not there", COPY);
        return place;
    };
    let place = format!("session `{name}`, record {first}");
    let expected = next.entry(session).or_insert(1);
    if first != *expected {
        findings.add(place.as_str(), format!("record {expected} was to come"), FROM_BACKUP);
    }
    if count == 0 {
        findings.add(place.as_str(), "it stands for no records", FROM_BACKUP);
    }
    *expected = first.saturating_add(count);
    place
}

fn check_groups(
    connection: &Connection,
    findings: &mut Findings,
    names: &HashMap<i64, String>,
    next: &mut BTreeMap<i64, u64>,
    needed: &mut BTreeSet<(i64, BlobHash)>,
) -> Result<(), Failure> {
    let mut statement =
        connection.prepare("SELECT place, count, meta, blob, latest FROM groups ORDER BY place")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let row_place: i64 = row.get(0)?;
        let count: u64 = row.get(1)?;
        let place = follows(findings, names, next, row_place, count);
        let meta: Vec<u8> = row.get(2)?;
        let content = blobs::read_by_id(connection, row.get(3)?);
        let Some((hash, content)) = findings.note(&place, FROM_BACKUP, content)? else { continue };
        let session = session_of(row_place);
        let packed = PackedGroup {
            session: names.get(&session).map_or("", String::as_str),
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
        let records = findings.note(&place, FROM_BACKUP, records)?;
        check_latest(findings, &place, records.as_deref(), row.get(4)?);
        let appends = batches(&meta, packed.first).map_err(Failure::from);
        findings.note(&place, FROM_BACKUP, appends)?;
        let named = named_blobs(&content, count).map_err(Failure::from);
        if let Some(named) = findings.note(&place, FROM_BACKUP, named)? {
            needed.extend(named.into_iter().map(|hash| (session, hash)));
        }
    }
    Ok(())
}

fn check_tail(
    connection: &Connection,
    findings: &mut Findings,
    names: &HashMap<i64, String>,
    next: &mut BTreeMap<i64, u64>,
) -> Result<(), Failure> {
    let mut statement =
        connection.prepare("SELECT place, count, data, latest FROM tail ORDER BY place")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let row_place: i64 = row.get(0)?;
        let count: u64 = row.get(1)?;
        let place = follows(findings, names, next, row_place, count);
        let data = row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?;
        let records = unpack_row(first_of(row_place), count, data).map_err(Failure::from);
        let records = findings.note(&place, FROM_BACKUP, records)?.map(|(_, records)| records);
        check_latest(findings, &place, records.as_deref(), row.get(3)?);
    }
    let burst = bursts::each(connection, |entry, data| {
        let row_place = place(entry.session.cast_signed(), entry.first);
        let place = follows(findings, names, next, row_place, entry.count);
        let records = data().and_then(|data| Ok(unpack_row(entry.first, entry.count, &data)?.1));
        let records = findings.note(&place, FROM_BACKUP, records)?;
        check_latest(findings, &place, records.as_deref(), entry.latest.0);
        Ok(())
    });
    findings.note("a burst", FROM_BACKUP, burst)?;
    Ok(())
}

/// The time in a row is the time of its last record.
fn check_latest(
    findings: &mut Findings,
    place: &str,
    records: Option<&[StoredRecord]>,
    latest: i64,
) {
    let last = records.and_then(<[_]>::last);
    if last.is_some_and(|record| record.received.0 != latest) {
        findings.add(place, "the time of its last record is another", FROM_BACKUP);
    }
}

/// Every blob that records name is kept for their session, and what is kept is there.
fn check_refs(
    connection: &Connection,
    findings: &mut Findings,
    names: &HashMap<i64, String>,
    needed: &BTreeSet<(i64, BlobHash)>,
) -> Result<(), Failure> {
    let mut kept = BTreeSet::new();
    let mut statement = connection
        .prepare("SELECT session, blob, hash FROM blob_refs LEFT JOIN blobs ON blobs.id = blob")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (session, blob): (i64, i64) = (row.get(0)?, row.get(1)?);
        let place = format!("session number {session}");
        match row.get::<_, Option<[u8; 32]>>(2)? {
            Some(hash) => drop(kept.insert((session, BlobHash::from(hash)))),
            None => findings.add(place.as_str(), format!("blob number {blob} is missing"), COPY),
        }
        if !names.contains_key(&session) {
            findings.add(place, "it keeps a blob, and is not there", COPY);
        }
    }
    for (session, hash) in needed.difference(&kept) {
        let name = names.get(session).map_or("?", String::as_str);
        let what = format!("it needs blob {hash}, and does not keep it");
        findings.add(format!("session `{name}`"), what, COPY);
    }
    Ok(())
}

fn check_snapshots(
    connection: &Connection,
    findings: &mut Findings,
    names: &HashMap<i64, String>,
) -> Result<(), Failure> {
    let mut statement = connection.prepare("SELECT id, session, seq FROM snapshots")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let session: i64 = row.get(1)?;
        let place = match names.get(&session) {
            Some(name) => format!("session `{name}`, snapshot at record {}", row.get::<_, i64>(2)?),
            None => {
                let place = format!("session number {session}");
                findings.add(place.as_str(), "it has a snapshot, and is not there", COPY);
                place
            }
        };
        findings.note(&place, DELETE_DERIVED, snapshots::read(connection, row.get(0)?))?;
    }
    let strays = "SELECT count(*) FROM snapshot_chunks
                  WHERE snapshot NOT IN (SELECT id FROM snapshots)";
    if connection.query_row(strays, [], |row| row.get::<_, i64>(0))? > 0 {
        findings.add("the snapshots", "there are pieces of one that is not there", COPY);
    }
    Ok(())
}
