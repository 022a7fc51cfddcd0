//! The page and its files: free, compressed, cached, and without data.

use std::time::Duration;

use reqwest::header;
use serde_json::{Value, json};
use threadfold_core::SessionEvent;

use crate::server::{TestServer, http};

#[tokio::test]
async fn the_page_and_its_files_are_sent_compressed_and_may_run_only_themselves() {
    let server = TestServer::start().await;
    let page = http().get(server.url("/")).send().await.unwrap();
    assert_eq!(page.status(), 200);
    let policy = page.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
    assert!(policy.contains("default-src 'none'"), "{policy}");
    assert!(!policy.contains("unsafe-inline") && !policy.contains("'unsafe-eval'"), "{policy}");
    assert_eq!(page.headers()[header::CACHE_CONTROL], "no-cache");
    assert_eq!(page.headers()[header::CONTENT_ENCODING], "gzip");
    let bytes = page.bytes().await.unwrap();
    assert_eq!(bytes[..2], [0x1f, 0x8b], "it is gzip");

    let assets = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/assets");
    let mut kinds = Vec::new();
    for entry in std::fs::read_dir(assets).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let name = name.strip_suffix(".gz").unwrap();
        let file = http().get(server.url(&format!("/assets/{name}"))).send().await.unwrap();
        assert_eq!(file.status(), 200, "{name}");
        assert!(file.headers()[header::CACHE_CONTROL].to_str().unwrap().contains("immutable"));
        kinds.push(file.headers()[header::CONTENT_TYPE].to_str().unwrap().to_owned());
    }
    for kind in ["text/javascript; charset=utf-8", "text/css; charset=utf-8", "application/wasm"] {
        assert!(kinds.iter().any(|it| it == kind), "{kind}: {kinds:?}");
    }
}

#[tokio::test]
async fn a_name_leads_to_no_other_file_and_a_client_without_gzip_is_told() {
    let server = TestServer::start().await;
    for name in ["none.js", "..%2Fbuilt.json", "..%2F..%2FCargo.toml", "%2e%2e%2findex.html", "%ff"]
    {
        let answer = http().get(server.url(&format!("/assets/{name}"))).send().await.unwrap();
        assert!([400, 404].contains(&answer.status().as_u16()), "{name}: {}", answer.status());
    }
    for (accepted, expected) in [("identity", 406), ("gzip;q=0, br", 406), ("br, gzip;q=0.5", 200)]
    {
        let request = http().get(server.url("/")).header(header::ACCEPT_ENCODING, accepted);
        assert_eq!(request.send().await.unwrap().status(), expected, "{accepted}");
    }
}

/// Waits until the row of a session in the list is as expected.
async fn row(server: &TestServer, id: &str, is_expected: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    for _ in 0..200 {
        let page = server.json("/v1/sessions").await;
        let rows = page["sessions"].as_array().unwrap();
        last = rows.iter().find(|it| it["id"] == id).cloned().unwrap_or_default();
        if is_expected(&last) {
            return last;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{last}");
}

#[tokio::test]
async fn the_list_shows_who_waits_for_a_person() {
    let server = TestServer::start().await;
    let event = |value: serde_json::Value| SessionEvent::from_json(&value.to_string()).unwrap();
    let ask = json!({"type": "permission:requested", "payload": {"requestId": "q", "question": "May I?"}});
    let start = json!({"type": "query:started", "payload": {}});
    server.session("s").emit(&[event(start), event(ask)]).await.unwrap();
    let listed = row(&server, "s", |row| row["waiting"] == 1).await;
    assert_eq!(listed["isWorking"], true, "{listed}");
    let answer =
        json!({"type": "permission:resolved", "payload": {"requestId": "q", "answer": "yes"}});
    server.session("s").emit(&[event(answer)]).await.unwrap();
    row(&server, "s", |row| row["waiting"] == 0).await;
}
