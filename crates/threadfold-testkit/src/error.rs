//! Errors of the test environment, as opposed to failures of the test.

use std::{error::Error, fmt, io, time::Duration};

/// Why the testkit failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum TestkitError {
    /// The system refused; check the machine.
    Io {
        /// The failed operation, as in "cannot …".
        doing: String,
        /// The system's error.
        source: io::Error,
    },
    /// An expected event did not happen in time; check the test.
    TimedOut {
        /// The expected event.
        what: String,
        /// The timeout.
        limit: Duration,
    },
}

impl TestkitError {
    /// Returns a function that adds the failed operation to a system error.
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }
}

impl fmt::Display for TestkitError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { doing, .. } => write!(formatter, "cannot {doing}"),
            Self::TimedOut { what, limit } => {
                write!(formatter, "{what} did not happen within {limit:?}")
            }
        }
    }
}

impl Error for TestkitError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::TimedOut { .. } => None,
        }
    }
}
