//! What OpenAI's two interfaces have in common: where they are, and how they are given the key.

use super::access::AccessError;
use super::http::Endpoint;
use super::key::Key;

/// Whose own items these are.
pub(super) const NATIVE: &str = "openai";

/// Returns an endpoint for a `path` that is below `/v1`, if the address has no path of its own.
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
