//! The server's heartbeat: one timer for all connections, and the signal that the server stops.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crate::shared_log::Signal;

/// Beats for all connections.
pub(crate) struct Pulse {
    beats: AtomicU64,
    is_closing: AtomicBool,
    connections: Mutex<BTreeMap<u64, Arc<Signal>>>,
    next: AtomicU64,
}

impl Pulse {
    /// Starts to beat, for as long as somebody holds it.
    pub(crate) fn start(interval: Duration) -> Arc<Self> {
        let pulse = Arc::new(Self {
            beats: AtomicU64::new(0),
            is_closing: AtomicBool::new(false),
            connections: Mutex::default(),
            next: AtomicU64::new(0),
        });
        let beating = Arc::downgrade(&pulse);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(interval).await;
                let Some(pulse) = Weak::upgrade(&beating) else { return };
                pulse.beats.fetch_add(1, Ordering::Relaxed);
                pulse.wake_all();
            }
        });
        pulse
    }

    /// Adds a connection, until the beat is dropped.
    pub(crate) fn join(self: &Arc<Self>, signal: &Arc<Signal>) -> Beat {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.connections().insert(id, signal.clone());
        Beat { pulse: self.clone(), id, seen: self.beats.load(Ordering::Relaxed) }
    }

    /// Tells all connections to end.
    pub(crate) fn close(&self) {
        self.is_closing.store(true, Ordering::Release);
        self.wake_all();
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    fn wake_all(&self) {
        self.connections().values().for_each(|it| it.set());
    }

    fn connections(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Signal>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's place in the pulse.
pub(crate) struct Beat {
    pulse: Arc<Pulse>,
    id: u64,
    seen: u64,
}

impl Beat {
    /// Returns whether there was a beat since the last call.
    pub(crate) fn is_due(&mut self, pulse: &Pulse) -> bool {
        let beats = pulse.beats.load(Ordering::Relaxed);
        std::mem::replace(&mut self.seen, beats) != beats
    }
}

impl Drop for Beat {
    fn drop(&mut self) {
        self.pulse.connections().remove(&self.id);
    }
}
