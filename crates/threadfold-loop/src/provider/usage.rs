//! The token usage of an answer, in a provider-neutral form.

use serde::Deserialize;
use threadfold_core::Json;

/// The tokens of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerUsage {
    /// Input tokens that were neither read from nor written to a cache.
    pub input: u64,
    /// Output tokens, including reasoning.
    pub output: u64,
    /// Input tokens read from the provider's cache.
    pub cache_read: u64,
    /// Input tokens written to the provider's cache.
    pub cache_write: u64,
}

/// Reads the token usage of an answer, in any provider's format.
///
/// Anthropic counts cached tokens separately from the input, OpenAI as part of it. Here they are
/// always separate, so the three input counts add up to the total. Missing counts are zero.
///
/// ```
/// use threadfold_loop::{AnswerUsage, usage_of};
/// use threadfold_core::Json;
///
/// let reported = Json::parse(
///     r#"{"prompt_tokens":10,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}"#,
/// )?;
/// assert_eq!(usage_of(&reported), AnswerUsage { input: 6, output: 3, cache_read: 4, cache_write: 0 });
/// # Ok::<(), threadfold_core::JsonError>(())
/// ```
pub fn usage_of(usage: &Json) -> AnswerUsage {
    let reported: ReportedUsage = serde_json::from_str(usage.as_str()).unwrap_or_default();
    let cached = reported.prompt_tokens_details.or(reported.input_tokens_details);
    let cached = cached.unwrap_or_default().cached_tokens.unwrap_or(0);
    let input = reported.input_tokens.or(reported.prompt_tokens).unwrap_or(0);
    AnswerUsage {
        input: input.saturating_sub(cached),
        output: reported.output_tokens.or(reported.completion_tokens).unwrap_or(0),
        cache_read: reported.cache_read_input_tokens.unwrap_or(cached),
        cache_write: reported.cache_creation_input_tokens.unwrap_or(0),
    }
}

/// The usage fields of all providers.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ReportedUsage {
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
