//! What OpenAI's two APIs have in common: address and authorization.

use super::access::AccessError;
use super::http::Endpoint;
use super::key::Key;

/// The provider name of native items.
pub(super) const NATIVE: &str = "openai";

/// Returns an endpoint for `path`, which is below `/v1` if the address has no path of its own.
pub(super) fn endpoint(
    name: &'static str,
    address: &str,
    key: Key,
    path: fn(&str) -> String,
) -> Result<Endpoint, AccessError> {
    let headers = [("authorization", key.header("Bearer ")?)];
    Endpoint::new(name, address, key, &headers, path)
}

pub(super) fn version(base: &str) -> &str {
    if base.is_empty() { "/v1" } else { base }
}
