//! The store in a file.

use std::sync::Arc;

use tempfile::TempDir;
use threadfold_sqlite::SqliteStore;
use threadfold_store::Store;
use threadfold_testkit::store_suite::Place;

/// A store in a folder of its own.
struct InFolder(TempDir);

impl InFolder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder for a test"))
    }
}

impl Place for InFolder {
    fn open(&self) -> Arc<dyn Store> {
        Arc::new(SqliteStore::open(self.0.path().join("store.db")).expect("it can be opened"))
    }
}

threadfold_testkit::store_suite!(InFolder::new());
