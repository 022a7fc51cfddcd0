//! The store in memory.

use std::sync::Arc;

use threadfold_store::{MemoryStore, Store};
use threadfold_testkit::ManualClock;
use threadfold_testkit::store_suite::{NOW, Place};

/// A store that stays when it is opened again.
struct InMemory {
    store: Arc<MemoryStore>,
    clock: ManualClock,
}

impl InMemory {
    fn new() -> Self {
        let clock = ManualClock::new(NOW);
        Self { store: Arc::new(MemoryStore::with_clock(clock.clock())), clock }
    }
}

impl Place for InMemory {
    fn open(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as Arc<dyn Store>
    }

    fn clock(&self) -> &ManualClock {
        &self.clock
    }
}

threadfold_testkit::store_suite!(InMemory::new());
