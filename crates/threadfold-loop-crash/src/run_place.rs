//! Where the log of one run is: in a file of its own, or in a session of a database.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tempfile::TempDir;
use threadfold_core::SessionId;
use threadfold_postgres::PostgresStore;
use threadfold_sqlite::SqliteStore;
use threadfold_store::{Store, StoreError};

use crate::BoxError;

/// The kind of store that runs are kept in.
#[derive(Clone, Debug)]
pub enum StoreKind {
    /// A file for each run. Its processes are on one machine, and one sees that another is gone.
    File,
    /// A database at this address, for all runs. Each process of a run is on a machine of its own,
    /// and only the end of a lease tells it that the one before is gone.
    Postgres(String),
}

/// The store and the session of one run.
#[derive(Clone, Debug)]
pub struct RunPlace {
    /// The path or the address of the store.
    pub store: String,
    /// The session.
    pub session: SessionId,
    /// The folder of the file, which is removed with the last copy of this.
    _folder: Option<Arc<TempDir>>,
}

impl StoreKind {
    /// Returns a place without a log.
    pub(crate) fn place(&self) -> Result<RunPlace, BoxError> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Ok(match self {
            Self::File => {
                let folder = tempfile::tempdir()?;
                let store = folder.path().join("store.db").display().to_string();
                let session = "errands".into();
                RunPlace { store, session, _folder: Some(Arc::new(folder)) }
            }
            Self::Postgres(url) => {
                let number = NEXT.fetch_add(1, Ordering::Relaxed);
                let session = format!("errands-{}-{number}", std::process::id()).into();
                RunPlace { store: url.clone(), session, _folder: None }
            }
        })
    }

    /// Returns whether the processes of a run are on different machines.
    pub(crate) fn is_distributed(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }
}

impl RunPlace {
    /// Returns the place that the arguments of a child name.
    pub fn new(store: &str, session: &str) -> Self {
        Self { store: store.to_owned(), session: session.into(), _folder: None }
    }

    /// Opens the store.
    pub(crate) async fn open(&self) -> Result<Arc<dyn Store>, BoxError> {
        if !self.store.starts_with("postgres") {
            return Ok(Arc::new(SqliteStore::open(PathBuf::from(&self.store))?));
        }
        let opened: Result<PostgresStore, StoreError> =
            PostgresStore::open(&self.store.parse()?).await;
        Ok(Arc::new(opened?))
    }
}
