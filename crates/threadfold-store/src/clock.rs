//! The clock that decides when leases expire.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use threadfold_fold::Timestamp;

/// The clock of a store.
///
/// Every lease of a store is timed by this one clock, so a caller whose own clock is wrong can
/// neither keep a lease for too long nor take one too early. Stores use the system clock unless
/// they are opened with another; tests pass one that they move themselves.
///
/// ```
/// use threadfold_fold::Timestamp;
/// use threadfold_store::{Clock, MemoryStore};
///
/// let store = MemoryStore::with_clock(Clock::new(|| Timestamp(1_000)));
/// # drop(store);
/// ```
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// Returns a clock that reads the time with this function.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Returns the clock of this machine.
    pub fn system() -> Self {
        Self::new(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
        })
    }

    /// Returns the time.
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl Default for Clock {
    /// Returns the clock of this machine.
    fn default() -> Self {
        Self::system()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}
