//! The limits of a run.

use std::time::Duration;

use threadfold_core::{EvaluationId, Json, TurnState};

use crate::error::RunLimit;
use crate::provider::usage_of;

/// The limits of a run. A run that reached a limit can be resumed with a higher one.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// The number of turns, including those before a resume.
    pub turns: Option<u64>,
    /// The time since the run was started or resumed.
    pub time: Option<Duration>,
    /// The number of tokens, including those before a resume.
    pub tokens: Option<u64>,
    /// The cost in US dollars, including the cost before a resume. Requires prices.
    pub cost_usd: Option<f64>,
    /// The prices of tokens.
    pub prices: Option<Prices>,
    /// How long a tool may run.
    pub tool_time: Duration,
    /// How long a tool may take to stop after it was cancelled.
    pub grace: Duration,
    /// How many bytes of text of a tool's output or error are kept. Longer text is truncated in the
    /// middle.
    pub output: usize,
    /// How many bytes of images of a tool's output are kept, in base64. An image that does not fit
    /// is replaced by a placeholder.
    pub images: usize,
    /// How many bytes a request may have. If it would be larger, the largest outputs since the last
    /// request are omitted and replaced by a placeholder: a provider would refuse an oversized
    /// request again on every resume.
    pub request: usize,
    /// How many tools run in parallel.
    pub parallel: usize,
}

/// The price of a million tokens, in US dollars.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// The price of input tokens.
    pub input: f64,
    /// The price of output tokens.
    pub output: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            turns: Some(200),
            time: None,
            tokens: None,
            cost_usd: None,
            prices: None,
            tool_time: Duration::from_secs(600),
            grace: Duration::from_secs(5),
            output: 256 << 10,
            images: 5_000_000,
            request: 30_000_000,
            parallel: 8,
        }
    }
}

impl Limits {
    /// Returns the limit that a run has reached, if any. Called before each further turn.
    pub(crate) fn reached(&self, spent: &UsageTotals, passed: Duration) -> Option<RunLimit> {
        if let Some(limit) = self.turns.filter(|&limit| spent.turns >= limit) {
            return Some(RunLimit::Turns(limit));
        }
        if let Some(limit) = self.time.filter(|&limit| passed >= limit) {
            return Some(RunLimit::Time(limit));
        }
        let tokens = spent.input + spent.output;
        if let Some(limit) = self.tokens.filter(|&limit| tokens >= limit) {
            return Some(RunLimit::Tokens(limit));
        }
        let prices = self.prices?;
        #[expect(clippy::cast_precision_loss, reason = "a price needs no more")]
        let cost = (spent.input as f64 * prices.input + spent.output as f64 * prices.output) / 1e6;
        self.cost_usd.filter(|&limit| cost >= limit).map(RunLimit::Cost)
    }
}

/// What a run has spent. Updated with each turn instead of being recomputed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UsageTotals {
    turns: u64,
    input: u64,
    output: u64,
}

impl UsageTotals {
    /// Returns what was spent before a resume.
    pub(crate) fn until_now(state: &TurnState, run: &EvaluationId) -> Self {
        let mut spent = Self::default();
        for turn in state.turns().filter(|turn| turn.evaluation_id() == run) {
            spent.add_turn();
            spent.add_answer(turn.answer().and_then(|answer| answer.usage.as_ref()));
        }
        spent
    }

    pub(crate) fn add_turn(&mut self) {
        self.turns += 1;
    }

    pub(crate) fn add_answer(&mut self, usage: Option<&Json>) {
        let usage = usage.map(usage_of).unwrap_or_default();
        self.input += usage.input + usage.cache_read + usage.cache_write;
        self.output += usage.output;
    }
}
