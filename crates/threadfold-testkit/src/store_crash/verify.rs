//! Checks whether a file contains every acknowledged write.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use threadfold_sqlite::SqliteStore;
use threadfold_store::{Limit, Maintenance, Store};

use super::BoxError;
use super::child::{expected, session};

/// The last acknowledged record of each writer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AcknowledgedWrites {
    last: BTreeMap<u64, u64>,
    /// The number of acknowledgements read.
    pub count: u64,
}

impl AcknowledgedWrites {
    /// Parses one line of a child.
    pub fn hear(&mut self, line: &str) -> Result<(), BoxError> {
        let (writer, seq) = line.trim_end().split_once(' ').ok_or("a child's line is cut off")?;
        self.last.insert(writer.parse()?, seq.parse()?);
        self.count += 1;
        Ok(())
    }

    /// Reads all output of a child.
    pub fn hear_all(&mut self, said: impl Read) -> Result<(), BoxError> {
        for line in BufReader::new(said).lines() {
            self.hear(&line?)?;
        }
        Ok(())
    }

    /// Returns a writer's last acknowledged record.
    pub fn last(&self, writer: u64) -> u64 {
        self.last.get(&writer).copied().unwrap_or(0)
    }
}

/// The result of checking a file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CheckReport {
    /// How long opening took.
    pub(super) opened_in: Duration,
    /// The number of records.
    pub(super) records: u64,
}

/// Opens the store as the next process would, and checks all records from `from`.
///
/// Fails if an acknowledged record is missing, or if any record differs from what was written.
pub(super) fn look(
    path: &Path,
    writers: u64,
    acknowledged: &AcknowledgedWrites,
    from: &mut BTreeMap<u64, u64>,
) -> Result<CheckReport, BoxError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let start = Instant::now();
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(path)?);
        let mut looked = CheckReport { opened_in: start.elapsed(), records: 0 };
        for writer in 0..writers {
            let session = session(writer);
            let after = from.entry(writer).or_default();
            let last = acknowledged.last(writer);
            if store.head(&session).await?.is_none() {
                if last > 0 {
                    return Err(format!("session `{session}` is lost").into());
                }
                continue;
            }
            loop {
                let records = store.read(&session, *after, Limit::default()).await?;
                if records.is_empty() {
                    break;
                }
                for record in records {
                    *after += 1;
                    if record != expected(writer, *after).at(*after) {
                        return Err(format!("session `{session}`: record {after} differs").into());
                    }
                }
            }
            if *after < last {
                let lost = format!("records after {after} are lost, {last} were acknowledged");
                return Err(format!("session `{session}`: {lost}").into());
            }
            looked.records += *after;
        }
        Ok(looked)
    })
}

/// Checks the whole store, as `doctor` does.
pub(super) fn examine(path: &Path) -> Result<(), BoxError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let findings = runtime.block_on(async { SqliteStore::open(path)?.check().await })?;
    match findings.first() {
        None => Ok(()),
        Some(first) => Err(format!("{} findings: {first:?}", findings.len()).into()),
    }
}
