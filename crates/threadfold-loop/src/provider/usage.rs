//! What an answer used, in words that are no provider's own.

use serde::Deserialize;
use threadfold_core::Json;

/// The tokens of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Read anew: neither from a cache nor to be put into one.
    pub input: u64,
    /// Written, with what was thought.
    pub output: u64,
    /// Read from the provider's cache.
    pub cache_read: u64,
    /// Put into the provider's cache.
    pub cache_write: u64,
}

/// Reads what a provider says of the tokens of an answer, whichever provider it is.
///
/// Anthropic counts what came from its cache beside the input, OpenAI within it. Here it always
/// stands beside it, so the three add up to all that was read. What is not said counts as none.
///
/// ```
/// use threadfold_loop::{Usage, usage_of};
/// use threadfold_core::Json;
///
/// let said = Json::parse(
///     r#"{"prompt_tokens":10,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}"#,
/// )?;
/// assert_eq!(usage_of(&said), Usage { input: 6, output: 3, cache_read: 4, cache_write: 0 });
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn usage_of(usage: &Json) -> Usage {
    let said: Said = serde_json::from_str(usage.as_str()).unwrap_or_default();
    let cached = said.prompt_tokens_details.or(said.input_tokens_details);
    let cached = cached.unwrap_or_default().cached_tokens.unwrap_or(0);
    let input = said.input_tokens.or(said.prompt_tokens).unwrap_or(0);
    Usage {
        input: input.saturating_sub(cached),
        output: said.output_tokens.or(said.completion_tokens).unwrap_or(0),
        cache_read: said.cache_read_input_tokens.unwrap_or(cached),
        cache_write: said.cache_creation_input_tokens.unwrap_or(0),
    }
}

/// What any of the providers says.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Said {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    input_tokens_details: Option<Details>,
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<Details>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Details {
    cached_tokens: Option<u64>,
}
