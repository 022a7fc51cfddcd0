//! OpenAI's Responses API, without stored responses.

mod assembly;
mod items;

use super::access::AccessError;
use super::http::Endpoint;
use super::key::Key;
use super::openai;

pub(super) use assembly::Responses;

pub(super) const NAME: &str = "openai-responses";
pub(super) const PARAMETERS: &str = r#"{"store":false,"include":["reasoning.encrypted_content"]}"#;

pub(super) fn endpoint(address: &str, key: Key) -> Result<Endpoint, AccessError> {
    let path = |base: &str| format!("{}/responses", openai::version(base));
    openai::endpoint(NAME, address, key, path)
}
