//! Progress reports of a run.

use std::sync::Arc;
use std::time::Duration;

use threadfold_core::{CallId, Repair};

use crate::provider::Delta;

/// One step of a run. Reports are informational: the run does not depend on them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Progress {
    /// The request is sent.
    Asking {
        /// The turn.
        turn: u64,
    },
    /// A part of the answer.
    Delta(Delta),
    /// The answer is complete and durable.
    Answered {
        /// The turn.
        turn: u64,
        /// The number of tool calls in it.
        calls: usize,
    },
    /// There was no answer; the request will be retried.
    Retrying {
        /// The error.
        why: String,
        /// The delay before the retry.
        after: Duration,
    },
    /// A tool starts.
    ToolStarted {
        /// The call.
        call: CallId,
        /// The tool.
        name: Arc<str>,
        /// The arguments, as the model wrote them.
        arguments: Arc<str>,
        /// The attempt, from 1.
        attempt: u64,
    },
    /// A call has its result.
    ToolFinished {
        /// The call.
        call: CallId,
        /// The tool.
        name: Arc<str>,
        /// The output for the model.
        output: String,
        /// The output reports a failure.
        is_error: bool,
    },
    /// A tool's output was omitted from the request, which would have become too large. The output
    /// stays recorded.
    Omitted {
        /// The call.
        call: Option<CallId>,
        /// The number of bytes.
        bytes: usize,
    },
    /// A problem that does not affect the result of the run.
    Warning(String),
    /// The history was repaired so that the provider accepts it.
    Repaired(Repair),
}
