//! A server that sends exactly the bytes of a test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// How a connection is handled.
pub(super) struct Reply {
    pieces: Box<dyn Iterator<Item = Vec<u8>> + Send>,
    is_held: bool,
}

impl Reply {
    /// Sends `bytes` and closes the connection.
    pub(super) fn bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self { pieces: Box::new(std::iter::once(bytes.into())), is_held: false }
    }

    /// Sends `pieces` while the client reads, and closes the connection.
    pub(super) fn pieces(pieces: impl Iterator<Item = Vec<u8>> + Send + 'static) -> Self {
        Self { pieces: Box::new(pieces), is_held: false }
    }

    /// Refuses the request.
    pub(super) fn status(status: u16, headers: &str, body: &str) -> Self {
        let length = body.len();
        Self::bytes(format!(
            "HTTP/1.1 {status} Scripted\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
        ))
    }

    /// Sends a body that ends with the connection.
    pub(super) fn body(body: impl AsRef<[u8]>) -> Self {
        Self::bytes([b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n", body.as_ref()].concat())
    }

    /// Sends a body in chunks of these sizes; the last size applies to the rest.
    pub(super) fn chunked(body: &[u8], size: usize) -> Self {
        let mut bytes = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
        for chunk in body.chunks(size) {
            bytes.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
            bytes.extend(chunk);
            bytes.extend(b"\r\n");
        }
        bytes.extend(b"0\r\n\r\n");
        Self::bytes(bytes)
    }

    /// Sends nothing more, and keeps the connection open until the client closes it.
    pub(super) fn held(self) -> Self {
        Self { is_held: true, ..self }
    }
}

/// A server that sends one reply per connection, in order.
pub(super) struct Server {
    pub(super) address: String,
    received: Arc<Mutex<Vec<Vec<u8>>>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(super) fn start(replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let received = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&received);
        let thread = std::thread::spawn(move || {
            for reply in replies {
                let (stream, _) = listener.accept().unwrap();
                stream.set_nodelay(true).unwrap();
                let request = read_request(&stream);
                seen.lock().unwrap().push(request);
                play(&stream, reply);
            }
        });
        Self { address: format!("http://{address}"), received, thread: Some(thread) }
    }

    /// Returns the requests, head and body, byte for byte, once all replies were sent.
    pub(super) fn finish(mut self) -> Vec<Vec<u8>> {
        self.thread.take().unwrap().join().unwrap();
        let received = self.received.lock().unwrap();
        received.clone()
    }
}

fn play(mut stream: &TcpStream, reply: Reply) {
    for piece in reply.pieces {
        // A client that has enough closes the connection.
        if stream.write_all(&piece).is_err() {
            return;
        }
    }
    if reply.is_held {
        stream.read_to_end(&mut Vec::new()).ok();
    }
}

fn read_request(stream: &TcpStream) -> Vec<u8> {
    let mut reader = BufReader::new(stream);
    let mut request = Vec::new();
    let mut length = 0;
    loop {
        let start = request.len();
        reader.read_until(b'\n', &mut request).unwrap();
        let line = String::from_utf8_lossy(&request[start..]).to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    request.extend(body);
    request
}
