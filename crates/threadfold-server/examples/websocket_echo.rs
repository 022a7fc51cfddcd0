//! Sends every text back, with the frames of this crate: for `cargo xtask soak autobahn`, whose suite
//! wants its messages back. The server itself answers with frames of sessions.

#[allow(dead_code, unreachable_pub, reason = "an echo needs a part of the frames")]
#[path = "../src/websocket_frame.rs"]
mod websocket_frame;

use std::error::Error;
use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use websocket_frame::{ClientMessage, FrameReader, close_frame, pong_frame, text_frame};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on ws://{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        // A case may end the connection at any time.
        tokio::spawn(async move { echo(stream).await.ok() });
    }
}

async fn echo(mut stream: TcpStream) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    stream.write_all(accept(&String::from_utf8_lossy(&head)).as_bytes()).await?;
    let (mut reader, mut chunk) = (FrameReader::default(), vec![0; 1024]);
    loop {
        let count = stream.read(&mut chunk).await?;
        if count == 0 {
            return Ok(());
        }
        reader.extend(&chunk[..count]);
        loop {
            match reader.next() {
                Ok(Some(ClientMessage::Text(text))) => {
                    stream.write_all(&text_frame(&text).0).await?;
                }
                Ok(Some(ClientMessage::Ping(content))) => {
                    stream.write_all(&pong_frame(&content)).await?;
                }
                Ok(Some(ClientMessage::Pong)) => {}
                Ok(Some(ClientMessage::Close(code))) => {
                    stream.write_all(&close_frame(code, "")).await?;
                    return stream.shutdown().await;
                }
                Ok(None) => break,
                Err(violation) => {
                    stream.write_all(&close_frame(violation.code, violation.reason)).await?;
                    return stream.shutdown().await;
                }
            }
        }
    }
}

/// Returns the answer to the head of a request.
fn accept(head: &str) -> String {
    let key = head.lines().filter_map(|it| it.split_once(':'));
    let mut key = key.filter(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-key"));
    let key = key.next().map_or("", |(_, value)| value.trim());
    let hash = Sha1::digest(format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11"));
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-accept: {}\r\n\r\n",
        STANDARD.encode(hash)
    )
}
