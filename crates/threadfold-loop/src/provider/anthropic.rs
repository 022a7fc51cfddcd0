//! Anthropic's Messages API.

mod assembly;
mod block;
mod content;

use reqwest::header::HeaderValue;

use super::access::AccessError;
use super::http::Endpoint;
use super::key::Key;

pub(super) use assembly::Messages;

/// The provider name of native items.
const NATIVE: &str = "anthropic";

pub(super) const NAME: &str = "anthropic";
pub(super) const PARAMETERS: &str = r#"{"max_tokens":16384}"#;

pub(super) fn endpoint(address: &str, key: Key) -> Result<Endpoint, AccessError> {
    let headers = [
        ("x-api-key", key.header("")?),
        ("anthropic-version", HeaderValue::from_static("2023-06-01")),
    ];
    Endpoint::new(NAME, address, key, &headers, |base| match base.ends_with("/v1") {
        true => format!("{base}/messages"),
        false => format!("{base}/v1/messages"),
    })
}
