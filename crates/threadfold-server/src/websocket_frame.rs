//! WebSocket frames (RFC 6455): a server's frames are written once for all clients, and a client's
//! are read one connection at a time.
//!
//! Frames of a server are not masked, so one buffer serves every connection. The libraries copy a
//! message for each of them, which costs more than anything else here.

use bytes::{BufMut, Bytes, BytesMut};

/// The longest message that a client may send.
pub(crate) const LONGEST_MESSAGE: usize = 64 << 10;
/// The longest content of a control frame.
const LONGEST_CONTROL: usize = 125;

const CONTINUATION: u8 = 0x0;
const TEXT: u8 = 0x1;
const BINARY: u8 = 0x2;
const CLOSE: u8 = 0x8;
const PING: u8 = 0x9;
const PONG: u8 = 0xa;
const FINAL: u8 = 0x80;
const MASKED: u8 = 0x80;

/// Returns a text as one frame, and how long its header is.
pub(crate) fn text_frame(text: &str) -> (Bytes, usize) {
    let mut frame = BytesMut::with_capacity(text.len() + 10);
    put_header(&mut frame, TEXT, text.len());
    let header = frame.len();
    frame.extend_from_slice(text.as_bytes());
    (frame.freeze(), header)
}

/// Returns the answer to a ping.
pub(crate) fn pong_frame(content: &[u8]) -> Bytes {
    control_frame(PONG, content)
}

/// Returns a frame that closes the connection.
pub(crate) fn close_frame(code: u16, reason: &str) -> Bytes {
    let mut content = BytesMut::with_capacity(2 + reason.len());
    // Without a code, as a client that gave none is answered.
    if code != 0 {
        content.put_u16(code);
        let mut end = reason.len().min(LONGEST_CONTROL - 2);
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        content.extend_from_slice(&reason.as_bytes()[..end]);
    }
    control_frame(CLOSE, &content)
}

fn control_frame(kind: u8, content: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(content.len() + 2);
    put_header(&mut frame, kind, content.len());
    frame.extend_from_slice(content);
    frame.freeze()
}

fn put_header(frame: &mut BytesMut, kind: u8, length: usize) {
    frame.put_u8(FINAL | kind);
    match length {
        0..=125 => frame.put_u8(length as u8),
        126..=0xffff => {
            frame.put_u8(126);
            frame.put_u16(length as u16);
        }
        _ => {
            frame.put_u8(127);
            frame.put_u64(length as u64);
        }
    }
}

/// What a client sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ClientMessage {
    Text(String),
    Ping(Bytes),
    Pong,
    /// It closes the connection; with its code, or 0.
    Close(u16),
}

/// Why a client's bytes are refused: the code and the reason of the answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
}

const fn violation(code: u16, reason: &'static str) -> Violation {
    Violation { code, reason }
}

const PROTOCOL: u16 = 1002;
const UNSUPPORTED: u16 = 1003;
const NOT_TEXT: u16 = 1007;
const TOO_LONG: u16 = 1009;

/// Reads the frames of one client.
#[derive(Default)]
pub(crate) struct FrameReader {
    received: BytesMut,
    /// The parts of a text so far, if it is sent in several.
    parts: Option<Vec<u8>>,
}

