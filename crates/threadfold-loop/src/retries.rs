//! How often and when a failed request to a provider is retried.
//!
//! Which errors are retried: [`ProviderError::is_transient`](crate::ProviderError::is_transient).

use std::time::Duration;

/// How often a request without an answer is retried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retries {
    /// The total number of attempts.
    pub attempts: u32,
    /// The delay after the first attempt. It doubles after each further one.
    pub first: Duration,
    /// The maximum delay, unless the provider asks for a longer one.
    pub longest: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self { attempts: 8, first: Duration::from_millis(500), longest: Duration::from_secs(60) }
    }
}

impl Retries {
    /// Returns the delay after this attempt: the one that the provider asked for, else a randomized
    /// one, so that many clients do not retry at the same moment.
    pub(crate) fn pause(&self, attempt: u32, requested: Option<Duration>) -> Duration {
        if let Some(requested) = requested {
            return requested;
        }
        let doubled = self.first.saturating_mul(1 << (attempt - 1).min(16)).min(self.longest);
        doubled.mul_f64(0.5 + fastrand::f64() / 2.0)
    }
}
