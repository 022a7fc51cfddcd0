//! Many calls at once share few connections.

use std::sync::Arc;
use std::time::{Duration, Instant};

use threadfold_postgres::PostgresStore;
use threadfold_store::{Holder, Store, StoreError};
use threadfold_testkit::{Durability, PostgresServer};

/// Several times as many as a store has connections.
const CALLS: usize = 64;
const LEASE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_are_refused_at_once_do_not_wait_for_each_others_connections() {
    let server = PostgresServer::start(Durability::Fast).expect("PostgreSQL can be started");
    let url = server.url().parse().expect("its address is a URL");
    let store: Arc<dyn Store> = Arc::new(PostgresStore::open(&url).await.expect("it is opened"));
    let session = "session".into();
    store.create(&session, "log".into()).await.expect("it is created");
    store.acquire(&session, &Holder::default(), LEASE).await.expect("it is free");
    let start = Instant::now();
    let calls: Vec<_> = (0..CALLS)
        .map(|number| {
            let (store, session) = (store.clone(), session.clone());
            tokio::spawn(async move {
                store.create(&session, format!("log {number}").into()).await?;
                store.acquire(&session, &Holder::default(), LEASE).await
            })
        })
        .collect();
    for call in calls {
        let refused = call.await.expect("it does not panic");
        assert!(matches!(refused, Err(StoreError::Held { .. })), "{refused:?}");
    }
    // Whoever waits for a connection in vain does so for ten seconds.
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
}
