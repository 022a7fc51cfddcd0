//! Durable appends.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use threadfold_core::SessionId;
use threadfold_fold::{LogId, Record, RecordKind, Timestamp};
use threadfold_sqlite::SqliteStore;
use threadfold_store::{Append, BatchId, Epoch, Holder, LeaseStore, LogStore};

use crate::raw::{GroupedFile, RawFile};
use crate::{Outcome, median, new_store};

const RECORD: usize = 248;
const ROUNDS: usize = 9;
const SESSIONS: usize = 256;

/// What a session's writer knows.
pub(crate) struct Log {
    store: Arc<SqliteStore>,
    pub(crate) session: SessionId,
    epoch: Epoch,
    head: u64,
}

impl Log {
    pub(crate) async fn begin(store: &Arc<SqliteStore>, name: &str) -> Outcome<Self> {
        let session = SessionId::from(name);
        let head = store.create(&session, LogId::from("log")).await?.seq;
        let lasting = Duration::from_secs(3600);
        let lease = store.acquire(&session, &Holder::default(), lasting).await?;
        Ok(Self { store: Arc::clone(store), session, epoch: lease.epoch, head })
    }

    pub(crate) async fn append(&mut self, records: Vec<Record>) -> Outcome<()> {
        let mut batch = [0; 16];
        batch[..8].copy_from_slice(&self.head.to_le_bytes());
        let append = Append {
            session: self.session.clone(),
            epoch: self.epoch,
            after: self.head,
            batch: BatchId(batch),
            records,
        };
        self.head = self.store.append(append).await?.last;
        Ok(())
    }
}

/// Returns a record as a stream emits it.
pub(crate) fn record(number: u64) -> Record {
    let mut bytes = format!("{{\"type\":\"stream_event\",\"number\":{number},\"text\":\"");
    while bytes.len() < RECORD - 3 {
        bytes.push(char::from(b'a' + ((number as usize * 7 + bytes.len() * 13) % 26) as u8));
    }
    bytes.push_str("\"}\n");
    let position = number * RECORD as u64;
    let (kind, received) = (RecordKind::Line, Timestamp(number as i64));
    Record { kind, source: 1, position, received, bytes: bytes.into() }
}

/// Measures both ways of each size, in turns.
pub(crate) async fn measure(folder: &Path) -> Outcome<()> {
    println!("durable appends of 248 bytes, median of {ROUNDS} rounds\n");
    println!("{:<44} {:>12} {:>12}", "", "raw file", "store");
    let one = commits(folder, 1, 400).await?;
    let hundred = commits(folder, 100, 200).await?;
    let many = sessions(folder).await?;
    row("1 a commit, µs an append", one.0 * 1e6, one.1 * 1e6);
    row("100 a commit, records a second", 100.0 / hundred.0, 100.0 / hundred.1);
    row("256 sessions that wait, records a second", many.0, many.1);
    println!("\nratios of this run");
    claim("time of one a commit, store / raw", one.1 / one.0, "at most 1.5");
    claim("rate of 100 a commit, store / raw", hundred.0 / hundred.1, "at least 0.5");
    claim("rate of 256 sessions, store / raw", many.1 / many.0, "at least 0.33");
    Ok(())
}

pub(crate) fn row(name: &str, raw: f64, ours: f64) {
    println!("{name:<44} {raw:>12.0} {ours:>12.0}");
}

pub(crate) fn claim(name: &str, ratio: f64, wanted: &str) {
    println!("  {name:<42} {ratio:>8.2}   wanted: {wanted}");
}

/// Returns the seconds that a commit of `size` records takes: raw, and ours.
async fn commits(folder: &Path, size: u64, commits: u64) -> Outcome<(f64, f64)> {
    let mut raw = RawFile::new(&folder.join("raw"))?;
    let store = Arc::new(new_store(folder, "commits")?);
    let mut log = Log::begin(&store, "session").await?;
    let (mut raw_times, mut our_times) = (Vec::new(), Vec::new());
    let mut number = 0;
    for _ in 0..ROUNDS {
        let all: Vec<Vec<Record>> = (0..commits)
            .map(|_| {
                number += size;
                (number - size..number).map(record).collect()
            })
            .collect();
        let start = Instant::now();
        for records in &all {
            let bytes: Vec<u8> = records.iter().flat_map(|it| it.bytes.iter().copied()).collect();
            raw.append(&bytes)?;
        }
        raw_times.push(start.elapsed().as_secs_f64() / commits as f64);
        let start = Instant::now();
        for records in all {
            log.append(records).await?;
        }
        our_times.push(start.elapsed().as_secs_f64() / commits as f64);
    }
    Ok((median(raw_times), median(our_times)))
}

/// Returns records a second of many sessions that each wait: raw, and ours.
async fn sessions(folder: &Path) -> Outcome<(f64, f64)> {
    const APPENDS: u64 = 100;
    let raw = GroupedFile::new(&folder.join("raw-grouped"))?;
    let store = Arc::new(new_store(folder, "sessions")?);
    let mut logs = Vec::new();
    for number in 0..SESSIONS {
        logs.push(Log::begin(&store, &format!("session {number}")).await?);
    }
    let (mut raw_rates, mut our_rates) = (Vec::new(), Vec::new());
    let records = (SESSIONS as u64 * APPENDS) as f64;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let writing: Vec<_> = (0..SESSIONS)
            .map(|_| {
                let raw = raw.clone();
                tokio::spawn(async move {
                    for number in 0..APPENDS {
                        raw.append(record(number).bytes.to_vec()).await?;
                    }
                    Outcome::Ok(())
                })
            })
            .collect();
        for writer in writing {
            writer.await??;
        }
        raw_rates.push(records / start.elapsed().as_secs_f64());

        let start = Instant::now();
        let writing: Vec<_> = std::mem::take(&mut logs)
            .into_iter()
            .map(|mut log| {
                tokio::spawn(async move {
                    for number in 0..APPENDS {
                        log.append(vec![record(number)]).await?;
                    }
                    Outcome::Ok(log)
                })
            })
            .collect();
        for writer in writing {
            logs.push(writer.await??);
        }
        our_rates.push(records / start.elapsed().as_secs_f64());
    }
    Ok((median(raw_rates), median(our_rates)))
}
