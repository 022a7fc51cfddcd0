//! Every route needs the token, except for the health check and the page.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use utoipa::openapi::path::PathItem;

use crate::connection::{exchange, request, upgrade};
use crate::server::{TOKEN, TestServer, block};

/// Returns method and path of every route that is registered.
pub(crate) fn routes() -> Vec<(&'static str, String)> {
    let methods = |item: &PathItem| -> Vec<&'static str> {
        let all = [
            (item.get.is_some(), "GET"),
            (item.post.is_some(), "POST"),
            (item.put.is_some(), "PUT"),
            (item.delete.is_some(), "DELETE"),
            (item.patch.is_some(), "PATCH"),
        ];
        all.iter().filter(|it| it.0).map(|it| it.1).collect()
    };
    let description = threadfold_server::openapi();
    let paths = description.paths.paths.iter();
    let filled = |path: &str| {
        path.replace("{id}", "s").replace("{hash}", &"0".repeat(64)).replace("{name}", "none")
    };
    paths
        .flat_map(|(path, item)| methods(item).into_iter().map(move |it| (it, filled(path))))
        .collect()
}

#[tokio::test]
async fn every_route_needs_the_token() {
    let server = TestServer::start().await;
    server.session("s").emit(&[block("b", "text")]).await.unwrap();
    let host = format!("host: {}\r\n", server.address);
    let routes = routes();
    assert!(routes.len() >= 17, "{routes:?}");
    for (method, path) in &routes {
        let expected = match path.as_str() {
            "/" | "/healthz" | "/readyz" => 200,
            // Free as well, and not there.
            "/assets/none" => 404,
            _ => 401,
        };
        for headers in [
            host.clone(),
            format!("{host}authorization: Bearer wrong-token-of-a-client\r\n"),
            format!("{host}authorization: Basic {TOKEN}\r\n"),
            format!("{host}authorization: {TOKEN}\r\n"),
            format!("{host}authorization: Bearer\r\n"),
            format!("{host}cookie: token={TOKEN}\r\n"),
        ] {
            let (status, answer) = exchange(server.address, &request(method, path, &headers)).await;
            assert_eq!(status, expected, "{method} {path} {headers}: {answer}");
        }
        let in_query = format!("{path}?token={TOKEN}&access_token={TOKEN}");
        let (status, _) = exchange(server.address, &request(method, &in_query, &host)).await;
        assert_eq!(status, expected, "a token in a URL is none: {method} {path}");
    }
    let answer = exchange(server.address, &upgrade("/v1/live", &host)).await;
    assert_eq!(answer.0, 401, "{}", answer.1);
    let (status, _) = exchange(server.address, &request("GET", "/v1/unknown", &host)).await;
    assert_eq!(status, 401, "what exists is not revealed");
    assert_eq!(server.json("/v1/sessions/s").await["seq"], 1, "nothing was changed");
}

#[tokio::test]
async fn a_ticket_opens_one_websocket() {
    let server = TestServer::start().await;
    let host = format!("host: {}\r\n", server.address);
    let path = format!("/v1/live?ticket={}", server.ticket().await);
    let (status, answer) = exchange(server.address, &upgrade(&path, &host)).await;
    assert_eq!(status, 101, "{answer}");
    assert!(answer.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{answer}");
    let (status, _) = exchange(server.address, &upgrade(&path, &host)).await;
    assert_eq!(status, 401, "it was used");
    let with_token = format!("{host}authorization: Bearer {TOKEN}\r\n");
    let (status, _) = exchange(server.address, &upgrade("/v1/live", &with_token)).await;
    assert_eq!(status, 401, "the token is no ticket");
}

#[tokio::test]
async fn every_answer_has_the_headers_that_protect_a_page() {
    let server = TestServer::start().await;
    let host = format!("host: {}\r\n", server.address);
    for (method, path) in routes() {
        for headers in [host.clone(), format!("{host}authorization: Bearer {TOKEN}\r\n")] {
            let (_, answer) = exchange(server.address, &request(method, &path, &headers)).await;
            for header in [
                "content-security-policy: default-src 'none'",
                "x-content-type-options: nosniff",
                "x-frame-options: DENY",
                "referrer-policy: no-referrer",
                // The page itself may be kept, and asked for again.
                if path == "/" { "cache-control: no-cache" } else { "cache-control: no-store" },
                "x-request-id: r",
            ] {
                assert!(answer.contains(header), "{method} {path}: no `{header}` in {answer}");
            }
            assert!(!answer.to_lowercase().contains("access-control"), "{answer}");
        }
    }
}

#[tokio::test]
async fn connections_beyond_the_limit_are_told_to_come_back() {
    let store = std::sync::Arc::new(threadfold_store::MemoryStore::default());
    let server = TestServer::start_with(store, |it| it.limits.connections = 2).await;
    let first = server.live().await;
    let mut held = Vec::new();
    // The requests for tickets may leave idle connections behind, which count as well.
    for _ in 0..3 {
        held.push(tokio::net::TcpStream::connect(server.address).await.unwrap());
    }
    let host = format!("host: {}\r\n", server.address);
    let (status, answer) = exchange(server.address, &request("GET", "/healthz", &host)).await;
    assert_eq!(status, 503, "{answer}");
    assert!(answer.contains("retry-after: 2"), "{answer}");
    drop((first, held));
    // The server notices that they are gone in its own time.
    for _ in 0..200 {
        let (status, _) = exchange(server.address, &request("GET", "/healthz", &host)).await;
        if status == 200 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("the places are not free again");
}

#[tokio::test]
async fn headers_and_bodies_are_limited() {
    let store = std::sync::Arc::new(threadfold_store::MemoryStore::default());
    let server = TestServer::start_with(store, |it| it.limits.body = 1000).await;
    let host = format!("host: {}\r\nauthorization: Bearer {TOKEN}\r\n", server.address);
    let many: String = (0..100).map(|it| format!("x-{it}: y\r\n")).collect();
    let (status, _) =
        exchange(server.address, &request("GET", "/healthz", &format!("{host}{many}"))).await;
    assert_eq!(status, 431);
    let long = format!("{host}x: {}\r\n", "y".repeat(64 << 10));
    let (status, _) = exchange(server.address, &request("GET", "/healthz", &long)).await;
    assert_eq!(status, 431);
    let push = crate::server::http()
        .post(server.url("/v1/sessions/s/records?stream=x"))
        .bearer_auth(TOKEN)
        .body("x".repeat(1001));
    assert_eq!(push.send().await.unwrap().status(), 413);
}

/// A connection that is closed while its client still sends is reset, and the answer may be lost.
#[tokio::test]
async fn a_client_that_is_refused_while_it_sends_can_read_the_answer() {
    let store = std::sync::Arc::new(threadfold_store::MemoryStore::default());
    let server = TestServer::start_with(store, |_| {}).await;
    let mut stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let start = format!("GET /healthz HTTP/1.1\r\nhost: {}\r\nx: ", server.address);
    stream.write_all(start.as_bytes()).await.unwrap();
    // More than the limit of headers; the rest arrives after the answer.
    for _ in 0..20 {
        stream.write_all(&[b'y'; 4096]).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    stream.shutdown().await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
}
