//! A client that sends several requests on one connection.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::Duration,
};

use threadfold_testkit::strict::{Endpoint, StrictServer};

/// A connection to a strict provider.
pub(crate) struct Client(BufReader<TcpStream>);

impl Client {
    pub(crate) fn connect(server: &StrictServer) -> Self {
        let stream = TcpStream::connect(server.address()).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self(BufReader::new(stream))
    }

    /// Sends a request, and returns the status and the body of the answer.
    pub(crate) fn post(&mut self, endpoint: Endpoint, body: &[u8]) -> (u16, String) {
        let (path, length) = (endpoint.path(), body.len());
        let head = format!("POST {path} HTTP/1.1\r\nhost: p\r\ncontent-length: {length}\r\n\r\n");
        let request = [head.as_bytes(), body].concat();
        self.0.get_mut().write_all(&request).unwrap();

        let status = self.line().split(' ').nth(1).unwrap().parse().unwrap();
        let mut length = None;
        loop {
            let line = self.line();
            match line.split_once(": ") {
                Some(("content-length", value)) => length = Some(value.parse().unwrap()),
                Some(_) => {}
                None => break,
            }
        }
        let body = match length {
            Some(length) => self.exactly(length),
            None => self.chunks(),
        };
        (status, body)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn exactly(&mut self, length: usize) -> String {
        let mut bytes = vec![0; length];
        self.0.read_exact(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    fn chunks(&mut self) -> String {
        let mut body = String::new();
        loop {
            let length = usize::from_str_radix(&self.line(), 16).unwrap();
            body.push_str(&self.exactly(length));
            self.line();
            if length == 0 {
                return body;
            }
        }
    }
}
