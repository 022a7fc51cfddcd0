//! What an answer used, out of every provider's own words.

use serde::Deserialize;
use threadfold_core::Json;

/// How many tokens an answer used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Sent, beside those that the provider remembered.
    pub input: u64,
    /// Answered.
    pub output: u64,
    /// Sent, and remembered by the provider.
    pub cache_read: u64,
    /// Sent, and to be remembered.
    pub cache_write: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Wire {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    input_tokens_details: Option<Cached>,
    prompt_tokens_details: Option<Cached>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Cached {
    cached_tokens: Option<u64>,
}

/// Returns what a provider says an answer used. What cannot be read counts as nothing.
pub fn usage_of(usage: &Json) -> Usage {
    let wire: Wire = serde_json::from_str(usage.as_str()).unwrap_or_default();
    let details = wire.input_tokens_details.or(wire.prompt_tokens_details);
    let cached = details.and_then(|it| it.cached_tokens).unwrap_or_default();
    let input = wire.input_tokens.or(wire.prompt_tokens).unwrap_or_default();
    Usage {
        input: input.saturating_sub(cached),
        output: wire.output_tokens.or(wire.completion_tokens).unwrap_or_default(),
        cache_read: cached + wire.cache_read_input_tokens.unwrap_or_default(),
        cache_write: wire.cache_creation_input_tokens.unwrap_or_default(),
    }
}
