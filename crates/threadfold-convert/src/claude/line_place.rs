//! What a line of a file says about its own place.

use serde::Deserialize;
use serde_json::Value;

use crate::parity::LinePlace;

/// The length of a time such as `2026-11-18T04:12:54.795Z`. Texts of this form are ordered like the
/// times.
const TIME: usize = 24;

/// The fields that say where a line belongs. They may be of any type.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Fields {
    uuid: Value,
    #[serde(rename = "parentUuid")]
    parent: Value,
    /// The line before a compaction, which has no parent.
    #[serde(rename = "logicalParentUuid")]
    before: Value,
    timestamp: Value,
}

/// Returns the place of a line; an empty one if it says nothing about it.
pub(super) fn line_place(line: &[u8]) -> LinePlace {
    let fields: Fields = serde_json::from_slice(line).unwrap_or_default();
    let text = |value: Value| match value {
        Value::String(text) if !text.is_empty() => Some(text),
        _ => None,
    };
    let is_time = |it: &String| it.len() == TIME && it.is_ascii() && it.ends_with('Z');
    LinePlace {
        id: text(fields.uuid),
        parent: text(fields.parent).or_else(|| text(fields.before)),
        time: text(fields.timestamp).filter(is_time),
    }
}
