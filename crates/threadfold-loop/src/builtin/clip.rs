//! Truncates output in the middle, because its beginning and end are the most useful parts.

use std::borrow::Cow;
use std::collections::VecDeque;

/// Keeps the first and the last bytes of unbounded output.
pub(crate) struct Clip {
    each: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

impl Clip {
    /// Returns a clip that keeps up to `each` bytes at either end.
    pub(crate) fn new(each: usize) -> Self {
        Self { each, head: Vec::new(), tail: VecDeque::new(), total: 0 }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(self.each - self.head.len()));
        self.head.extend_from_slice(head);
        let kept = &rest[rest.len().saturating_sub(self.each)..];
        let surplus = (self.tail.len() + kept.len()).saturating_sub(self.each);
        self.tail.drain(..surplus);
        self.tail.extend(kept);
    }

    /// Returns the kept text, with a note on how much was omitted.
    pub(crate) fn into_text(mut self) -> String {
        let tail = self.tail.make_contiguous();
        let omitted = self.total - (self.head.len() + tail.len()) as u64;
        if omitted == 0 {
            self.head.extend_from_slice(tail);
            return String::from_utf8_lossy(&self.head).into_owned();
        }
        let (head, tail) = (whole_start(&self.head), whole_end(tail));
        let omitted = self.total - (head.len() + tail.len()) as u64;
        format!("{}\n[… {omitted} bytes omitted …]\n{}", lossy(head), lossy(tail))
    }
}

/// Returns the text, truncated in the middle if it is longer than `limit` bytes.
pub(crate) fn shorten(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let mut clip = Clip::new(limit / 2);
    clip.push(text.as_bytes());
    clip.into_text()
}

fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// Removes an incomplete character at the end.
fn whole_start(bytes: &[u8]) -> &[u8] {
    for back in 1..=bytes.len().min(4) {
        let at = bytes.len() - back;
        let wanted = match bytes[at] {
            0xc0..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf7 => 4,
            0x80..=0xbf => continue,
            _ => 1,
        };
        return if wanted > back { &bytes[..at] } else { bytes };
    }
    bytes
}

/// Removes an incomplete character at the beginning.
fn whole_end(bytes: &[u8]) -> &[u8] {
    let cut = bytes.iter().take(3).take_while(|&&it| (0x80..=0xbf).contains(&it)).count();
    &bytes[cut..]
}
