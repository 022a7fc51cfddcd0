//! Clients that disconnect at any moment have the server's state, over SSE and WebSocket, across
//! restarts of the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use threadfold_client::{FollowEvent, SessionMirror};
use threadfold_engine::Frame;
use tokio::net::TcpListener;

use crate::server::{TestServer, block, emit, file_store};

/// Returns numbers that look random, the same in every run.
fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |most| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)) % most
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_disconnect_at_random_have_the_servers_state_at_every_record() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = TestServer::start_with(file_store(&folder), |_| {}).await;
    let (address, mut random) = (server.address, numbers(7));
    let mut socket_mirror = SessionMirror::default();
    let mut followed = server.client().follow("s");
    emit(&server.session("s"), 0..1).await;
    let mut written = 1;
    for round in 0..120 {
        if round % 30 == 29 {
            server.stop().await;
            let listener = TcpListener::bind(address).await.unwrap();
            server = TestServer::start_on(listener, file_store(&folder), |_| {}).await;
        }
        let more = random(6);
        let session = server.session("s");
        let writing = tokio::spawn(async move { emit(&session, written..written + more).await });
        // A WebSocket that is dropped after some frames, with a new ticket each time.
        let mut live = server.live().await;
        live.subscribe("s", socket_mirror.cursor().map(ToString::to_string)).await;
        for _ in 0..=random(3) {
            let frame: Frame = serde_json::from_value(live.next().await.unwrap()).unwrap();
            let is_caught_up = matches!(frame, Frame::Resume { .. })
                && socket_mirror.cursor().is_some_and(|it| it.seq >= written);
            socket_mirror.apply(&frame).unwrap();
            if is_caught_up {
                break;
            }
        }
        drop(live);
        // A stream of events that is dropped as well.
        if random(2) == 0 {
            followed.disconnect();
        }
        writing.await.unwrap();
        written += more;
        while followed.mirror().cursor().is_none_or(|it| it.seq < written) {
            assert_eq!(followed.next().await.unwrap(), FollowEvent::Changed);
        }
        let client = server.client();
        for mirror in [&socket_mirror, followed.mirror()] {
            let seq = mirror.cursor().unwrap().seq;
            let (_, hash) = client.state_hash("s", Some(seq)).await.unwrap();
            assert_eq!(mirror.state_hash(), hash, "at record {seq} of {written}");
        }
    }
    let mut live = server.live().await;
    live.subscribe("s", socket_mirror.cursor().map(ToString::to_string)).await;
    live.follow(&mut socket_mirror, written).await;
    assert_eq!(socket_mirror.state_hash(), followed.mirror().state_hash());
    assert_eq!((socket_mirror.gaps(), followed.mirror().gaps()), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cursor_that_is_too_old_gets_one_gap_and_one_snapshot() {
    let server = TestServer::start().await;
    let session = server.session("s");
    emit(&session, 0..1).await;
    let (first, _) = session.state().await.unwrap();
    let events: Vec<_> = (0..500).map(|it| block(&format!("c{it}"), "text")).collect();
    for _ in 0..21 {
        session.emit(&events).await.unwrap();
    }
    for after in [
        first.to_string(),
        format!("other.{}.1", first.generation),
        format!("{}.{}.1", first.log, first.generation + 1),
        format!("{}.{}.99999999", first.log, first.generation),
    ] {
        let mut live = server.live().await;
        live.subscribe("s", Some(after.clone())).await;
        let gap = live.next().await.unwrap();
        assert_eq!((gap["type"].as_str(), gap["cursor"].as_str()), (Some("gap"), Some(&*after)));
        let snapshot = live.next().await.unwrap();
        assert_eq!(snapshot["type"], "snapshot");
        let mut mirror = SessionMirror::default();
        mirror.apply(&serde_json::from_value(snapshot).unwrap()).unwrap();
        session.emit(&[block("last", "text")]).await.unwrap();
        assert_eq!(live.next().await.unwrap()["type"], "events", "{after}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_join_while_a_session_is_written_miss_nothing() {
    let server = Arc::new(TestServer::start().await);
    let is_done = Arc::new(AtomicBool::new(false));
    emit(&server.session("s"), 0..1).await;
    let (session, done) = (server.session("s"), is_done.clone());
    let writing = tokio::spawn(async move {
        for round in 0..400_u64 {
            let events: Vec<_> =
                (0..3).map(|it| block(&format!("b{round}.{it}"), "text")).collect();
            session.emit(&events).await.unwrap();
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
        done.store(true, Ordering::Release);
    });
    let mut clients = Vec::new();
    while !is_done.load(Ordering::Acquire) {
        let mut live = server.live().await;
        live.subscribe("s", None).await;
        let mut mirror = SessionMirror::default();
        live.follow(&mut mirror, 1).await;
        clients.push((live, mirror));
    }
    writing.await.unwrap();
    assert!(clients.len() > 3, "{}", clients.len());
    let (cursor, state) = server.session("s").state().await.unwrap();
    assert_eq!(cursor.seq, 1201);
    for (mut live, mut mirror) in clients {
        live.follow(&mut mirror, cursor.seq).await;
        assert_eq!(mirror.state_hash(), state.hash().to_string());
    }
}
