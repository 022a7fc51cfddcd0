//! The store suite.

use std::sync::Arc;

use threadfold_postgres::{PostgresStore, PostgresUrl};
use threadfold_store::Store;
use threadfold_testkit::store_suite::{NOW, Place};
use threadfold_testkit::{Durability, ManualClock, PostgresServer};
use tokio::runtime::Handle;
use tokio::task::block_in_place;

/// A store in a server of its own.
struct OnServer {
    url: PostgresUrl,
    clock: ManualClock,
    _server: PostgresServer,
}

impl OnServer {
    fn new() -> Self {
        let server = PostgresServer::start(Durability::Fast).expect("PostgreSQL can be started");
        let url = server.url().parse().expect("its address is a URL");
        Self { url, clock: ManualClock::new(NOW), _server: server }
    }
}

impl Place for OnServer {
    fn open(&self) -> Arc<dyn Store> {
        let opening = PostgresStore::open_with_clock(&self.url, self.clock.clock());
        let opened = block_in_place(|| Handle::current().block_on(opening));
        Arc::new(opened.expect("it can be opened"))
    }

    fn clock(&self) -> &ManualClock {
        &self.clock
    }
}

threadfold_testkit::store_suite!(OnServer::new());
