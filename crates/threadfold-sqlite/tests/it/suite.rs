//! The store suite.

use std::sync::Arc;

use tempfile::TempDir;
use threadfold_sqlite::SqliteStore;
use threadfold_store::Store;
use threadfold_testkit::ManualClock;
use threadfold_testkit::store_suite::{NOW, Place};

/// A store in a folder of its own.
struct InFolder {
    folder: TempDir,
    clock: ManualClock,
}

impl InFolder {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder for a test");
        Self { folder, clock: ManualClock::new(NOW) }
    }
}

impl Place for InFolder {
    fn open(&self) -> Arc<dyn Store> {
        let path = self.folder.path().join("store.db");
        let opened = SqliteStore::open_with_clock(path, self.clock.clock());
        Arc::new(opened.expect("it can be opened"))
    }

    fn clock(&self) -> &ManualClock {
        &self.clock
    }
}

threadfold_testkit::store_suite!(InFolder::new());
