//! Whether a file holds what was acknowledged.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use threadfold_sqlite::SqliteStore;
use threadfold_store::{Limit, Maintenance, Store};

use super::BoxError;
use super::child::{expected, session};

/// The last record of each writer that was acknowledged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acknowledged {
    last: BTreeMap<u64, u64>,
    /// How many acknowledgements were heard.
    pub count: u64,
}

impl Acknowledged {
    /// Takes down one line of a child.
    pub fn hear(&mut self, line: &str) -> Result<(), BoxError> {
        let (writer, seq) = line.trim_end().split_once(' ').ok_or("a child's line is cut off")?;
        self.last.insert(writer.parse()?, seq.parse()?);
        self.count += 1;
        Ok(())
    }

    /// Hears all that a child said.
    pub fn hear_all(&mut self, said: impl Read) -> Result<(), BoxError> {
        for line in BufReader::new(said).lines() {
            self.hear(&line?)?;
        }
        Ok(())
    }

    /// Returns the last record that was acknowledged of a writer.
    pub fn last(&self, writer: u64) -> u64 {
        self.last.get(&writer).copied().unwrap_or(0)
    }
}

/// What a look at a file told.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Looked {
    /// How long it took to open.
    pub(super) opened_in: Duration,
    /// How many records there are.
    pub(super) records: u64,
}

/// Opens the store as the next process would, and checks all records from `from` on.
///
/// Returns an error if anything acknowledged is missing, or any record is not what was written.
pub(super) fn look(
    path: &Path,
    writers: u64,
    acknowledged: &Acknowledged,
    from: &mut BTreeMap<u64, u64>,
) -> Result<Looked, BoxError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let start = Instant::now();
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(path)?);
        let mut looked = Looked { opened_in: start.elapsed(), records: 0 };
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

/// Looks at everything in a store, as a doctor does.
pub(super) fn examine(path: &Path) -> Result<(), BoxError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let findings = runtime.block_on(async { SqliteStore::open(path)?.check().await })?;
    match findings.first() {
        None => Ok(()),
        Some(first) => Err(format!("{} findings: {first:?}", findings.len()).into()),
    }
}
