//! A bounded log of framed bytes that all subscribers of one stream share.
//!
//! A frame is serialized and framed once, whatever the number of subscribers. A subscriber is an
//! index into this log: it has no queue, so a slow one costs nothing, and receives a gap.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::task::AtomicWaker;

use crate::websocket_frame::text_frame;

/// How many bytes of frames are kept for slow subscribers. A single larger frame is kept as well.
pub(crate) const MOST_BYTES: usize = 1 << 20;
/// What a frame costs beside its bytes.
const ENTRY_BYTES: usize = 160;

/// One frame, as bytes for every transport.
#[derive(Debug)]
pub(crate) struct FramedEntry {
    /// The client's cursor once it has this frame; nothing for a frame that moves no cursor.
    pub(crate) cursor: Option<String>,
    /// The record, to find a subscriber's place.
    pub(crate) seq: u64,
    /// No frame of this stream follows.
    pub(crate) is_last: bool,
    websocket: Bytes,
    header: usize,
    events: OnceLock<Bytes>,
}

impl FramedEntry {
    pub(crate) fn new(cursor: Option<String>, seq: u64, json: &str) -> Self {
        // Raw JSON of an agent may contain line ends between its tokens; SSE cannot.
        let has_line_end = json.contains('\n') || json.contains('\r');
        let (websocket, header) = match has_line_end {
            true => text_frame(&json.replace(['\n', '\r'], " ")),
            false => text_frame(json),
        };
        Self { cursor, seq, is_last: false, websocket, header, events: OnceLock::new() }
    }

    pub(crate) fn last(self) -> Self {
        Self { is_last: true, ..self }
    }

    /// Returns the frame as a WebSocket carries it.
    pub(crate) fn websocket(&self) -> &Bytes {
        &self.websocket
    }

    /// Returns the frame as a server-sent event.
    pub(crate) fn event(&self) -> &Bytes {
        self.events.get_or_init(|| {
            let json = &self.websocket[self.header..];
            let cursor = self.cursor.as_deref().unwrap_or_default();
            let mut event = BytesMut::with_capacity(json.len() + cursor.len() + 16);
            if !cursor.is_empty() {
                event.put_slice(b"id: ");
                event.put_slice(cursor.as_bytes());
                event.put_slice(b"\n");
            }
            event.put_slice(b"data: ");
            event.put_slice(json);
            event.put_slice(b"\n\n");
            event.freeze()
        })
    }

    fn weight(&self) -> usize {
        self.websocket.len() + ENTRY_BYTES
    }
}

/// Wakes one connection. It is all that a log knows of a subscriber.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    is_set: AtomicBool,
    waker: AtomicWaker,
}

impl Signal {
    pub(crate) fn set(&self) {
        // One that is set already has woken its connection.
        if !self.is_set.swap(true, Ordering::AcqRel) {
            self.waker.wake();
        }
    }

    /// Returns whether it was set since the last call; if not, the waker is woken when it is.
    pub(crate) fn take(&self, waker: &Waker) -> bool {
        // Registered in any case, and first: whoever gets news may still wait for more.
        self.waker.register(waker);
        self.is_set.swap(false, Ordering::AcqRel)
    }
}

/// A log of frames, and the connections that wait for more.
#[derive(Debug, Default)]
pub(crate) struct SharedLog {
    entries: Mutex<Entries>,
    /// The index after the last entry, for subscribers that check whether there is anything.
    end: AtomicU64,
    waiting: Mutex<BTreeMap<u64, Arc<Signal>>>,
    next_subscriber: AtomicU64,
}

#[derive(Debug, Default)]
struct Entries {
    first: u64,
    entries: VecDeque<Arc<FramedEntry>>,
    bytes: usize,
}

/// Where a subscriber can continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// At this index.
    At(u64),
    /// The next record is not in the log any more.
    Behind,
}

impl SharedLog {
    /// Appends frames, drops the oldest ones beyond the limit, and wakes all subscribers.
    pub(crate) fn append(&self, new: impl IntoIterator<Item = FramedEntry>) {
        let mut log = self.entries();
        for entry in new {
            log.bytes += entry.weight();
            log.entries.push_back(Arc::new(entry));
        }
        while log.bytes > MOST_BYTES
            && log.entries.len() > 1
            && let Some(oldest) = log.entries.pop_front()
        {
            log.bytes -= oldest.weight();
            log.first += 1;
        }
        self.end.store(log.first + log.entries.len() as u64, Ordering::Release);
        drop(log);
        self.wake_all();
    }

