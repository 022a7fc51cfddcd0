//! Importing a long session, and the room that it takes.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use threadfold_fold::{Record, RecordKind, Timestamp};
use threadfold_store::Store;
use threadfold_testkit::big_session::write_transcript;

use crate::appends::Log;
use crate::{Bench, Outcome, claim};

const SIZE: u64 = 50_000_000;

pub(crate) async fn measure(bench: &Bench<'_>) -> Outcome<()> {
    let mut transcript = Vec::new();
    write_transcript(SIZE, &mut transcript)?;
    let megabytes = transcript.len() as f64 / 1e6;
    let lines = Bytes::from(transcript);
    let before = room(bench)?;
    let ours = import(&bench.postgres().await?, &lines).await?;
    let taken = (room(bench)? - before) / 1e6;
    let file = import(&bench.sqlite("import.db")?, &lines).await?;
    println!("\nimport of the lines of one session of {megabytes:.0} MB, MB a second\n");
    println!("{:<44} {:>12.1}", "PostgreSQL", megabytes / ours);
    println!("{:<44} {:>12.1}", "SQLite", megabytes / file);
    println!("\nroom on disk\n");
    println!("{:<44} {megabytes:>12.1}", "the session's lines, MB");
    println!("{:<44} {taken:>12.1}", "what they add to the database, MB");
    claim("database / lines", taken / megabytes, "less than 1");
    Ok(())
}

/// Returns the size of all tables with their indexes, in bytes.
fn room(bench: &Bench<'_>) -> Outcome<f64> {
    let sum = "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c
               JOIN pg_namespace n ON n.oid = c.relnamespace
               WHERE n.nspname = 'threadfold' AND c.relkind = 'r'";
    Ok(bench.server.sql(sum)?.trim().parse()?)
}

async fn import(store: &Arc<dyn Store>, lines: &Bytes) -> Outcome<f64> {
    let mut log = Log::begin(store, "0b1d8a52-6c0f-4e0e-9f35-000000000000").await?;
    let start = Instant::now();
    let (mut position, mut records, mut size) = (0, Vec::new(), 0);
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        let (kind, received) = (RecordKind::Line, Timestamp(0));
        let bytes = lines.slice_ref(line);
        records.push(Record { kind, source: 1, position, received, bytes });
        position += line.len() as u64;
        size += line.len();
        // As much as the engine appends at once.
        if size > 1 << 20 {
            size = 0;
            log.append(std::mem::take(&mut records)).await?;
        }
    }
    log.append(records).await?;
    Ok(start.elapsed().as_secs_f64())
}
