//! The rules by name, and how one is broken.

use std::fmt;

/// A rule that a provider enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Each `tool_use` is answered in the very next message; all results of a message stand in
    /// one, before anything else in it.
    A1,
    /// No `tool_result` without its `tool_use`; ids are unique, and each has one result.
    A2,
    /// The first message is the user's; no assistant's message ends with `thinking`.
    A3,
    /// No text is empty or white space only, and no tool's output either.
    A4,
    /// Thinking goes back byte for byte, signed, in its place, without `cache_control`.
    A5,
    /// What stands before a thinking block is unchanged since that was made.
    A6,
    /// Valid UTF-8 and JSON, without a lone surrogate. Holds for every provider.
    A7,
    /// A request has at most 32 MB, an image at most 5 MB.
    A8,
    /// At most 4 marks `cache_control`.
    A9,
    /// A tool that ran at the provider's side has its result, and the reverse.
    A10,
    /// Chat Completions: `tool_calls` are followed by one `tool` message for each id.
    O1,
    /// Responses: each `function_call` has its output, and the reverse.
    O2,
    /// Responses: `reasoning` is followed by the item that it belongs to; ids are kept.
    O3,
    /// Responses that are not stored: reasoning goes back encrypted, nothing by id.
    O4,
    /// `previous_response_id` names a response that was stored.
    O5,
}

/// A rule that a request breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{rule}{}: {found}", at(.place))]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// Where, such as `messages.3.content.0`.
    pub place: String,
    /// What was found there.
    pub found: String,
}

fn at(place: &str) -> String {
    if place.is_empty() { String::new() } else { format!(" at `{place}`") }
}

impl Violation {
    pub(super) fn new(rule: Rule, place: impl Into<String>, found: impl Into<String>) -> Self {
        Self { rule, place: place.into(), found: found.into() }
    }
}

impl Rule {
    /// All rules, in their order.
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

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
