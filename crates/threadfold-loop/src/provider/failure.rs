//! Errors in a provider's answer: error messages, and malformed data.

use std::error::Error;

use threadfold_core::{Fields, Json, JsonError};

use super::json::{read, string};

/// Why an answer cannot be used.
#[derive(Debug)]
pub(super) enum Failure {
    /// The provider reported an error.
    Reported { status: u16, message: String },
    /// The answer is malformed.
    Malformed { what: String, cause: Option<Box<dyn Error + Send + Sync>> },
}

impl Failure {
    pub(super) fn malformed(what: impl Into<String>) -> Self {
        Self::Malformed { what: what.into(), cause: None }
    }

    /// Returns the failure for an error object in an answer.
    pub(super) fn reported(error: &Json) -> Self {
        let fields: Fields = read(error).unwrap_or_default();
        let code = fields.get("code").and_then(|it| it.as_str().parse::<u16>().ok());
        let status = match code {
            Some(status @ 400..=599) => status,
            _ => [string(&fields, "type"), string(&fields, "code")]
                .iter()
                .find_map(|kind| status_of(kind))
                .unwrap_or(500),
        };
        let message = message_in(error.as_str()).unwrap_or_else(|| error.to_string());
        Self::Reported { status, message: cut(&message) }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(cause: serde_json::Error) -> Self {
        Self::Malformed { what: "unexpected JSON".to_owned(), cause: Some(cause.into()) }
    }
}

impl From<JsonError> for Failure {
    fn from(cause: JsonError) -> Self {
        Self::Malformed { what: "unexpected JSON".to_owned(), cause: Some(cause.into()) }
    }
}

/// Returns the HTTP status that corresponds to an error type.
fn status_of(kind: &str) -> Option<u16> {
    Some(match kind {
        "overloaded_error" => 529,
        "rate_limit_error" | "rate_limit_exceeded" => 429,
        "timeout_error" | "vector_store_timeout" => 504,
        "authentication_error" | "invalid_api_key" => 401,
        "billing_error" | "insufficient_quota" => 402,
        "permission_error" => 403,
        "not_found_error" => 404,
        "request_too_large" => 413,
        "api_error" | "server_error" => 500,
        "context_length_exceeded" => 400,
        _ if kind.starts_with("invalid_") => 400,
        _ => return None,
    })
}

/// Returns the effective status of a refusal. An exhausted quota is reported as 429, but a retry
/// would not help.
pub(super) fn status_in(text: &str, status: u16) -> u16 {
    let read = |text: &str| serde_json::from_str::<Fields>(text).ok();
    let error = read(text).and_then(|outer| read(outer.get("error")?.as_str()));
    let is_out_of_quota = error.is_some_and(|error| {
        ["type", "code"].iter().any(|name| string(&error, name) == "insufficient_quota")
    });
    if is_out_of_quota { 402 } else { status }
}

/// Returns the human-readable message of a refusal, in any of the formats that providers use.
pub(super) fn message_in(text: &str) -> Option<String> {
    let text = text.trim();
    let fields: Option<Fields> = serde_json::from_str(text).ok();
    let Some(fields) = fields else {
        return Some(text).filter(|it| !it.is_empty()).map(cut);
    };
    let inner = fields.get("error").map(|error| message_in(error.as_str()));
    let outer = || {
        ["message", "detail", "error"]
            .iter()
            .map(|name| string(&fields, name))
            .find(|it| !it.is_empty())
            .map(|it| cut(&it))
    };
    outer().or_else(|| inner.flatten()).or_else(|| Some(cut(text)))
}

fn cut(text: &str) -> String {
    const LIMIT: usize = 2000;
    match text.char_indices().nth(LIMIT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
