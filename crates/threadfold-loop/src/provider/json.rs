//! Reads a provider's JSON only as deep as needed, so that the rest stays verbatim.

use serde::de::DeserializeOwned;
use threadfold_core::{Fields, Json};

/// Reads a value as `T`.
pub(super) fn read<T: DeserializeOwned>(json: &Json) -> Result<T, serde_json::Error> {
    serde_json::from_str(json.as_str())
}

/// Returns a field that is present and not `null`.
pub(super) fn get<'a>(fields: &'a Fields, name: &str) -> Option<&'a Json> {
    fields.get(name).filter(|it| !it.is_null())
}

/// Returns the text of a field, or an empty string.
pub(super) fn string(fields: &Fields, name: &str) -> String {
    get(fields, name).and_then(Json::to_text).unwrap_or_default()
}

/// Returns the text of an optional field. Fails if it has another type.
pub(super) fn text(fields: &Fields, name: &str) -> Result<String, serde_json::Error> {
    get(fields, name).map_or(Ok(String::new()), read)
}

/// Returns the elements of an optional list. Fails if it has another type.
pub(super) fn list(fields: &Fields, name: &str) -> Result<Vec<Json>, serde_json::Error> {
    get(fields, name).map_or(Ok(Vec::new()), read)
}

/// Returns the number of a field.
pub(super) fn number(fields: &Fields, name: &str) -> Option<usize> {
    get(fields, name).and_then(|it| read(it).ok())
}

/// Returns true if all non-null fields are among `known`.
pub(super) fn has_only(fields: &Fields, known: &[&str]) -> bool {
    fields.iter().all(|(name, value)| known.contains(&name) || value.is_null())
}
