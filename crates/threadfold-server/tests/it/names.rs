//! A request with another `Host` or `Origin` is refused before anything else is looked at.

use crate::connection::{exchange, request, upgrade};
use crate::permission::routes;
use crate::server::{TOKEN, TestServer};

/// Returns hosts that are not this server, although many lead to it.
fn wrong_hosts(port: u16) -> Vec<String> {
    let other = port ^ 1;
    [
        "",
        "localhost",
        "127.0.0.1",
        "[::1]",
        "evil.example",
        "evil.example:PORT",
        "127.0.0.1:OTHER",
        "localhost:OTHER",
        "[::1]:OTHER",
        "localhost.:PORT",
        "127.0.0.1.:PORT",
        "127.0.0.1.nip.io:PORT",
        "localhost.evil.example:PORT",
        "evil-localhost:PORT",
        "localhost:PORT.evil.example",
        "localhost:PORT@evil.example",
        "user@localhost:PORT",
        "0.0.0.0:PORT",
        "[::]:PORT",
        "[::ffff:127.0.0.1]:PORT",
        "[0:0:0:0:0:0:0:1]:PORT",
        "::1:PORT",
        "127.1:PORT",
        "127.0.0.2:PORT",
        "2130706433:PORT",
        "0x7f000001:PORT",
        "017700000001:PORT",
        "localhost:0PORT",
        "localhost:PORT ",
        "localhost:PORT,evil.example",
        "localhost :PORT",
        "http://localhost:PORT",
        "localhost:PORT/",
        "localhost%3APORT",
        "lоcalhost:PORT",
        "ⓛocalhost:PORT",
        "*",
        "null",
    ]
    .iter()
    .map(|it| it.replace("PORT", &port.to_string()).replace("OTHER", &other.to_string()))
    .filter(|it| it.trim() != format!("localhost:{port}"))
    .collect()
}

fn wrong_origins(port: u16) -> Vec<String> {
    let of_hosts = wrong_hosts(port).into_iter().map(|it| format!("http://{it}"));
    let more = ["null", "https://localhost:PORT", "http://LOCALHOST:PORT", "localhost:PORT", "*"];
    let more = ["http://localhost:PORT/", "file://", "ws://localhost:PORT", "chrome-extension://x"]
        .iter()
        .chain(&more)
        .map(|it| it.replace("PORT", &port.to_string()));
    of_hosts.chain(more).collect()
}

#[tokio::test]
async fn a_wrong_host_is_refused_everywhere() {
    let server = TestServer::start().await;
    let hosts = wrong_hosts(server.address.port());
    assert!(hosts.len() >= 30, "{}", hosts.len());
    let token = format!("authorization: Bearer {TOKEN}\r\n");
    for host in &hosts {
        let headers = format!("host: {host}\r\n{token}");
        for (method, path) in routes() {
            let (status, answer) =
                exchange(server.address, &request(method, &path, &headers)).await;
            // What is not even a header is refused as such.
            assert!(matches!(status, 400 | 403), "{method} {path} `{host}`: {answer}");
        }
        let ticket = server.ticket().await;
        let path = format!("/v1/live?ticket={ticket}");
        let (status, answer) = exchange(server.address, &upgrade(&path, &headers)).await;
        assert!(matches!(status, 400 | 403), "WebSocket `{host}`: {answer}");
        let own = format!("host: {}\r\n", server.address);
        let (status, _) = exchange(server.address, &upgrade(&path, &own)).await;
        assert_eq!(status, 101, "the ticket was not looked at: `{host}`");
    }
    let address = server.address;
    for headers in [
        String::new(),
        format!("host: {address}\r\nhost: evil.example\r\n"),
        format!("host: {address}\r\nhost: {address}\r\n"),
    ] {
        let sent = request("GET", "/healthz", &headers);
        let (status, answer) = exchange(address, &sent).await;
        assert!(matches!(status, 400 | 403), "{headers}: {answer}");
    }
    let absolute = request("GET", "http://evil.example/healthz", &format!("host: {address}\r\n"));
    assert_eq!(exchange(address, &absolute).await.0, 403);
}

#[tokio::test]
async fn a_wrong_origin_is_refused_everywhere() {
    let server = TestServer::start().await;
    let origins = wrong_origins(server.address.port());
    assert!(origins.len() >= 30, "{}", origins.len());
    let own = format!("host: {}\r\nauthorization: Bearer {TOKEN}\r\n", server.address);
    for origin in &origins {
        let headers = format!("{own}origin: {origin}\r\n");
        for (method, path) in routes() {
            let (status, answer) =
                exchange(server.address, &request(method, &path, &headers)).await;
            assert!(matches!(status, 400 | 403), "{method} {path} `{origin}`: {answer}");
        }
        let path = format!("/v1/live?ticket={}", server.ticket().await);
        let (status, answer) = exchange(server.address, &upgrade(&path, &headers)).await;
        assert!(matches!(status, 400 | 403), "WebSocket `{origin}`: {answer}");
    }
}

#[tokio::test]
async fn the_own_names_and_those_of_a_public_url_are_allowed() {
    let store = std::sync::Arc::new(threadfold_store::MemoryStore::default());
    let server = TestServer::start_with(store, |options| {
        assert!(options.access.allow("https://Code.Example/space/"));
        assert!(options.access.allow("http://localhost:9999"));
        assert!(!options.access.allow("ftp://code.example"));
        assert!(!options.access.allow("code.example"));
    })
    .await;
    let port = server.address.port();
    for (host, origin) in [
        (format!("127.0.0.1:{port}"), format!("http://127.0.0.1:{port}")),
        (format!("localhost:{port}"), format!("http://localhost:{port}")),
        (format!("LocalHost:{port}"), format!("http://localhost:{port}")),
        (format!("[::1]:{port}"), format!("http://[::1]:{port}")),
        ("code.example".into(), "https://code.example".into()),
        ("code.example:443".into(), "https://code.example".into()),
        ("localhost:9999".into(), "http://localhost:9999".into()),
    ] {
        let headers =
            format!("host: {host}\r\norigin: {origin}\r\nauthorization: bearer {TOKEN}\r\n");
        let (status, answer) =
            exchange(server.address, &request("GET", "/v1/status", &headers)).await;
        assert_eq!(status, 200, "{host} {origin}: {answer}");
    }
    let headers = format!(
        "host: code.example\r\norigin: http://code.example\r\nauthorization: Bearer {TOKEN}\r\n"
    );
    let (status, _) = exchange(server.address, &request("GET", "/v1/status", &headers)).await;
    assert_eq!(status, 403, "the public URL has another scheme");
}
