//! Streams that are pushed: whatever is sent twice is stored once.

use reqwest::StatusCode;
use serde_json::Value;

use crate::server::{TOKEN, TestServer, file_store};

/// Returns lines of a stream.
fn stream(count: usize) -> String {
    let line = |number: usize| {
        format!(
            "{{\"type\":\"block:upsert\",\"payload\":{{\"block\":{{\"id\":\"b{number}\",\"type\":\"assistant_text\",\"content\":\"text\",\"status\":\"complete\"}}}}}}\n"
        )
    };
    (0..count).map(line).collect()
}

async fn push(server: &TestServer, query: &str, body: &str) -> (StatusCode, Value) {
    let url = server.url(&format!("/v1/sessions/s/records?{query}"));
    let request = crate::server::http().post(url).bearer_auth(TOKEN).body(body.to_owned());
    let response = request.send().await.unwrap();
    let status = response.status();
    (status, serde_json::from_slice(&response.bytes().await.unwrap()).unwrap())
}

#[tokio::test]
async fn bytes_are_stored_once_however_they_are_cut_and_repeated() {
    let server = TestServer::start().await;
    let stream = stream(40);
    let (mut sent, mut step) = (0, 1);
    while sent < stream.len() {
        let end = (sent + step).min(stream.len());
        // From some bytes before what is stored, as after a lost answer.
        let start = sent.saturating_sub(step / 2);
        let query = format!("stream=one&position={start}");
        let (status, answer) = push(&server, &query, &stream[start..end]).await;
        assert_eq!(status, 200, "{answer}");
        let position = usize::try_from(answer["position"].as_u64().unwrap()).unwrap();
        assert!(position <= end && (position == 0 || stream.as_bytes()[position - 1] == b'\n'));
        if position == sent {
            step *= 2;
        } else {
            step = 1 + step % 97;
        }
        sent = position;
    }
    let state = server.json("/v1/sessions/s/state").await;
    assert_eq!(state["state"]["blocks"].as_array().unwrap().len(), 40);
    assert_eq!(server.json("/v1/sessions/s").await["seq"], 41, "a declaration, and each line once");

    let (status, answer) = push(&server, "stream=one&position=999999", "x\n").await;
    assert_eq!((status, &answer["expectedPosition"]), (StatusCode::CONFLICT, &stream.len().into()));
    let query = format!("stream=one&position={}&end=true", stream.len());
    let (_, answer) = push(&server, &query, "{\"type\":\"session:idle\"}").await;
    assert_eq!(answer["isEnded"], true);
    let (status, _) = push(&server, &query, "{\"type\":\"session:idle\"}").await;
    assert_eq!(status, 200, "the end may be sent again");
    let (status, _) = push(&server, &query, "{\"type\":\"session:idle\"}\nmore\n").await;
    assert_eq!(status, 409, "nothing follows the end");
}

#[tokio::test]
async fn a_push_continues_after_a_restart_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let stream = stream(10);
    let middle = stream.len() / 2;
    let server = TestServer::start_with(file_store(&folder), |_| {}).await;
    let (_, answer) = push(&server, "stream=one", &stream[..middle]).await;
    let position = usize::try_from(answer["position"].as_u64().unwrap()).unwrap();
    server.stop().await;
    let server = TestServer::start_with(file_store(&folder), |_| {}).await;
    let query = format!("stream=one&position={position}");
    let (status, answer) = push(&server, &query, &stream[position..]).await;
    assert_eq!((status, &answer["position"]), (StatusCode::OK, &stream.len().into()));
    assert_eq!(server.json("/v1/sessions/s").await["seq"], 11);
}

#[tokio::test]
async fn a_stream_that_begins_in_the_middle_creates_no_session() {
    let server = TestServer::start().await;
    let (status, answer) = push(&server, "stream=one&position=10", "{}\n").await;
    assert_eq!((status, &answer["expectedPosition"]), (StatusCode::CONFLICT, &0.into()));
    assert_eq!(server.get("/v1/sessions/s").await.0, 404);
    let (status, _) = push(&server, "stream=one&format=none", "{}\n").await;
    assert_eq!(status, 400);
    for name in ["-x", ".", "a/b", "a b", ""] {
        let (status, _) = push(&server, &format!("stream={name}"), "{}\n").await;
        assert_eq!(status, 400, "{name}");
    }
}
