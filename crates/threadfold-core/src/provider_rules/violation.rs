//! The rules by name, and how a request breaks them.

use std::fmt;

/// A rule that a provider enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProviderRule {
    /// Each `tool_use` has its result in the next message, and all results of a message come first
    /// in one message.
    A1,
    /// No `tool_result` without its `tool_use`; ids are unique, and each call has one result.
    A2,
    /// The first message is the user's; no assistant message ends with `thinking`.
    A3,
    /// No text is empty or blank, and no tool output either.
    A4,
    /// Thinking is returned byte for byte, signed, in place, without `cache_control`.
    A5,
    /// Everything before a thinking block is unchanged since it was produced.
    A6,
    /// Valid UTF-8 and JSON, without a lone surrogate. Applies to every provider.
    A7,
    /// A request has at most 32 MB, an image at most 5 MB.
    A8,
    /// At most 4 `cache_control` marks.
    A9,
    /// Each server-side tool call has its result, and vice versa.
    A10,
    /// Chat Completions: `tool_calls` are followed by one `tool` message for each id.
    O1,
    /// Responses: each `function_call` has its output, and vice versa.
    O2,
    /// Responses: `reasoning` is followed by its item; ids are unchanged.
    O3,
    /// Responses that are not stored: reasoning is returned encrypted, and nothing by id.
    O4,
    /// `previous_response_id` refers to a stored response.
    O5,
}

/// A rule that a request breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{rule}{}: {found}", at(.place))]
pub struct Violation {
    /// The rule.
    pub rule: ProviderRule,
    /// The path, such as `messages.3.content.0`.
    pub place: String,
    /// What was found there.
    pub found: String,
}

fn at(place: &str) -> String {
    if place.is_empty() { String::new() } else { format!(" at `{place}`") }
}

impl Violation {
    pub(super) fn new(
        rule: ProviderRule,
        place: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self { rule, place: place.into(), found: found.into() }
    }
}

impl ProviderRule {
    /// All rules, in order.
    pub const ALL: &'static [Self] = &[
        Self::A1,
        Self::A2,
        Self::A3,
        Self::A4,
        Self::A5,
        Self::A6,
        Self::A7,
        Self::A8,
        Self::A9,
        Self::A10,
        Self::O1,
        Self::O2,
        Self::O3,
        Self::O4,
        Self::O5,
    ];
}

impl fmt::Display for ProviderRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
