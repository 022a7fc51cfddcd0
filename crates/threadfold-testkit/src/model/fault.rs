//! Faults of a step: which, where, and how often.

use std::time::Duration;

/// A fault of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request is refused with an HTTP status and the provider's error body.
    Status {
        /// The status, such as 400, 429, 500 or 529.
        status: u16,
        /// The value of the `retry-after` header, in seconds.
        retry_after: Option<u64>,
    },
    /// The stream reports an error, and ends regularly.
    ///
    /// A request that does not stream is refused with the status instead.
    ErrorEvent {
        /// The position of the error.
        at: Place,
        /// The status that corresponds to the error, such as 529.
        status: u16,
    },
    /// The connection is closed without an error.
    ///
    /// A request that does not stream gets no answer at all.
    Cut {
        /// The position of the end.
        at: Place,
        /// How long nothing is sent before the end.
        silence: Duration,
    },
}

impl Fault {
    /// Refuses with `status`.
    pub fn status(status: u16) -> Self {
        Self::Status { status, retry_after: None }
    }

    /// Refuses with status 429, and asks the client to wait.
    pub fn rate_limit(retry_after: u64) -> Self {
        Self::Status { status: 429, retry_after: Some(retry_after) }
    }

    /// Reports at `at` that the provider is overloaded.
    pub fn overloaded(at: Place) -> Self {
        Self::ErrorEvent { at, status: 529 }
    }

    /// Closes the connection at `at`.
    ///
    /// A client that has not read the last events may lose them.
    pub fn cut(at: Place) -> Self {
        Self::cut_after(at, Duration::ZERO)
    }

    /// Closes the connection at `at` after a pause, in which the client can process earlier events.
    pub fn cut_after(at: Place, silence: Duration) -> Self {
        Self::Cut { at, silence }
    }
}

/// A position in a streamed answer. Blocks are counted from zero.
///
/// A position that the answer does not have is never reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// After the message has started, before any block.
    Start,
    /// Within a block, after this many of its deltas; zero is right after the block's start.
    Within {
        /// Which block.
        block: usize,
        /// After how many deltas.
        deltas: usize,
    },
    /// After the end of a block.
    After {
        /// Which block.
        block: usize,
    },
}

/// The attempts at a step on which a fault occurs.
///
/// Attempts are counted from one over the lifetime of the model, for each step of each script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempts {
    /// On all of them.
    Every,
    /// On the first ones, up to this number.
    First(u32),
    /// On this one.
    Only(u32),
}

impl Attempts {
    pub(crate) fn include(self, attempt: u32) -> bool {
        match self {
            Self::Every => true,
            Self::First(count) => attempt <= count,
            Self::Only(number) => attempt == number,
        }
    }
}
