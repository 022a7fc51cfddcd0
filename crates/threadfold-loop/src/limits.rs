//! How far a run may go, and how often it tries.

use std::time::Duration;

use threadfold_core::{EvaluationId, Json, TurnState};

use crate::error::Reached;
use crate::provider::usage_of;

/// How far a run may go. One that reached a limit can be resumed with a higher one.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// How many turns, with those before a resume.
    pub turns: Option<u64>,
    /// How long, since it was started or resumed.
    pub time: Option<Duration>,
    /// How many tokens, with those before a resume.
    pub tokens: Option<u64>,
    /// How many US dollars, with those before a resume; counts only if there are prices.
    pub cost_usd: Option<f64>,
    /// What tokens cost.
    pub prices: Option<Prices>,
    /// How long a tool may run.
    pub tool_time: Duration,
    /// How long a tool that was told to stop may take for it.
    pub grace: Duration,
    /// How many bytes of words are kept of a tool's output or error; of more, the beginning and
    /// the end.
    pub output: usize,
    /// How many bytes of pictures are kept of a tool's output, in base64; of one that does not
    /// fit, the model is told.
    pub images: usize,
    /// How many bytes a request may have. If it had more, the largest of what tools gave since
    /// the last one is left out, and the model is told: a request that a provider refuses for its
    /// size would be refused on every resume.
    pub request: usize,
    /// How many tools run at once.
    pub parallel: usize,
}

/// What a million tokens cost, in US dollars.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// Of those that are sent.
    pub input: f64,
    /// Of those that are answered.
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
    /// Returns the limit that a run reached, before it begins another turn.
    pub(crate) fn reached(&self, spent: &Spent, passed: Duration) -> Option<Reached> {
        if let Some(limit) = self.turns.filter(|&limit| spent.turns >= limit) {
            return Some(Reached::Turns(limit));
        }
        if let Some(limit) = self.time.filter(|&limit| passed >= limit) {
            return Some(Reached::Time(limit));
        }
        let tokens = spent.input + spent.output;
        if let Some(limit) = self.tokens.filter(|&limit| tokens >= limit) {
            return Some(Reached::Tokens(limit));
        }
        let prices = self.prices?;
        #[expect(clippy::cast_precision_loss, reason = "a price needs no more")]
        let cost = (spent.input as f64 * prices.input + spent.output as f64 * prices.output) / 1e6;
        self.cost_usd.filter(|&limit| cost >= limit).map(Reached::Cost)
    }
}

/// What a run has spent. It is counted on with each turn, and not anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    turns: u64,
    input: u64,
    output: u64,
}

impl Spent {
    /// Counts what was spent before a resume.
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

/// How often a provider is asked that gave no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retries {
    /// How often in all.
    pub attempts: u32,
    /// How long it is left alone after the first time; twice as long after each other.
    pub first: Duration,
    /// How long it is left alone at most, unless it asks for more itself.
    pub longest: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self { attempts: 8, first: Duration::from_millis(500), longest: Duration::from_secs(60) }
    }
}

impl Retries {
    /// Returns how long to wait after this attempt. What the provider said counts; without that,
    /// chance spreads those that ask at once.
    pub(crate) fn pause(&self, attempt: u32, said: Option<Duration>) -> Duration {
        if let Some(said) = said {
            return said;
        }
        let doubled = self.first.saturating_mul(1 << (attempt - 1).min(16)).min(self.longest);
        doubled.mul_f64(0.5 + fastrand::f64() / 2.0)
    }
}