impl FrameReader {
    /// Adds received bytes.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
    }

    /// Returns the next message, if all of it was received.
    pub(crate) fn next(&mut self) -> Result<Option<ClientMessage>, Violation> {
        loop {
            let Some((kind, is_final, content)) = self.next_frame()? else { return Ok(None) };
            match kind {
                PING => return Ok(Some(ClientMessage::Ping(content.freeze()))),
                PONG => return Ok(Some(ClientMessage::Pong)),
                CLOSE => return close_code(&content).map(|it| Some(ClientMessage::Close(it))),
                _ => {
                    let mut text = self.parts.take().unwrap_or_default();
                    if text.len() + content.len() > LONGEST_MESSAGE {
                        return Err(violation(TOO_LONG, "the message is too long"));
                    }
                    text.extend_from_slice(&content);
                    if !is_final {
                        self.parts = Some(text);
                        continue;
                    }
                    let text = String::from_utf8(text);
                    let text = text.map_err(|_| violation(NOT_TEXT, "the text is not UTF-8"))?;
                    return Ok(Some(ClientMessage::Text(text)));
                }
            }
        }
    }

    /// Returns the kind of the next frame, whether it is the last of its message, and its content.
    fn next_frame(&mut self) -> Result<Option<(u8, bool, BytesMut)>, Violation> {
        let [first, second, ..] = self.received[..] else {
            self.release();
            return Ok(None);
        };
        let (kind, is_final) = (first & 0x0f, first & FINAL != 0);
        self.check_kind(first, kind, is_final)?;
        if second & MASKED == 0 {
            return Err(violation(PROTOCOL, "a client's frame must be masked"));
        }
        let number = |bytes: &[u8]| bytes.iter().fold(0_u64, |sum, it| sum << 8 | u64::from(*it));
        let (length, head) = match second & 0x7f {
            126 => (self.received.get(2..4).map(number), 4),
            127 => (self.received.get(2..10).map(number), 10),
            length => (Some(u64::from(length)), 2),
        };
        let Some(length) = length else { return Ok(None) };
        let is_control = kind >= CLOSE;
        if is_control && length > LONGEST_CONTROL as u64 {
            return Err(violation(PROTOCOL, "a control frame is too long"));
        }
        let length = usize::try_from(length).ok().filter(|it| *it <= LONGEST_MESSAGE);
        let length = length.ok_or(violation(TOO_LONG, "the frame is too long"))?;
        if self.received.len() < head + 4 + length {
            return Ok(None);
        }
        let header = self.received.split_to(head + 4);
        let mask: [u8; 4] = [header[head], header[head + 1], header[head + 2], header[head + 3]];
        let mut content = self.received.split_to(length);
        for (index, byte) in content.iter_mut().enumerate() {
            *byte ^= mask[index % 4];
        }
        Ok(Some((kind, is_final, content)))
    }

    fn check_kind(&self, first: u8, kind: u8, is_final: bool) -> Result<(), Violation> {
        if first & 0x70 != 0 {
            return Err(violation(PROTOCOL, "an extension was not agreed on"));
        }
        match (kind, is_final, self.parts.is_some()) {
            (CLOSE | PING | PONG, true, _) => Ok(()),
            (CLOSE | PING | PONG, false, _) => {
                Err(violation(PROTOCOL, "a control frame must not be divided"))
            }
            (TEXT, _, false) | (CONTINUATION, _, true) => Ok(()),
            (BINARY, _, false) => Err(violation(UNSUPPORTED, "only text is accepted")),
            (CONTINUATION, _, false) => Err(violation(PROTOCOL, "there is nothing to continue")),
            (TEXT | BINARY, _, true) => {
                Err(violation(PROTOCOL, "the message before is not complete"))
            }
            _ => Err(violation(PROTOCOL, "the frame has an unknown kind")),
        }
    }

    /// Frees the buffer of a connection that sends nothing.
    fn release(&mut self) {
        if self.received.is_empty() && self.received.capacity() > 0 {
            self.received = BytesMut::new();
        }
    }
}

/// Returns the code of a close frame; 0 if it has none.
fn close_code(content: &[u8]) -> Result<u16, Violation> {
    match content {
        [] => Ok(0),
        [_] => Err(violation(PROTOCOL, "the code of a close frame is cut")),
        [high, low, reason @ ..] => {
            let code = u16::from_be_bytes([*high, *low]);
            let is_valid = matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999);
            match (is_valid, std::str::from_utf8(reason)) {
                (true, Ok(_)) => Ok(code),
                (true, Err(_)) => Err(violation(NOT_TEXT, "the reason is not UTF-8")),
                (false, _) => Err(violation(PROTOCOL, "the code of a close frame is not allowed")),
            }
        }
    }
}

// With their paths, because the echo of `soak autobahn` and the fuzzer include this file.
#[cfg(test)]
#[path = "websocket_frame/law.rs"]
mod law;
#[cfg(test)]
#[path = "websocket_frame/tests.rs"]
mod tests;
