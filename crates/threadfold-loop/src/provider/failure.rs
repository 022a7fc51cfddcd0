//! What a provider says instead of an answer, and what an answer says that cannot be read.

use threadfold_core::{Fields, Json};

use super::json::{read, word};

/// Why an answer cannot be used.
#[derive(Debug)]
pub(super) enum Failure {
    /// The provider said so.
    Said { status: u16, message: String },
    /// It is not what it should be.
    Malformed { what: String, cause: Option<serde_json::Error> },
}

impl Failure {
    pub(super) fn malformed(what: impl Into<String>) -> Self {
        Self::Malformed { what: what.into(), cause: None }
    }

    /// Returns the failure that an error object in an answer tells of.
    pub(super) fn said(error: &Json) -> Self {
        let fields: Fields = read(error).unwrap_or_default();
        let code = fields.get("code").and_then(|it| it.as_str().parse::<u16>().ok());
        let status = match code {
            Some(status @ 400..=599) => status,
            _ => [word(&fields, "type"), word(&fields, "code")]
                .iter()
                .find_map(|kind| status_of(kind))
                .unwrap_or(500),
        };
        let message = message_in(error.as_str()).unwrap_or_else(|| error.to_string());
        Self::Said { status, message: cut(&message) }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(cause: serde_json::Error) -> Self {
        Self::Malformed {
            what: "it is not the JSON that it should be".to_owned(),
            cause: Some(cause),
        }
    }
}

/// Returns the HTTP status that a kind of error would have had.
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

/// Returns the status that a refusal stands for: a purse that is empty is told as being busy, and
/// waiting does not fill it.
pub(super) fn status_in(text: &str, status: u16) -> u16 {
    let read = |text: &str| serde_json::from_str::<Fields>(text).ok();
    let error = read(text).and_then(|outer| read(outer.get("error")?.as_str()));
    let is_empty_purse = error.is_some_and(|error| {
        ["type", "code"].iter().any(|name| word(&error, name) == "insufficient_quota")
    });
    if is_empty_purse { 402 } else { status }
}

/// Finds what a refusal says to people, in the shapes that providers give it.
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
            .map(|name| word(&fields, name))
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