    /// Forgets all frames: whoever has not read them is behind.
    pub(crate) fn clear(&self) {
        let mut log = self.entries();
        // One more, so that also those who have read everything notice.
        log.first += log.entries.len() as u64 + 1;
        log.entries.clear();
        log.bytes = 0;
        self.end.store(log.first, Ordering::Release);
        drop(log);
        self.wake_all();
    }

    /// Appends the frames from an index on, up to about so many bytes, and returns the next index;
    /// nothing if the index is behind.
    pub(crate) fn read(
        &self,
        from: u64,
        most: usize,
        out: &mut Vec<Arc<FramedEntry>>,
    ) -> Option<u64> {
        if self.end.load(Ordering::Acquire) == from {
            return Some(from);
        }
        let log = self.entries();
        let start = usize::try_from(from.checked_sub(log.first)?).ok()?;
        let (mut next, mut bytes) = (from, 0);
        for entry in log.entries.range(start.min(log.entries.len())..) {
            if bytes > 0 && bytes + entry.websocket.len() > most {
                break;
            }
            bytes += entry.websocket.len();
            next += 1;
            out.push(entry.clone());
        }
        Some(next)
    }

    /// Returns where a subscriber that has seen a record continues. `end` is the record after which
    /// the next frame will be appended.
    pub(crate) fn place_after(&self, seq: u64, end: u64) -> Place {
        let log = self.entries();
        match log.entries.iter().position(|it| it.seq > seq) {
            // Records are appended without a gap.
            Some(0) if log.entries[0].seq > seq + 1 => Place::Behind,
            Some(index) => Place::At(log.first + index as u64),
            None if end > seq => Place::Behind,
            None => Place::At(log.first + log.entries.len() as u64),
        }
    }

    /// Returns the index after the last frame.
    pub(crate) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// Adds a connection that is woken when there is something new.
    pub(crate) fn subscribe(&self, signal: &Arc<Signal>) -> u64 {
        let id = self.next_subscriber.fetch_add(1, Ordering::Relaxed);
        self.waiting().insert(id, signal.clone());
        id
    }

    pub(crate) fn unsubscribe(&self, id: u64) {
        self.waiting().remove(&id);
    }

    fn wake_all(&self) {
        self.waiting().values().for_each(|it| it.set());
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Signal>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(seq: u64, length: usize) -> FramedEntry {
        FramedEntry::new(Some(format!("l.1.{seq}")), seq, &"x".repeat(length))
    }

    fn read(log: &SharedLog, from: u64) -> (Option<u64>, Vec<u64>) {
        let mut out = Vec::new();
        let next = log.read(from, usize::MAX, &mut out);
        (next, out.iter().map(|it| it.seq).collect())
    }

    #[test]
    fn the_log_keeps_a_megabyte_and_whoever_is_behind_is_told() {
        let log = SharedLog::default();
        log.append((1..=100).map(|seq| entry(seq, 30 << 10)));
        let (next, seen) = read(&log, 70);
        assert_eq!((next, seen.first(), seen.last()), (Some(100), Some(&71), Some(&100)));
        assert_eq!(read(&log, 10), (None, vec![]), "the frames after the tenth are gone");
        let held = log.entries().bytes;
        assert!(held <= MOST_BYTES, "{held}");
        assert_eq!(log.place_after(99, 100), Place::At(99));
        assert_eq!(log.place_after(100, 100), Place::At(100));
        assert_eq!(log.place_after(10, 100), Place::Behind);
        log.append([entry(101, 3 << 20)]);
        assert_eq!(read(&log, 100), (Some(101), vec![101]), "one large frame is kept");
        assert_eq!(log.place_after(99, 101), Place::Behind);
    }

    #[test]
    fn an_empty_log_knows_what_comes_next() {
        let log = SharedLog::default();
        assert_eq!(log.place_after(7, 7), Place::At(0));
        assert_eq!(log.place_after(9, 7), Place::At(0), "the log has not read as far yet");
        assert_eq!(log.place_after(6, 7), Place::Behind);
    }

    #[test]
    fn whoever_has_read_everything_notices_that_the_log_was_cleared() {
        let log = SharedLog::default();
        log.append([entry(1, 1), entry(2, 1)]);
        log.clear();
        assert_eq!(read(&log, 2).0, None);
        assert_eq!(read(&log, log.end()), (Some(3), vec![]));
    }

    #[test]
    fn a_frame_is_one_event_and_one_websocket_frame() {
        let entry = FramedEntry::new(Some("l.1.4".into()), 4, "{\"a\":\n1}");
        assert_eq!(entry.event()[..], *b"id: l.1.4\ndata: {\"a\": 1}\n\n");
        assert_eq!(entry.websocket()[..], *b"\x81\x08{\"a\": 1}");
    }
}
