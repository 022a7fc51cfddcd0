//! The law of the reader of client frames, for the tests and for the fuzzer.

use crate::websocket_frame::{ClientMessage, FrameReader, LONGEST_MESSAGE, Violation};

/// Returns all messages of the bytes, which arrive in chunks of this size.
pub(crate) fn read(bytes: &[u8], chunk: usize) -> (Vec<ClientMessage>, Option<Violation>) {
    let (mut reader, mut messages) = (FrameReader::default(), Vec::new());
    for chunk in bytes.chunks(chunk) {
        reader.extend(chunk);
        loop {
            match reader.next() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(violation) => return (messages, Some(violation)),
            }
        }
    }
    (messages, None)
}

/// Wherever a client's bytes are cut, they mean the same. The first byte chooses where.
pub(crate) fn any_bytes_are_read_or_refused(input: &[u8]) {
    let Some((chunk, bytes)) = input.split_first() else { return };
    let whole = read(bytes, bytes.len().max(1));
    let apart = read(bytes, usize::from(*chunk).max(1));
    assert_eq!(whole, apart);
    for message in &whole.0 {
        let length = match message {
            ClientMessage::Text(text) => text.len(),
            ClientMessage::Ping(content) => content.len(),
            ClientMessage::Pong | ClientMessage::Close(_) => 0,
        };
        assert!(length <= LONGEST_MESSAGE, "a message has {length} bytes");
    }
}
