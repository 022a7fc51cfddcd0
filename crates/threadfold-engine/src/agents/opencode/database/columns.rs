//! A row as one JSON object: columns by name, with JSON columns embedded as JSON.

use rusqlite::Row;
use rusqlite::types::ValueRef;
use serde_json::value::RawValue;
use threadfold_core::Json;

/// Columns that contain JSON text.
const JSON: [&str; 8] = [
    "data",
    "fork_boundary",
    "metadata",
    "model",
    "payload",
    "permission",
    "revert",
    "summary_diffs",
];

/// Returns a row as one line of JSON. Numbers inside JSON keep their spelling.
pub(super) fn row_json(row: &Row<'_>, names: &[String]) -> rusqlite::Result<String> {
    let mut object = String::from("{");
    for (place, name) in names.iter().enumerate() {
        if place > 0 {
            object.push(',');
        }
        object.push_str(Json::string(name).as_str());
        object.push(':');
        let value = match row.get_ref(place)? {
            ValueRef::Null => "null".to_owned(),
            ValueRef::Integer(number) => number.to_string(),
            ValueRef::Real(number) => Json::of(&number).as_str().to_owned(),
            ValueRef::Text(text) | ValueRef::Blob(text) => {
                text_json(&String::from_utf8_lossy(text), JSON.contains(&name.as_str()))
            }
        };
        object.push_str(&value);
    }
    object.push('}');
    Ok(object)
}

fn text_json(text: &str, may_be_json: bool) -> String {
    let is_json = may_be_json
        && text.trim_start().starts_with(['{', '['])
        && serde_json::from_str::<&RawValue>(text).is_ok();
    // Line ends in JSON occur only between tokens, never inside strings.
    if is_json { text.replace(['\n', '\r'], " ") } else { Json::string(text).as_str().to_owned() }
}
