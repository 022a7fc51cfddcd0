//! Opening a store, and reading a complete log.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use threadfold_sqlite::SqliteStore;
use threadfold_store::{Limit, LogStore};

use crate::appends::{Log, record};
use crate::{Outcome, median, new_store};

const SIZES: [u64; 3] = [1_000, 10_000, 100_000];

/// Measures stores of several sizes.
pub(crate) async fn measure(folder: &Path) -> Outcome<()> {
    println!("\nopening a store, and reading its log\n");
    println!("{:>10} {:>12} {:>14} {:>16}", "records", "opened, ms", "read, MB/s", "written, MB/s");
    for size in SIZES {
        let store = Arc::new(new_store(folder, "opening")?);
        let mut log = Log::begin(&store, "session").await?;
        let start = Instant::now();
        for first in (0..size).step_by(1000) {
            log.append((first..first + 1000).map(record).collect()).await?;
        }
        let written = start.elapsed().as_secs_f64();
        let session = log.session.clone();
        drop((store, log));
        let (mut opened, mut read) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        for _ in 0..5 {
            let start = Instant::now();
            let store = SqliteStore::open(folder.join("opening/store.db"))?;
            let head = store.head(&session).await?.ok_or("the session is gone")?;
            opened.push(start.elapsed().as_secs_f64());
            let start = Instant::now();
            bytes = 0;
            let mut after = 0;
            while after < head.seq {
                for record in store.read(&session, after, Limit::default()).await? {
                    after = record.seq;
                    bytes += record.bytes.len();
                }
            }
            read.push(start.elapsed().as_secs_f64());
        }
        let rate = |seconds: f64| bytes as f64 / 1e6 / seconds;
        let (opened, read) = (median(opened) * 1e3, rate(median(read)));
        println!("{size:>10} {opened:>12.1} {read:>14.0} {:>16.0}", rate(written));
    }
    Ok(())
}
