//! Requests as raw bytes, for what no client library sends.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Sends bytes, and returns the status and the head of the answer.
pub(crate) async fn exchange(address: SocketAddr, request: &[u8]) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // A server that refuses the beginning need not read the rest: the answer is what counts.
    let sent = stream.write_all(request).await;
    let mut answer = Vec::new();
    let mut chunk = [0; 4096];
    while !answer.windows(4).any(|it| it == b"\r\n\r\n") {
        let read = tokio::time::timeout(Duration::from_secs(20), stream.read(&mut chunk)).await;
        match read.expect("the server is silent") {
            Ok(0) | Err(_) => break,
            Ok(count) => answer.extend_from_slice(&chunk[..count]),
        }
    }
    let text = String::from_utf8_lossy(&answer).into_owned();
    let status = text.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0);
    assert!(sent.is_ok() || status >= 400, "{sent:?} {text}");
    (status, text)
}

/// Returns a request with headers, each of which ends with a line end.
pub(crate) fn request(method: &str, path: &str, headers: &str) -> Vec<u8> {
    format!("{method} {path} HTTP/1.1\r\n{headers}connection: close\r\ncontent-length: 0\r\n\r\n")
        .into_bytes()
}

/// Returns the request of a WebSocket.
pub(crate) fn upgrade(path: &str, headers: &str) -> Vec<u8> {
    format!(
        "GET {path} HTTP/1.1\r\n{headers}connection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    .into_bytes()
}
