//! Rows of a database in which the name of the table is one of the columns.

use serde_json::{Map, Value, json};

/// How such a row begins.
const OPENING: &str = "{\"_table\"";

/// Returns a row as `{"table", "row"}`; nothing if it is in another form.
pub(super) fn with_table(text: &str) -> Option<String> {
    if !text.starts_with(OPENING) {
        return None;
    }
    let mut row: Map<String, Value> = serde_json::from_str(text).ok()?;
    let table = row.remove("_table").filter(Value::is_string)?;
    Some(json!({"table": table, "row": row}).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_table_is_no_column() {
        let row = with_table(r#"{"_table": "session_v2", "id": "ses_1"}"#);
        assert_eq!(row.as_deref(), Some(r#"{"row":{"id":"ses_1"},"table":"session_v2"}"#));
        assert_eq!(with_table(r#"{"table": "session", "row": {}}"#), None);
    }
}
