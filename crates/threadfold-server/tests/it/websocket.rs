//! Sessions over a WebSocket.

use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use threadfold_client::SessionMirror;
use tokio_tungstenite::tungstenite::Message;

use crate::connection::{exchange, upgrade};
use crate::server::{TestServer, emit};

#[tokio::test]
async fn one_connection_has_many_sessions_each_from_its_cursor() {
    let server = TestServer::start().await;
    let sessions = ["a", "b", "c"].map(|id| server.session(id));
    for session in &sessions {
        emit(session, 0..10).await;
    }
    let mut live = server.live().await;
    let mut mirror = SessionMirror::default();
    live.subscribe("a", None).await;
    live.follow(&mut mirror, 10).await;
    let after = mirror.cursor().unwrap().to_string();
    drop(live);

    let mut live = server.live().await;
    live.subscribe("a", Some(after.clone())).await;
    let resumed = live.next().await.unwrap();
    assert_eq!(
        (resumed["type"].as_str(), resumed["cursor"].as_str()),
        (Some("resume"), Some(&*after))
    );
    live.send(json!({"type": "subscribe", "sessionId": "b"})).await;
    let snapshot = live.next().await.unwrap();
    assert_eq!((&snapshot["sessionId"], &snapshot["then"]), (&json!("b"), &json!("changes")));
    emit(&sessions[0], 10..11).await;
    assert_eq!(live.next().await.unwrap()["type"], "events");
    emit(&sessions[1], 10..11).await;
    assert_eq!(live.next().await.unwrap()["type"], "changes");
    live.send(json!({"type": "unsubscribe", "sessionId": "a"})).await;
    live.send(json!({"type": "subscribe", "sessionId": "none"})).await;
    let error = live.next().await.unwrap();
    assert_eq!((error["type"].as_str(), &error["status"]), (Some("error"), &json!(404)));
    emit(&sessions[0], 11..12).await;
    emit(&sessions[1], 11..12).await;
    assert_eq!(live.next().await.unwrap()["sessionId"], "b", "nobody subscribes to `a`");
}

#[tokio::test]
async fn a_client_with_another_reducer_is_sent_changes_and_told_why() {
    let server = TestServer::start().await;
    emit(&server.session("s"), 0..2).await;
    let mut live = server.live().await;
    live.send(json!({"type": "subscribe", "sessionId": "s", "view": "events", "reducer": 99}))
        .await;
    let snapshot = live.next().await.unwrap();
    assert!(snapshot["notice"].as_str().unwrap().contains("reducer 99"), "{snapshot}");
    emit(&server.session("s"), 2..3).await;
    assert_eq!(live.next().await.unwrap()["type"], "changes");
}

#[tokio::test]
async fn what_is_not_understood_is_answered_and_what_is_forbidden_closes() {
    let server = TestServer::start().await;
    let mut live = server.live().await;
    for message in ["", "{}", "[]", "{\"type\":\"none\"}", "{\"type\":\"subscribe\"}"] {
        live.socket.send(Message::text(message)).await.unwrap();
        assert_eq!(live.next().await.unwrap()["status"], 400, "{message}");
    }
    live.socket.send(Message::Ping("?".into())).await.unwrap();
    let pong = live.socket.next().await.unwrap().unwrap();
    assert_eq!(pong, Message::Pong("?".into()));
    live.socket.send(Message::binary("x")).await.unwrap();
    let Message::Close(Some(close)) = live.socket.next().await.unwrap().unwrap() else {
        panic!("it is not closed")
    };
    assert_eq!(u16::from(close.code), 1003);
}

#[tokio::test]
async fn idle_clients_receive_a_heartbeat_and_a_stopped_server_says_goodbye() {
    let store = std::sync::Arc::new(threadfold_store::MemoryStore::default());
    let server = TestServer::start_with(store, |it| {
        it.limits.heartbeat = std::time::Duration::from_millis(50);
    })
    .await;
    emit(&server.session("s"), 0..1).await;
    let mut live = server.live().await;
    live.subscribe("s", None).await;
    let snapshot = live.next().await.unwrap();
    let heartbeat = live.next().await.unwrap();
    assert_eq!(heartbeat["type"], "heartbeat");
    assert_eq!(heartbeat["cursor"], snapshot["cursor"]);
    server.stop().await;
    loop {
        match live.socket.next().await {
            Some(Ok(Message::Close(Some(close)))) => {
                assert_eq!(u16::from(close.code), 1001);
                return;
            }
            Some(Ok(_)) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn too_many_subscriptions_are_refused() {
    let store = std::sync::Arc::new(threadfold_store::MemoryStore::default());
    let server = TestServer::start_with(store, |it| it.limits.subscriptions = 2).await;
    for id in ["a", "b", "c"] {
        emit(&server.session(id), 0..1).await;
    }
    let mut live = server.live().await;
    live.subscribe("a", None).await;
    live.subscribe("b", None).await;
    live.subscribe("b", None).await;
    live.subscribe("c", None).await;
    let mut answers = Vec::new();
    for _ in 0..3 {
        let answer = live.next().await.unwrap();
        answers.push((answer["sessionId"].as_str().unwrap().to_owned(), answer["status"].as_u64()));
    }
    assert!(answers.contains(&("c".to_owned(), Some(429))), "{answers:?}");
}

#[tokio::test]
async fn a_client_whose_ticket_has_expired_reconnects_with_another_one_and_misses_nothing() {
    let store = std::sync::Arc::new(threadfold_store::MemoryStore::default());
    let lifetime = std::time::Duration::from_millis(1_500);
    let server = TestServer::start_with(store, |it| it.limits.ticket = lifetime).await;
    let session = server.session("s");
    emit(&session, 0..5).await;
    let mut mirror = SessionMirror::default();
    let mut live = server.live().await;
    live.subscribe("s", None).await;
    live.follow(&mut mirror, 5).await;
    // A client takes its next ticket, and its machine falls asleep.
    let ticket = server.ticket().await;
    drop(live);
    emit(&session, 5..9).await;
    tokio::time::sleep(lifetime).await;
    let host = format!("host: {}\r\n", server.address);
    let request = upgrade(&format!("/v1/live?ticket={ticket}"), &host);
    let (status, answer) = exchange(server.address, &request).await;
    assert_eq!(status, 401, "{answer}");
    assert!(answer.contains("application/problem+json"), "{answer}");

    let mut live = server.live().await;
    live.subscribe("s", mirror.cursor().map(ToString::to_string)).await;
    assert_eq!(live.next().await.unwrap()["type"], "resume");
    live.follow(&mut mirror, 9).await;
    let (_, state) = session.state().await.unwrap();
    assert_eq!((mirror.state_hash(), mirror.gaps()), (state.hash().to_string(), 0));
}
