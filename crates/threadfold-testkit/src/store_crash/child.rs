//! The process that is killed: several writers, each of which reports acknowledged writes.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rusqlite::Connection;
use threadfold_core::SessionId;
use threadfold_fold::{LogId, Record, RecordKind, Timestamp};
use threadfold_sqlite::SqliteStore;
use threadfold_store::{Append, BatchId, Holder, Store};

use super::BoxError;

/// Whether a child writes durably, or as a control that does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Through [`SqliteStore`].
    No,
    /// To a database that is never synced: a harness that detects no loss here is broken.
    Unsynced,
}

/// How many records the control writes at once.
const UNSYNCED_ROWS: u64 = 3;

/// Appends until it is killed, or until each writer has made `appends`.
///
/// After each acknowledgement it prints the writer's number and its last record number.
pub fn child(path: &Path, writers: u64, appends: u64, control: Control) -> Result<(), BoxError> {
    if control == Control::Unsynced {
        return write_unsynced(path, appends);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(path)?);
        let writing: Vec<_> = (0..writers)
            .map(|number| tokio::spawn(write(Arc::clone(&store), number, appends)))
            .collect();
        // A fenced writer must not stop the others between a write and its report: the write would
        // be durable without having been reported.
        let mut first_error = Ok(());
        for writer in writing {
            let done = writer.await?;
            first_error = first_error.and(done);
        }
        first_error
    })
}

async fn write(store: Arc<dyn Store>, number: u64, appends: u64) -> Result<(), BoxError> {
    let session = session(number);
    let head = store.create(&session, LogId::from("log")).await?;
    let holder = Holder { process: std::process::id(), ..Holder::default() };
    let minute = Duration::from_secs(60);
    let lease = store.take_over(&session, &holder, minute, head.epoch).await?;
    let mut after = head.seq;
    for round in 0..appends {
        let count = 1 + (after + number) % 4;
        let mut batch = [0; 16];
        batch[..8].copy_from_slice(&after.to_le_bytes());
        batch[8..].copy_from_slice(&lease.epoch.0.to_le_bytes());
        let append = Append {
            session: session.clone(),
            epoch: lease.epoch,
            after,
            batch: BatchId(batch),
            records: (after + 1..=after + count).map(|seq| expected(number, seq)).collect(),
        };
        after = store.append(append).await?.last;
        tell(number, after)?;
        if round % 64 == 63 {
            // Derived data must survive a kill at any moment, too.
            let bytes = Bytes::from(vec![round as u8; 100_000]);
            let snapshot = threadfold_store::StoredSnapshot { generation: 1, seq: after, bytes };
            store.put_snapshot(&session, snapshot).await?;
        }
    }
    Ok(())
}

fn write_unsynced(path: &Path, appends: u64) -> Result<(), BoxError> {
    let connection = Connection::open(path)?;
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;
         CREATE TABLE IF NOT EXISTS log (seq INTEGER PRIMARY KEY, data BLOB NOT NULL)",
    )?;
    let mut seq = 0;
    for _ in 0..appends {
        connection.execute_batch("BEGIN")?;
        for _ in 0..UNSYNCED_ROWS {
            seq += 1;
            let data = expected(0, seq).bytes;
            connection.execute("INSERT INTO log (data) VALUES (?1)", [&data[..]])?;
        }
        connection.execute_batch("COMMIT")?;
        tell(0, seq)?;
    }
    Ok(())
}

/// Reports an acknowledged record in a single write, so that the line is complete or absent.
fn tell(number: u64, seq: u64) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(format!("{number} {seq}\n").as_bytes())?;
    out.flush()
}

/// Returns the session of a writer.
pub(super) fn session(number: u64) -> SessionId {
    SessionId::from(format!("writer-{number}").as_str())
}

/// Returns a writer's record at a position: of varying length, and occasionally long.
pub(super) fn expected(number: u64, seq: u64) -> Record {
    let length = match seq % 100 {
        99 => 30_000,
        rest => rest * 17 % 700,
    };
    let filler = "0123456789abcdef".repeat(length as usize / 16 + 1);
    let bytes =
        format!("{{\"session\":\"writer-{number}\",\"seq\":{seq},\"text\":\"{filler}\"}}\n");
    Record {
        kind: RecordKind::Line,
        source: 1,
        position: seq * 1000,
        received: Timestamp(seq as i64),
        bytes: Bytes::from(bytes),
    }
}
