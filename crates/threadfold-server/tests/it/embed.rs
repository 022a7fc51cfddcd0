//! A server in another program: its own routes beside ours, and its own authentication.

use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use threadfold_engine::{Delivery, Host, ListenOptions};
use threadfold_server::{Access, Server, ServerOptions};
use threadfold_store::MemoryStore;
use tokio::net::TcpListener;

use crate::server::block;

#[tokio::test]
async fn a_router_is_mounted_beside_other_routes_without_a_token() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let host = Host::new(Arc::new(MemoryStore::default()));
    let access = Access::behind_own_auth(&[&url]);
    let server = Server::new(host, ServerOptions::new(access));
    let router = Router::new().route("/own", get(|| async { "own" })).merge(server.router());
    let serving = server.clone();
    tokio::spawn(async move {
        serving.serve_router(router, listener, std::future::pending()).await.unwrap();
    });
    let session = server.session("s");
    let cursor = session.emit(&[block("b", "text")]).await.unwrap();
    assert_eq!(session.state().await.unwrap().0, cursor);
    assert!(session.slices().await.unwrap().iter().any(|it| it.slice_type == "query"));
    let options = ListenOptions { delivery: Delivery::Events, ..ListenOptions::default() };
    let frames = session.subscribe(options).await.unwrap().next_frames().await;
    assert!(frames[0].starts_with("{\"type\":\"snapshot\""));
    for path in ["/own", "/v1/sessions/s", "/v1/status"] {
        assert_eq!(
            crate::server::http().get(format!("{url}{path}")).send().await.unwrap().status(),
            200,
            "{path}"
        );
    }
    let other =
        crate::server::http().get(format!("{url}/v1/status")).header("host", "evil.example");
    assert_eq!(other.send().await.unwrap().status(), 403);
}

#[tokio::test]
async fn the_example_answers_prompts_and_streams_them() {
    use std::io::BufRead;
    use std::process::{Command, Stdio};

    struct Running(std::process::Child);
    impl Drop for Running {
        fn drop(&mut self) {
            self.0.kill().ok();
            self.0.wait().ok();
        }
    }

    let folder = tempfile::tempdir().unwrap();
    let tests = std::env::current_exe().unwrap();
    let example = tests.ancestors().nth(2).unwrap().join("examples").join("embed");
    let mut command = Command::new(example);
    command.arg(folder.path().join("store.db")).stdout(Stdio::piped());
    let mut running = Running(command.spawn().unwrap());
    let mut url = String::new();
    std::io::BufReader::new(running.0.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let url = url.trim();
    let prompt =
        |text: &'static str| crate::server::http().post(format!("{url}/prompt/s")).body(text);
    assert_eq!(prompt("how many words").send().await.unwrap().status(), 204);
    let client = threadfold_client::Client::new(url, None).unwrap();
    let mut followed = client.follow("s");
    followed.next().await.unwrap();
    assert_eq!(prompt("and now").send().await.unwrap().status(), 204);
    let (seq, hash) = client.state_hash("s", None).await.unwrap();
    while followed.mirror().cursor().is_none_or(|it| it.seq < seq) {
        followed.next().await.unwrap();
    }
    assert_eq!(followed.mirror().state_hash(), hash);
    let blocks = followed.mirror().state().blocks();
    let texts: Vec<String> = blocks
        .iter()
        .map(|it| serde_json::to_value(&*it).unwrap()["content"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(texts, ["how many words", "That was 3 words.", "and now", "That was 2 words."]);
}
