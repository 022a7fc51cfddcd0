//! The store in memory.

use std::sync::Arc;

use threadfold_store::{MemoryStore, Store};
use threadfold_testkit::store_suite::Place;

/// A store that stays when it is opened again.
struct InMemory(Arc<MemoryStore>);

impl Place for InMemory {
    fn open(&self) -> Arc<dyn Store> {
        Arc::clone(&self.0) as Arc<dyn Store>
    }
}

threadfold_testkit::store_suite!(InMemory(Arc::default()));
