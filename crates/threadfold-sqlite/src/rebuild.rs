//! Rebuilds a store from the pages of a file that SQLite refuses to read.
//!
//! SQLite needs the first page, the schema and every page on the way to a row. Here each page is
//! read by itself: a leaf of a table contains rows, and their columns tell which table they are of.
//! Of a row that continues on a page that is damaged or missing, the records on the other pages are
//! read; so are those on pages that no row leads to. What was deleted may reappear; rows of the tail
//! that a group contains are left out.

mod page;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::Path;

use rusqlite::{Connection, params};
use threadfold_fold::{Record, StoredRecord};
use threadfold_store::pack::{
    PackedGroup, carve_records, decompress, decompress_partly, pack_row, salvage_group,
    salvage_row, unpack,
};
use threadfold_store::{BlobHash, StoreError};

use self::page::{Pages, Row, Value};
use crate::blobs;
use crate::connect::{self, Location, private_file};
use crate::failure::Failure;
use crate::schema;

/// The largest file that is read; one that is larger is salvaged with SQLite's own tools.
const LARGEST: u64 = 4 << 30;

/// Copies what can be read of a damaged store into a new one, and returns how many sessions have
/// lost their name.
pub(crate) fn rebuild(damaged: &Location, target: &Location) -> Result<u64, StoreError> {
    let bytes = read(&damaged.path).map_err(|error| StoreError::Unreachable {
        place: damaged.name.clone(),
        source: Box::new(error),
    })?;
    // Most stores have none.
    let log = read(&damaged.beside("-wal")).unwrap_or_default();
    let write = || -> Result<u64, Failure> {
        private_file().open(&target.path).map_err(|error| target.unwritable(error))?;
        let mut connection = connect::writer(target)?;
        write_rows(&mut connection, &Pages::new(&bytes, &log))
    };
    write().map_err(|failure| failure.while_writing(&target.name))
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes the rows of the tables that hold records, and returns how many sessions have no name.
fn write_rows(connection: &mut Connection, pages: &Pages<'_>) -> Result<u64, Failure> {
    let transaction = connection.transaction()?;
    let mut found = FoundRows::default();
    for row in pages.rows() {
        found.take(&transaction, row)?;
    }
    found.write_groups(&transaction)?;
    found.write_tail(&transaction)?;
    found.write_orphans(&transaction, &pages.orphans())?;
    let mut nameless = 0;
    for session in found.written {
        nameless += transaction.execute(
            "INSERT OR IGNORE INTO sessions (id, name, log, created, epoch)
             VALUES (?1, 'salvaged-' || ?1, 'salvaged-' || ?1, 0, 0)",
            params![session],
        )?;
    }
    transaction.commit()?;
    Ok(nameless as u64)
}

/// The rows of a damaged store that are not written yet.
#[derive(Default)]
struct FoundRows {
    names: BTreeMap<i64, String>,
    tail: Vec<TailRow>,
    groups: Vec<GroupRow>,
    /// Contents without their ends: their hash, their length and what is left, by row id.
    cut: BTreeMap<i64, (BlobHash, usize, Vec<u8>)>,
    /// The first record and the one behind the last, of what was written of each session's groups.
    grouped: BTreeMap<i64, Vec<(u64, u64)>>,
    /// The sessions of which something was written.
    written: BTreeSet<i64>,
}

struct TailRow {
    place: i64,
    count: u64,
    latest: i64,
    data: Vec<u8>,
}

struct GroupRow {
    place: i64,
    count: u64,
    latest: i64,
    meta: Vec<u8>,
    blob: i64,
}

impl FoundRows {
    /// Takes a row: its columns tell which table it is of.
    fn take(&mut self, target: &Connection, Row { id, values }: Row) -> Result<(), Failure> {
        use Value::{Blob, Integer, Null, Text};
        match values.as_slice() {
            [
                Null,
                Text(name),
                Text(log),
                Integer(created),
                Integer(epoch),
                _,
                _,
                generation,
                seq,
                summary,
            ] => {
                let summary = (generation.integer(), seq.integer(), summary.text());
                target.execute(
                    "INSERT OR IGNORE INTO sessions
                     (id, name, log, created, epoch, summary_generation, summary_seq, summary)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                    params![id, name, log, created, epoch, summary.0, summary.1, summary.2],
                )?;
                self.names.insert(id, name.clone());
            }
            [Null, Integer(count), Integer(latest), Blob(data)] => {
                let count = u64::try_from(*count).unwrap_or_default();
                self.tail.push(TailRow { place: id, count, latest: *latest, data: data.clone() });
            }
            [Null, Blob(directory), Blob(data)] => {
                target.execute(
                    "INSERT OR IGNORE INTO packed_bursts (id, directory, data) VALUES (?1, ?2, ?3)",
                    params![id, directory, data],
                )?;
            }
            [Null, Integer(count), Integer(latest), Blob(meta), Integer(blob)] => {
                let count = u64::try_from(*count).unwrap_or_default();
                let (latest, meta, blob) = (*latest, meta.clone(), *blob);
                self.groups.push(GroupRow { place: id, count, latest, meta, blob });
            }
            [Null, Blob(hash), Integer(length), Integer(stored), Blob(data)] => {
                let Ok(hash) = <[u8; 32]>::try_from(hash.as_slice()).map(BlobHash::from) else {
                    return Ok(());
                };
                let length = usize::try_from(*length).unwrap_or_default();
                let is_intact = decompress(data.clone(), length)
                    .is_ok_and(|content| BlobHash::of(&content) == hash);
                if !is_intact {
                    self.cut.insert(id, (hash, length, data.clone()));
                    return Ok(());
                }
                target.execute(
                    "INSERT OR IGNORE INTO blobs (id, hash, length, stored_at, data)
                     VALUES (?1, ?2, ?3, ?4, ?5)",
                    params![id, hash.as_bytes(), length, stored, data],
                )?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Writes the groups whose content is intact, and the records that are left of the others.
    fn write_groups(&mut self, target: &Connection) -> Result<(), Failure> {
        for GroupRow { place, count, latest, meta, blob } in std::mem::take(&mut self.groups) {
            let (session, first) = (schema::session_of(place), schema::first_of(place));
            let name = self.names.get(&session).cloned().unwrap_or_default();
            let (hash, content, is_intact) = match blobs::read_by_id(target, blob) {
                Ok((hash, content)) => (hash, content, true),
                Err(_) => match self.cut.get(&blob) {
                    Some((hash, length, data)) => (*hash, decompress_partly(data, *length), false),
                    None => continue,
                },
            };
            let packed = PackedGroup {
                session: &name,
                first,
                count,
                meta: &meta,
                hash: &hash,
                content: &content,
            };
            let find = |hash: &BlobHash| {
                blobs::read(target, hash)?.ok_or_else(|| Failure::Corrupt("missing".to_owned()))
            };
            if is_intact && unpack(&packed, find).is_ok() {
                self.written.insert(session);
                self.grouped.entry(session).or_default().push((first, first + count));
                target.execute(
                    "INSERT OR IGNORE INTO groups (place, count, latest, meta, blob)
                     VALUES (?1, ?2, ?3, ?4, ?5)",
                    params![place, count, latest, meta, blob],
                )?;
                continue;
            }
            let records = salvage_group(&packed, |hash| blobs::read(target, hash).ok().flatten());
            for run in runs(records) {
                let (from, to) = (run[0].seq, run[run.len() - 1].seq);
                self.grouped.entry(session).or_default().push((from, to + 1));
                self.write_run(target, session, latest, run)?;
            }
        }
        Ok(())
    }

    /// Writes the rows of the tail, as far as they can be read, without those that are in groups.
    fn write_tail(&mut self, target: &Connection) -> Result<(), Failure> {
        for TailRow { place, count, latest, data } in std::mem::take(&mut self.tail) {
            let (session, first) = (schema::session_of(place), schema::first_of(place));
            let is_grouped = |seq: u64| {
                let within = |group: &(u64, u64)| group.0 <= seq && seq < group.1;
                self.grouped.get(&session).is_some_and(|it| it.iter().any(within))
            };
            if is_grouped(first) {
                continue;
            }
            for run in runs(salvage_row(first, count, &data)) {
                self.write_run(target, session, latest, run)?;
            }
        }
        Ok(())
    }

    /// Writes the records of rows whose beginning is lost: to the session whose id they contain, if
    /// nothing else of it is left, or to one without a name.
    fn write_orphans(&mut self, target: &Connection, orphans: &[Vec<u8>]) -> Result<(), Failure> {
        let empty: Vec<i64> =
            self.names.keys().copied().filter(|id| !self.written.contains(id)).collect();
        for orphan in orphans {
            let records = carve_records(orphan);
            let Some(latest) = records.last().map(|it| it.received.0) else { continue };
            let named: Vec<i64> = self
                .names
                .iter()
                .filter(|(_, name)| records.iter().any(|it| contains(&it.bytes, name.as_bytes())))
                .map(|(id, _)| *id)
                .collect();
            let session = match (named.as_slice(), empty.as_slice()) {
                // A page that is in use no more: what it has is elsewhere.
                ([..], _) if named.iter().any(|it| self.written.contains(it)) => continue,
                ([named, ..], _) => *named,
                ([], [only]) if !self.written.contains(only) => *only,
                _ => {
                    let known = self.names.keys().chain(&self.written).max();
                    known.copied().unwrap_or_default() + 1
                }
            };
            for run in runs(records) {
                self.write_run(target, session, latest, run)?;
            }
        }
        Ok(())
    }

    /// Writes records without a gap as a row of the tail.
    fn write_run(
        &mut self,
        target: &Connection,
        session: i64,
        latest: i64,
        run: Vec<StoredRecord>,
    ) -> Result<(), Failure> {
        let first = run[0].seq;
        let records: Vec<Record> = run.into_iter().map(|it| it.record).collect();
        self.written.insert(session);
        target.execute(
            "INSERT OR IGNORE INTO tail (place, count, latest, data) VALUES (?1, ?2, ?3, ?4)",
            params![
                schema::place(session, first),
                records.len() as u64,
                latest,
                pack_row(first, &[], &records)
            ],
        )?;
        Ok(())
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    !part.is_empty() && bytes.windows(part.len()).any(|it| it == part)
}

/// Splits records where a number is missing.
fn runs(records: Vec<StoredRecord>) -> Vec<Vec<StoredRecord>> {
    let mut runs: Vec<Vec<StoredRecord>> = Vec::new();
    for record in records {
        match runs.last_mut().filter(|run| run.last().is_some_and(|it| it.seq + 1 == record.seq)) {
            Some(run) => run.push(record),
            None => runs.push(vec![record]),
        }
    }
    runs
}
