//! What the routes answer.

use serde_json::{Value, json};

use crate::server::{TOKEN, TestServer, block, emit};

#[tokio::test]
async fn a_session_is_listed_read_and_removed() {
    let server = TestServer::start().await;
    let session = server.session("s");
    emit(&session, 0..5).await;
    let listed = listed(&server, 1).await;
    assert_eq!((&listed["sessions"][0]["id"], &listed["total"]), (&json!("s"), &json!(1)));

    let got = server.json("/v1/sessions/s").await;
    let (cursor, state) = session.state().await.unwrap();
    assert_eq!(got["cursor"], cursor.to_string());
    assert_eq!(got["stateHash"], state.hash().to_string());
    for slice in ["environment", "files", "metadata", "query", "transcript"] {
        assert!(got["slices"][slice].is_array(), "{slice}: {got}");
    }

    for at in 0..=5 {
        let state = server.json(&format!("/v1/sessions/s/state?at={at}")).await;
        assert_eq!(state["state"]["blocks"].as_array().unwrap().len(), at, "{at}");
    }
    assert_eq!(server.get("/v1/sessions/s/state?at=6").await.0, 400);
    assert_eq!(server.get("/v1/sessions/s/state?at=x").await.0, 400);
    assert_eq!(server.get("/v1/sessions/none").await.0, 404);

    let (_, events) = server.get("/v1/sessions/s/events?after=3").await;
    let events: Vec<Value> = lines(&events);
    assert_eq!(events.iter().map(|it| &it["context"]["seq"]).collect::<Vec<_>>(), [4, 5]);
    let (_, log) = server.get("/v1/sessions/s/log?after=3").await;
    assert_eq!(lines(&log).iter().map(|it| it["seq"].clone()).collect::<Vec<_>>(), [4, 5]);

    let request = crate::server::http().delete(server.url("/v1/sessions/s")).bearer_auth(TOKEN);
    assert_eq!(request.try_clone().unwrap().send().await.unwrap().status(), 204);
    assert_eq!(request.send().await.unwrap().status(), 404);
    assert_eq!(server.get("/v1/sessions/s").await.0, 404);
}

/// Waits until the list has so many sessions.
pub(crate) async fn listed(server: &TestServer, count: u64) -> Value {
    for _ in 0..200 {
        let listed = server.json("/v1/sessions").await;
        if listed["total"] == count {
            return listed;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("there are not {count} sessions");
}

fn lines(body: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(body).unwrap();
    text.lines().map(|it| serde_json::from_str(it).unwrap()).collect()
}

#[tokio::test]
async fn a_session_is_exported_in_every_format() {
    let server = TestServer::start().await;
    server.session("s").emit(&[block("b", "a *text*")]).await.unwrap();
    assert_eq!(server.get("/v1/sessions/s/export").await.0, 409, "it has no files");
    let (status, events) = server.get("/v1/sessions/s/export?format=events").await;
    assert_eq!((status, lines(&events)[0]["type"].as_str()), (200, Some("block:upsert")));
    let state = server.json("/v1/sessions/s/export?format=json").await;
    assert_eq!(state["blocks"][0]["content"], "a *text*");
    let (_, markdown) = server.get("/v1/sessions/s/export?format=markdown").await;
    assert!(String::from_utf8(markdown).unwrap().contains("a *text*"));
    assert_eq!(server.get("/v1/sessions/s/export?format=pdf").await.0, 400);

    let line = "{\"type\":\"block:upsert\",\"payload\":{\"block\":{\"id\":\"x\",\"type\":\"assistant_text\",\"content\":\"y\",\"status\":\"complete\"}}}\n";
    let push = crate::server::http()
        .post(server.url("/v1/sessions/p/records?stream=one"))
        .bearer_auth(TOKEN)
        .body(line);
    assert_eq!(push.send().await.unwrap().status(), 200);
    let (status, archive) = server.get("/v1/sessions/p/export").await;
    assert_eq!(status, 200);
    let archive = String::from_utf8(archive).unwrap();
    assert!(archive.starts_with("push-one.jsonl\0") && archive.contains(line), "{archive:?}");
}

#[tokio::test]
async fn content_is_read_in_parts() {
    let store = std::sync::Arc::new(threadfold_store::MemoryStore::default());
    let server = TestServer::start_with(store.clone(), |_| {}).await;
    server.session("s").emit(&[block("b", "text")]).await.unwrap();
    let hash = threadfold_store::BlobStore::put_blob(&*store, &"s".into(), "0123456789".into())
        .await
        .unwrap();
    let path = format!("/v1/sessions/s/blobs/{hash}");
    assert_eq!(server.get(&path).await, (200, b"0123456789".to_vec()));
    let part = |range: &'static str| {
        let request = crate::server::http().get(server.url(&path)).bearer_auth(TOKEN);
        async move {
            let response = request.header("range", range).send().await.unwrap();
            let shown =
                response.headers().get("content-range").map(|it| it.to_str().unwrap().to_owned());
            (response.status().as_u16(), shown, response.text().await.unwrap())
        }
    };
    assert_eq!(part("bytes=2-4").await, (206, Some("bytes 2-4/10".into()), "234".into()));
    assert_eq!(part("bytes=-2").await, (206, Some("bytes 8-9/10".into()), "89".into()));
    assert_eq!(part("bytes=10-").await.0, 416);
    assert_eq!(server.get(&format!("/v1/sessions/none/blobs/{hash}")).await.0, 404);
    assert_eq!(server.get("/v1/sessions/s/blobs/zz").await.0, 400);
}

#[tokio::test]
async fn a_read_only_server_changes_nothing() {
    let store = std::sync::Arc::new(threadfold_store::MemoryStore::default());
    let server = TestServer::start_with(store, |it| it.is_read_only = true).await;
    server.session("s").emit(&[block("b", "text")]).await.unwrap();
    let http = crate::server::http();
    let delete = http.delete(server.url("/v1/sessions/s")).bearer_auth(TOKEN);
    assert_eq!(delete.send().await.unwrap().status(), 403);
    let push = http.post(server.url("/v1/sessions/s/records?stream=x")).bearer_auth(TOKEN);
    assert_eq!(push.body("{}\n").send().await.unwrap().status(), 403);
    assert_eq!(server.json("/v1/sessions/s").await["seq"], 1);
}

#[tokio::test]
async fn problems_have_a_hint() {
    let server = TestServer::start().await;
    for path in ["/v1/sessions/none", "/v1/none", "/v1/sessions?limit=0", "/v1/sessions?limit=x"] {
        let request = crate::server::http().get(server.url(path)).bearer_auth(TOKEN);
        let response = request.send().await.unwrap();
        assert_eq!(response.headers()["content-type"], "application/problem+json", "{path}");
        let problem: Value = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
        assert!(problem["hint"].as_str().is_some_and(|it| !it.is_empty()), "{path}: {problem}");
    }
}
