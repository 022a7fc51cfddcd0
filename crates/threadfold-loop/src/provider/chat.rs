//! OpenAI's Chat Completions API, and the many servers that implement it.

mod assembly;
mod message;

use super::access::AccessError;
use super::http::Endpoint;
use super::key::Key;
use super::openai;

pub(super) use assembly::Completions;

pub(super) const NAME: &str = "openai-chat";
pub(super) const PARAMETERS: &str = r#"{"stream_options":{"include_usage":true}}"#;

pub(super) fn endpoint(address: &str, key: Key) -> Result<Endpoint, AccessError> {
    let path = |base: &str| format!("{}/chat/completions", openai::version(base));
    openai::endpoint(NAME, address, key, path)
}
