//! Why there is no answer, by what can be done about it.

use std::error::Error;
use std::time::Duration;

type Cause = Box<dyn Error + Send + Sync>;

/// Why a provider gave no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// Ask again later.
    #[error("{provider} is busy ({status}): {message}")]
    Busy {
        /// Who.
        provider: String,
        /// The HTTP status, or the one that an error in the stream stands for.
        status: u16,
        /// What it said.
        message: String,
        /// How long to wait, if it said so.
        after: Option<Duration>,
    },
    /// Ask again: there is no whole answer.
    #[error("the answer of {provider} broke off: {what}")]
    Broken {
        /// Who.
        provider: String,
        /// What happened.
        what: String,
        /// Why.
        source: Option<Cause>,
    },
    /// Give another key.
    #[error("{provider} refused the key ({status}): {message}")]
    Unauthorized {
        /// Who.
        provider: String,
        /// The HTTP status.
        status: u16,
        /// What it said.
        message: String,
    },
    /// Change what is asked: it will be refused again.
    #[error("{provider} refused the request ({status}): {message}")]
    Refused {
        /// Who.
        provider: String,
        /// The HTTP status.
        status: u16,
        /// What it said.
        message: String,
    },
}

impl ProviderError {
    /// Says whether asking again may help.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Broken { .. })
    }

    /// Returns how long the provider wants to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Busy { after, .. } => *after,
            _ => None,
        }
    }

    /// Returns the error that an HTTP status stands for.
    pub fn of_status(
        provider: &str,
        status: u16,
        message: impl Into<String>,
        after: Option<Duration>,
    ) -> Self {
        let (provider, message) = (provider.to_owned(), message.into());
        match status {
            408 | 409 | 425 | 429 | 500.. => Self::Busy { provider, status, message, after },
            401 | 403 => Self::Unauthorized { provider, status, message },
            _ => Self::Refused { provider, status, message },
        }
    }
}
