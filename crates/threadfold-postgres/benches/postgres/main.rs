//! Cost of storing sessions in PostgreSQL, beside plain inserts of the same bytes into the same
//! server, and beside a file of SQLite on the same disk.
//!
//! All take turns, so that all figures are of the same machine at the same moment; each is the median
//! of several rounds. A record has 248 bytes. The server is as production has it: every commit is
//! synced.

mod appends;
mod frames;
mod import;
mod list;

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use threadfold_postgres::PostgresStore;
use threadfold_sqlite::SqliteStore;
use threadfold_store::Store;
use threadfold_testkit::{Durability, PostgresServer};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome<()> {
    let server = PostgresServer::start(Durability::Synced)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    std::fs::create_dir_all(target)?;
    let folder = tempfile::tempdir_in(target)?;
    runtime.block_on(async {
        let bench = Bench { server, folder: folder.path() };
        appends::measure(&bench).await?;
        frames::measure(&bench).await?;
        import::measure(&bench).await?;
        list::measure(&bench).await
    })
}

/// What is measured.
struct Bench<'a> {
    server: PostgresServer,
    folder: &'a Path,
}

impl Bench<'_> {
    async fn postgres(&self) -> Outcome<Arc<dyn Store>> {
        Ok(Arc::new(PostgresStore::open(&self.server.url().parse()?).await?))
    }

    fn sqlite(&self, name: &str) -> Outcome<Arc<dyn Store>> {
        Ok(Arc::new(SqliteStore::open(self.folder.join(name))?))
    }
}

/// Returns the middle one.
fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// Returns the one below which `share` of all are.
fn quantile(all: &mut [f64], share: f64) -> f64 {
    all.sort_by(f64::total_cmp);
    all[((all.len() as f64 * share) as usize).min(all.len() - 1)]
}

fn claim(name: &str, value: f64, wanted: &str) {
    println!("  {name:<50} {value:>8.2}   wanted: {wanted}");
}
