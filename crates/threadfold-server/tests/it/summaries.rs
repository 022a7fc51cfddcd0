//! The summaries of all sessions, as they change.

use serde_json::json;

use crate::api::listed;
use crate::server::{TestServer, emit};

#[tokio::test]
async fn new_and_removed_sessions_are_announced() {
    let server = TestServer::start().await;
    let mut live = server.live().await;
    live.send(json!({"type": "subscribeSummaries"})).await;
    let ready = live.next().await.unwrap();
    assert_eq!(ready["type"], "ready");
    emit(&server.session("s"), 0..3).await;
    let frame = live.next().await.unwrap();
    assert_eq!(
        (frame["type"].as_str(), frame["session"]["id"].as_str()),
        (Some("session"), Some("s"))
    );
    listed(&server, 1).await;

    let request = crate::server::http().delete(server.url("/v1/sessions/s"));
    request.bearer_auth(crate::server::TOKEN).send().await.unwrap();
    let removed = loop {
        let frame = live.next().await.unwrap();
        if frame["type"] == "removed" {
            break frame;
        }
    };
    assert_eq!(removed["sessionId"], "s");

    // A client that comes back misses nothing, and one from another run lists again.
    let mut again = server.live().await;
    again.send(json!({"type": "subscribeSummaries", "after": ready["cursor"]})).await;
    assert_eq!(again.next().await.unwrap()["type"], "session");
    let mut stranger = server.live().await;
    stranger.send(json!({"type": "subscribeSummaries", "after": "other.1"})).await;
    assert_eq!(stranger.next().await.unwrap()["type"], "gap");
}
