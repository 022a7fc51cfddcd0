//! Running sums of tokens: whoever shows a session asks for them after every message.

use imbl::OrdMap;

use super::TokenUsage;
use crate::id::ConversationId;

/// The tokens of a session, and of each of its conversations.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Totals {
    pub(super) session: TokenSum,
    pub(super) conversations: OrdMap<ConversationId, TokenSum>,
}

/// A sum of tokens. It is wider than the counts, so that none is lost by adding: a later report
/// takes back what an earlier one added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

    fn add(&mut self, tokens: TokenUsage) {
        self.input += u128::from(tokens.input);
        self.output += u128::from(tokens.output);
        self.cache_read += u128::from(tokens.cache_read);
        self.cache_creation += u128::from(tokens.cache_creation);
    }

    fn subtract(&mut self, tokens: TokenUsage) {
        self.input -= u128::from(tokens.input);
        self.output -= u128::from(tokens.output);
        self.cache_read -= u128::from(tokens.cache_read);
        self.cache_creation -= u128::from(tokens.cache_creation);
    }
}
