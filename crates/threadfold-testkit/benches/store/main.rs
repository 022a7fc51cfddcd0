//! Cost of storing a session, compared with a plain file synced equally often.
//!
//! Both take turns, so that all figures are of the same disk at the same moment; each is the median
//! of several rounds. A record has 248 bytes.

mod appends;
mod opening;
mod raw;
mod room;
mod snapshots;

use std::error::Error;
use std::path::Path;

use threadfold_sqlite::SqliteStore;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome<()> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    std::fs::create_dir_all(target)?;
    let folder = tempfile::tempdir_in(target)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        appends::measure(folder.path()).await?;
        opening::measure(folder.path()).await?;
        snapshots::measure(folder.path()).await?;
        room::measure(folder.path()).await
    })
}

/// Opens a store of this name, new.
fn new_store(folder: &Path, name: &str) -> Outcome<SqliteStore> {
    let folder = folder.join(name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    Ok(SqliteStore::open(folder.join("store.db"))?)
}

/// Returns the middle one.
fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}
