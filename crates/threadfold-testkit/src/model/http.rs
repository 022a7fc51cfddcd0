//! The subset of HTTP/1.1 that a scripted model and a strict provider need.
//!
//! It uses a blocking socket, because a fault must close a connection at an exact byte, which
//! HTTP frameworks prevent.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::TcpStream,
};

/// The maximum body size: more than any provider accepts.
const BODY_LIMIT: u64 = 64 * 1024 * 1024;
const HEAD_LIMIT: u64 = 256 * 1024;

/// A complete request.
pub(crate) struct HttpRequest {
    pub(crate) method: String,
    /// The path without its query.
    pub(crate) path: String,
    pub(crate) body: Vec<u8>,
    /// What the client requests for the connection.
    pub(crate) then: ConnectionFate,
}

/// What happens to a connection after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionFate {
    KeepAlive,
    Close,
}

/// Reads one request; `None` if the client closed the connection without one.
pub(crate) fn read_request(stream: &TcpStream) -> io::Result<Option<HttpRequest>> {
    let mut reader = BufReader::new(stream);

    let mut head = (&mut reader).take(HEAD_LIMIT);
    let request_line = read_line(&mut head)?;
    if request_line.is_empty() {
        return Ok(None);
    }
    let mut words = request_line.split(' ');
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        return Err(invalid("a request line without a path"));
    };
    let path = target.split('?').next().unwrap_or(target);

    let mut length = 0;
    let mut chunked = false;
    let mut then = ConnectionFate::KeepAlive;
    loop {
        let line = read_line(&mut head)?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => {
                length = value.parse().map_err(|_| invalid("a length that is no number"))?;
            }
            "transfer-encoding" => chunked = value.eq_ignore_ascii_case("chunked"),
            "connection" if value.eq_ignore_ascii_case("close") => then = ConnectionFate::Close,
            "expect" => (&mut &*stream).write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?,
            _ => {}
        }
    }

    let body =
        if chunked { read_chunked(&mut reader)? } else { read_exactly(&mut reader, length)? };
    Ok(Some(HttpRequest { method: method.to_owned(), path: path.to_owned(), body, then }))
}

/// Writes a whole response, and returns what happens to the connection.
pub(crate) fn write_json(
    stream: &TcpStream,
    status: u16,
    headers: &[(&str, String)],
    body: &[u8],
    then: ConnectionFate,
) -> io::Result<()> {
    let mut response = head(status, "application/json", then);
    response.push_str(&format!("content-length: {}\r\n", body.len()));
    for (name, value) in headers {
        response.push_str(&format!("{name}: {value}\r\n"));
    }
    response.push_str("\r\n");
    let mut bytes = response.into_bytes();
    bytes.extend_from_slice(body);
    (&mut &*stream).write_all(&bytes)
}

/// Starts a chunked response.
pub(crate) fn start_stream(stream: &TcpStream, then: ConnectionFate) -> io::Result<()> {
    let mut response = head(200, "text/event-stream", then);
    response.push_str("cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n");
    (&mut &*stream).write_all(response.as_bytes())
}

/// Writes one chunk of a started response.
pub(crate) fn write_chunk(stream: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    (&mut &*stream).write_all(&chunk)
}

/// Ends a started response regularly.
pub(crate) fn end_stream(stream: &TcpStream) -> io::Result<()> {
    (&mut &*stream).write_all(b"0\r\n\r\n")
}

fn head(status: u16, content_type: &str, then: ConnectionFate) -> String {
    let reason = match status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        529 => "Overloaded",
        _ => "Scripted",
    };
    let then = match then {
        ConnectionFate::KeepAlive => "keep-alive",
        ConnectionFate::Close => "close",
    };
    format!("HTTP/1.1 {status} {reason}\r\ncontent-type: {content_type}\r\nconnection: {then}\r\n")
}

fn read_line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

fn read_chunked(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let size = read_line(reader)?;
        let digits = size.split(';').next().unwrap_or(&size).trim();
        let size = u64::from_str_radix(digits, 16)
            .map_err(|_| invalid("a chunk whose size is no number"))?;
        let chunk = read_exactly(reader, size)?;
        read_line(reader)?;
        if chunk.is_empty() {
            return Ok(body);
        }
        body.extend_from_slice(&chunk);
        if body.len() as u64 > BODY_LIMIT {
            return Err(invalid("a body that is too large"));
        }
    }
}

fn read_exactly(reader: &mut impl Read, length: u64) -> io::Result<Vec<u8>> {
    if length > BODY_LIMIT {
        return Err(invalid("a body that is too large"));
    }
    let mut body = Vec::new();
    reader.take(length).read_to_end(&mut body)?;
    if (body.len() as u64) < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(body)
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
