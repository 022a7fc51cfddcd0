//! A clock that a test moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use threadfold_fold::Timestamp;
use threadfold_store::Clock;

/// A clock that only a test advances.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    /// Returns a clock set to this time.
    pub fn new(now: Timestamp) -> Self {
        Self(Arc::new(AtomicI64::new(now.0)))
    }

    /// Returns the time.
    pub fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }

    /// Moves the clock forward.
    pub fn advance(&self, duration: Duration) {
        self.0.store(self.now().after(duration).0, Ordering::SeqCst);
    }

    /// Returns the clock for a store, which follows this one.
    pub fn clock(&self) -> Clock {
        let clock = self.clone();
        Clock::new(move || clock.now())
    }
}
