//! How far a run may go, and how often it tries.

use std::time::Duration;

use threadfold_core::{EvaluationId, TurnState};

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
    /// How many bytes of a tool's output are kept; of more, the beginning and the end.
    pub output: usize,
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
            parallel: 8,
        }
    }
}

impl Limits {
    /// Returns the limit that a run reached, before it begins another turn.
    pub(crate) fn reached(
        &self,
        state: &TurnState,
        run: &EvaluationId,
        passed: Duration,
    ) -> Option<Reached> {
        let turns = || state.turns().filter(|turn| turn.evaluation_id() == run);
        if let Some(limit) = self.turns.filter(|&limit| turns().count() as u64 >= limit) {
            return Some(Reached::Turns(limit));
        }
        if let Some(limit) = self.time.filter(|&limit| passed >= limit) {
            return Some(Reached::Time(limit));
        }
        if self.tokens.is_none() && (self.cost_usd.is_none() || self.prices.is_none()) {
            return None;
        }
        let (mut input, mut output) = (0, 0);
        for usage in turns().filter_map(|turn| turn.answer()?.usage.as_ref()).map(usage_of) {
            input += usage.input + usage.cache_read + usage.cache_write;
            output += usage.output;
        }
        if let Some(limit) = self.tokens.filter(|&limit| input + output >= limit) {
            return Some(Reached::Tokens(limit));
        }
        let prices = self.prices?;
        #[expect(clippy::cast_precision_loss, reason = "a price needs no more")]
        let cost = (input as f64 * prices.input + output as f64 * prices.output) / 1e6;
        self.cost_usd.filter(|&limit| cost >= limit).map(Reached::Cost)
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
