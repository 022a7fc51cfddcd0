//! A minimal HTTP client that shows the bytes on the wire.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use serde_json::Value;
use threadfold_testkit::ScriptedModel;

/// A response as it came.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    head: String,
    /// The body, without the marks of chunks.
    pub(crate) body: String,
    /// Whether the body ended as it must, and not by a lost connection.
    pub(crate) complete: bool,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|it| it.split_once(": "));
        lines.filter(|(key, _)| *key == name).map(|(_, value)| value).next()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// Returns the data of the events of the body.
    pub(crate) fn events(&self) -> Vec<Value> {
        let data = self.body.lines().filter_map(|it| it.strip_prefix("data: "));
        data.filter(|it| *it != "[DONE]").map(|it| serde_json::from_str(it).unwrap()).collect()
    }
}

/// Sends `body` and reads until the connection ends.
pub(crate) fn post(model: &ScriptedModel, path: &str, body: &Value) -> Response {
    read(send(model, path, body))
}

/// Sends `body` and leaves the answer to be read.
pub(crate) fn send(model: &ScriptedModel, path: &str, body: &Value) -> TcpStream {
    let mut stream = TcpStream::connect(model.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let body = body.to_string();
    let length = body.len();
    let request =
        format!("POST {path} HTTP/1.1\r\nhost: model\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// Reads an answer to its end.
pub(crate) fn read(mut stream: TcpStream) -> Response {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();

    let Some((head, rest)) = text.split_once("\r\n\r\n") else {
        return Response { status: 0, head: String::new(), body: text, complete: false };
    };
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let (body, complete) = if head.contains("transfer-encoding: chunked") {
        unchunk(rest)
    } else {
        (rest.to_owned(), true)
    };
    Response { status, head: head.to_owned(), body, complete }
}

fn unchunk(mut rest: &str) -> (String, bool) {
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return (body, true);
        }
        body.push_str(&after[..size]);
        rest = &after[size + 2..];
    }
    (body, false)
}
