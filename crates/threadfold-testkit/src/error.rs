//! What can go wrong around a test, apart from what the test is about.

use std::{error::Error, fmt, io, time::Duration};

/// Why the testkit could not do what a test asked of it.
#[derive(Debug)]
#[non_exhaustive]
pub enum TestkitError {
    /// The system refused; look at the machine.
    Io {
        /// What was being done, as in "cannot …".
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// What was waited for did not happen; look at the test.
    TimedOut {
        /// What was waited for.
        what: String,
        /// How long the wait was.
        limit: Duration,
    },
}

impl TestkitError {
    /// Returns a function that says what was being done when the system refused.
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
