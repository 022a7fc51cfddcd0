//! What can go wrong in a step, where, and how often.

use std::time::Duration;

/// Something that goes wrong with an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request is refused with an HTTP status and the provider's error body.
    Status {
        /// The status, such as 400, 429, 500 or 529.
        status: u16,
        /// What the `retry-after` header says, in seconds.
        retry_after: Option<u64>,
    },
    /// The stream says that it failed, and ends in good order.
    ///
    /// A request that does not stream is refused with the status instead.
    ErrorEvent {
        /// After what it is said.
        at: Place,
        /// The status that the same error would have had, such as 529.
        status: u16,
    },
    /// The connection ends without a word.
    ///
    /// A request that does not stream gets no answer at all.
    Cut {
        /// After what it ends.
        at: Place,
        /// How long nothing comes before it ends.
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

    /// Says at `at` that the provider is overloaded.
    pub fn overloaded(at: Place) -> Self {
        Self::ErrorEvent { at, status: 529 }
    }

    /// Ends the connection at `at`.
    ///
    /// A client that has not yet looked at the last events may never do so.
    pub fn cut(at: Place) -> Self {
        Self::cut_after(at, Duration::ZERO)
    }

    /// Ends the connection at `at` after a silence, in which the client can act on what came.
    pub fn cut_after(at: Place, silence: Duration) -> Self {
        Self::Cut { at, silence }
    }
}

/// A place in a streamed answer. Blocks are counted from zero.
///
/// A place that the answer does not have is never reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// After the message has started, before any block.
    Start,
    /// Within a block, after so many of its deltas; none is right after the block has started.
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

/// On which attempts at a step a fault happens.
///
/// Attempts are counted over the life of the model, for each step of each script, from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempts {
    /// On all of them.
    Every,
    /// On the first so many.
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
