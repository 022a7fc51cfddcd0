//! An HTTP client for loopback: one request, one answer, complete or streamed.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// An answer whose body is not read yet.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Body,
}

/// The request to send.
pub(super) struct Request<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    /// JSON, or no body.
    pub(super) body: &'a str,
    /// The value of the header `authorization`, if the server wants one.
    pub(super) authorization: Option<&'a str>,
}

/// Sends a request and reads the head of the answer; each wait is limited to `limit`.
pub(super) fn send(
    address: SocketAddr,
    request: &Request<'_>,
    limit: Duration,
) -> io::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&address, limit)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    let Request { method, path, body, authorization } = request;
    let length = body.len();
    let authorization =
        authorization.map(|it| format!("authorization: {it}\r\n")).unwrap_or_default();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         {authorization}content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;

    let mut reader = BufReader::new(stream);
    let status = line(&mut reader)?;
    let status = status.split(' ').nth(1).and_then(|it| it.parse().ok()).ok_or_else(unreadable)?;
    let mut rest = BodyFraming::ToTheEnd;
    loop {
        let header = line(&mut reader)?;
        let Some((name, value)) = header.split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "transfer-encoding" => rest = BodyFraming::Chunks,
            "content-length" => {
                rest = BodyFraming::Bytes(value.trim().parse().map_err(|_| unreadable())?);
            }
            _ => {}
        }
    }
    let chunks = matches!(rest, BodyFraming::Chunks);
    let left = match rest {
        BodyFraming::ToTheEnd => u64::MAX,
        BodyFraming::Bytes(length) => length,
        BodyFraming::Chunks => 0,
    };
    Ok(Answer { status, body: Body { reader, chunks, left } })
}

/// How the end of a body is determined.
enum BodyFraming {
    ToTheEnd,
    Bytes(u64),
    Chunks,
}

/// The body of an answer.
pub(super) struct Body {
    reader: BufReader<TcpStream>,
    /// Whether another chunk follows after this one.
    chunks: bool,
    left: u64,
}

impl Body {
    /// Returns the connection, so that another thread can close it.
    pub(super) fn connection(&self) -> io::Result<TcpStream> {
        self.reader.get_ref().try_clone()
    }
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 && self.chunks {
            let size = line(&mut self.reader)?;
            // The first line after a chunk is the line end of the chunk itself.
            let size = if size.is_empty() { line(&mut self.reader)? } else { size };
            self.left = u64::from_str_radix(&size, 16).map_err(|_| unreadable())?;
            self.chunks = self.left > 0;
        }
        let count = self.reader.by_ref().take(self.left).read(buffer)?;
        self.left -= count as u64;
        Ok(count)
    }
}

/// Reads a line of a head, without its line end.
fn line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end().to_owned())
}

fn unreadable() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the answer is not HTTP")
}
