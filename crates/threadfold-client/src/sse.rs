//! Reads server-sent events from chunks of bytes.

/// Reads the data of server-sent events, wherever their bytes are cut.
#[derive(Clone, Debug, Default)]
pub struct EventReader {
    received: Vec<u8>,
    data: String,
}

impl EventReader {
    /// Adds received bytes, and returns the data of the events that they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        self.received.extend_from_slice(bytes);
        let mut events = Vec::new();
        let mut start = 0;
        while let Some(length) = self.received[start..].iter().position(|it| *it == b'\n') {
            let line = &self.received[start..start + length];
            start += length + 1;
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                if !self.data.is_empty() {
                    events.push(std::mem::take(&mut self.data));
                }
            } else if let Some(data) = line.strip_prefix(b"data:") {
                let data = data.strip_prefix(b" ").unwrap_or(data);
                if !self.data.is_empty() {
                    self.data.push('\n');
                }
                self.data.push_str(&String::from_utf8_lossy(data));
            }
            // The cursor is in each frame as well, so `id` is not needed; comments are none.
        }
        self.received.drain(..start);
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_wherever_they_are_cut() {
        let sent = b"id: a.1.2\ndata: {\"x\":1}\n\n: hello\n\ndata: a\r\ndata: b\r\n\r\ndata: cut";
        for chunk in 1..sent.len() {
            let mut reader = EventReader::default();
            let read: Vec<String> = sent.chunks(chunk).flat_map(|it| reader.push(it)).collect();
            assert_eq!(read, ["{\"x\":1}", "a\nb"], "{chunk}");
        }
    }
}
