//! A client that does not read: it receives a gap, and costs nobody anything.

use std::time::Duration;

use threadfold_client::SessionMirror;
use threadfold_engine::Frame;

use crate::server::{TestServer, block, emit};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_client_gets_a_gap_and_a_snapshot_and_holds_little() {
    let server = TestServer::start().await;
    let session = server.session("s");
    emit(&session, 0..1).await;
    let (mut stalled, mut reading) = (server.live().await, server.live().await);
    let (mut late, mut timely) = (SessionMirror::default(), SessionMirror::default());
    stalled.subscribe("s", None).await;
    stalled.follow(&mut late, 1).await;
    reading.subscribe("s", None).await;
    let text = "x".repeat(30 << 10);
    for number in 0..600 {
        session.emit(&[block(&format!("big{number}"), &text)]).await.unwrap();
        reading.follow(&mut timely, number + 2).await;
    }
    let (cursor, state) = session.state().await.unwrap();
    assert_eq!(timely.state_hash(), state.hash().to_string(), "the other client has everything");
    assert_eq!(timely.gaps(), 0);
    while late.cursor().is_none_or(|it| it.seq < cursor.seq) {
        let frame: Frame = serde_json::from_value(stalled.next().await.unwrap()).unwrap();
        late.apply(&frame).unwrap();
    }
    assert_eq!(late.gaps(), 1);
    assert_eq!(late.state_hash(), state.hash().to_string());
    let (_, metrics) = server.get("/metrics").await;
    let metrics = String::from_utf8(metrics).unwrap();
    let held = metrics.lines().find_map(|it| it.strip_prefix("threadfold_pending_bytes_max "));
    // The snapshot, which the client asked for by reading again, is as large as the session.
    let held: usize = held.unwrap().parse().unwrap();
    assert!(held < 20 << 20, "{held}");
}

#[tokio::test]
async fn a_client_that_never_reads_is_disconnected() {
    let store = std::sync::Arc::new(threadfold_store::MemoryStore::default());
    let server =
        TestServer::start_with(store, |it| it.limits.heartbeat = Duration::from_millis(20)).await;
    let session = server.session("s");
    emit(&session, 0..1).await;
    let mut stalled = server.live().await;
    stalled.subscribe("s", None).await;
    let text = "x".repeat(256 << 10);
    for number in 0..400 {
        session.emit(&[block(&format!("big{number}"), &text)]).await.unwrap();
        let (_, metrics) = server.get("/metrics").await;
        if String::from_utf8(metrics).unwrap().contains("threadfold_websockets 0") {
            return;
        }
    }
    panic!("it is still connected");
}
