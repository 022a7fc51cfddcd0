//! Why there is no answer, by what the caller can do about it.

use std::error::Error;
use std::time::Duration;

type Cause = Box<dyn Error + Send + Sync>;

/// Why a provider returned no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// Retry later.
    #[error("{provider} is busy ({status}): {message}")]
    Busy {
        /// The provider.
        provider: String,
        /// The HTTP status, or the one that corresponds to an error in the stream.
        status: u16,
        /// The provider's message.
        message: String,
        /// The delay requested by the provider, if any.
        after: Option<Duration>,
    },
    /// Retry: there is no complete answer.
    #[error("the answer of {provider} is incomplete: {what}")]
    Broken {
        /// The provider.
        provider: String,
        /// What happened.
        what: String,
        /// The cause.
        source: Option<Cause>,
    },
    /// Ask for less: the answer would be as large again.
    #[error("the answer of {provider} has more than {limit} bytes")]
    TooLarge {
        /// The provider.
        provider: String,
        /// The largest answer in bytes.
        limit: usize,
    },
    /// Use another key.
    #[error("{provider} refused the key ({status}): {message}")]
    Unauthorized {
        /// The provider.
        provider: String,
        /// The HTTP status.
        status: u16,
        /// The provider's message.
        message: String,
    },
    /// Change the request: it would be refused again.
    #[error("{provider} refused the request ({status}): {message}")]
    Refused {
        /// The provider.
        provider: String,
        /// The HTTP status.
        status: u16,
        /// The provider's message.
        message: String,
    },
}

impl ProviderError {
    /// Returns true if a retry may succeed.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Broken { .. })
    }

    /// Returns how long the provider asked to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Busy { after, .. } => *after,
            _ => None,
        }
    }

    /// Returns the error for an HTTP status.
    pub fn of_status(provider: &str, status: u16, message: impl Into<String>) -> Self {
        let (provider, message) = (provider.to_owned(), message.into());
        match status {
            408 | 409 | 425 | 429 | 500.. => Self::Busy { provider, status, message, after: None },
            401 | 403 => Self::Unauthorized { provider, status, message },
            _ => Self::Refused { provider, status, message },
        }
    }

    /// Returns the error of a busy provider with the delay that it asked for.
    #[must_use]
    pub fn with_retry_after(mut self, delay: Duration) -> Self {
        if let Self::Busy { after, .. } = &mut self {
            *after = Some(delay);
        }
        self
    }
}
