//! Running sums of tokens: whoever shows a session asks for them after every message.

use imbl::OrdMap;
use serde::{Deserialize, Serialize};

use super::TokenUsage;
use crate::id::ConversationId;

/// The tokens of a session, and of each of its conversations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Totals {
    pub(super) session: TokenSum,
    pub(super) conversations: OrdMap<ConversationId, TokenSum>,
}

/// A sum of tokens. It is wider than the counts, so that none is lost by adding: a later report
/// takes back what an earlier one added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TokenSum {
    input: u128,
    output: u128,
    cache_read: u128,
    cache_creation: u128,
}

impl Totals {
    pub(super) fn add(&mut self, conversation: &ConversationId, tokens: TokenUsage) {
        self.session.add(tokens);
        self.conversations.entry(conversation.clone()).or_default().add(tokens);
    }

    /// Counts `tokens` instead of those that were counted before.
    pub(super) fn replace(
        &mut self,
        conversation: &ConversationId,
        before: TokenUsage,
        tokens: TokenUsage,
    ) {
        if before == tokens {
            return;
        }
        let own = self.conversations.entry(conversation.clone()).or_default();
        for sum in [&mut self.session, own] {
            sum.subtract(before);
            sum.add(tokens);
        }
    }
}

impl TokenSum {
    /// Returns the sum as counts; one that is too large is shown as the largest.
    pub(super) fn tokens(&self) -> TokenUsage {
        let count = |sum: u128| u64::try_from(sum).unwrap_or(u64::MAX);
        TokenUsage {
            input: count(self.input),
            output: count(self.output),
            cache_read: count(self.cache_read),
            cache_creation: count(self.cache_creation),
        }
    }

    // Sums of a snapshot from elsewhere may be anything, so nothing here overflows.
    fn add(&mut self, tokens: TokenUsage) {
        self.update(tokens, u128::saturating_add);
    }

    fn subtract(&mut self, tokens: TokenUsage) {
        self.update(tokens, u128::saturating_sub);
    }

    fn update(&mut self, tokens: TokenUsage, with: fn(u128, u128) -> u128) {
        self.input = with(self.input, tokens.input.into());
        self.output = with(self.output, tokens.output.into());
        self.cache_read = with(self.cache_read, tokens.cache_read.into());
        self.cache_creation = with(self.cache_creation, tokens.cache_creation.into());
    }
}
