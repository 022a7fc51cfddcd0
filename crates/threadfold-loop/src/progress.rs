//! What a run does, for whoever looks on.

use std::sync::Arc;
use std::time::Duration;

use threadfold_core::{CallId, Repair};

use crate::provider::Delta;

/// Something that a run does. Nothing depends on its being heard.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Progress {
    /// The model is asked.
    Asking {
        /// The turn.
        turn: u64,
    },
    /// A piece of the answer.
    Delta(Delta),
    /// The answer is there, and is durable.
    Answered {
        /// The turn.
        turn: u64,
        /// How many tools it asks for.
        calls: usize,
    },
    /// There was no answer; the model is asked again.
    AskingAgain {
        /// Why there was none.
        why: String,
        /// How long it is left alone.
        after: Duration,
    },
    /// A tool runs.
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
        /// What the model is told.
        output: String,
        /// It tells of a failure.
        is_error: bool,
    },
    /// The request had no room for something that a call gave. What it gave is kept.
    LeftOut {
        /// The call.
        call: Option<CallId>,
        /// How many bytes it was.
        bytes: usize,
    },
    /// Something went wrong beside the way: it changes nothing about what the run gives.
    Trouble(String),
    /// Something had to be repaired so that the provider takes it.
    Repaired(Repair),
}
