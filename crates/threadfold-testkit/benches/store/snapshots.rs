//! Snapshots that repeat most of the previous one.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use threadfold_store::{DerivedStore, Maintenance, StoredSnapshot};
use threadfold_testkit::big_session::write_transcript;

use crate::appends::Log;
use crate::{Outcome, new_store};

/// Measures a first snapshot, one that has a little more, and reading it.
pub(crate) async fn measure(folder: &Path) -> Outcome<()> {
    let mut bytes = Vec::new();
    write_transcript(50_000_000, &mut bytes)?;
    let store = Arc::new(new_store(folder, "snapshots")?);
    let log = Log::begin(&store, "session").await?;
    println!("\nsnapshots\n");
    println!("{:<28} {:>8} {:>12} {:>14}", "", "MB", "ms", "MB on disk");
    let mut before = 0.0;
    for (seq, name) in [(1, "the first"), (2, "the next, 10 kB changed")] {
        bytes.splice(20_000_000..20_000_000, vec![b'x'; 10_000]);
        let snapshot = StoredSnapshot { generation: 1, seq, bytes: Bytes::from(bytes.clone()) };
        let start = Instant::now();
        store.put_snapshot(&log.session, snapshot).await?;
        let elapsed = start.elapsed().as_secs_f64() * 1e3;
        let stored = store.size().await?.stored_blob_bytes as f64 / 1e6;
        println!(
            "{name:<28} {:>8.1} {elapsed:>12.0} {:>14.2}",
            bytes.len() as f64 / 1e6,
            stored - before
        );
        before = stored;
    }
    let start = Instant::now();
    let found = store.snapshot(&log.session, 1, u64::MAX).await?.ok_or("it is gone")?;
    let elapsed = start.elapsed().as_secs_f64() * 1e3;
    assert!(found.bytes == bytes);
    println!("{:<28} {:>8.1} {elapsed:>12.0}", "reading it", bytes.len() as f64 / 1e6);
    Ok(())
}
