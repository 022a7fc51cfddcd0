//! Results that a file has twice: a compaction writes them again.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use threadfold_core::Json;

use crate::parity::{Facts, RecordName};

/// The structured form of a result, which a compaction may empty.
const OUTCOME: &str = "toolUseResult";

/// Returns whether a result of a file was read before.
pub(super) fn is_copy(
    facts: &Facts,
    name: &RecordName,
    record: &Map<String, Value>,
    block: &Value,
) -> bool {
    let is_same = |field: &str, value: Option<&Value>| {
        value.is_some_and(|value| facts.get(name, field) == Some(&Json::of(value)))
    };
    is_same("uuid", record.get("uuid")) && is_same("message.content.content", block.get("content"))
}

/// Compares a result with the one that it repeats: only the structured form may be emptied.
pub(super) fn compare(
    facts: &mut Facts,
    name: &RecordName,
    record: &Map<String, Value>,
    block: &Value,
) {
    let mut copy = Facts::default();
    copy.set(name, "message.content", block);
    if let Some(role) = record.get("message").and_then(|message| message.get("role")) {
        copy.set(name, "message.role", role);
    }
    for field in ["sessionId", "timestamp", OUTCOME] {
        if let Some(value) = record.get(field) {
            copy.set(name, field, value);
        }
    }
    let repeated = |facts: &Facts| -> BTreeMap<String, Json> {
        let fields = facts.records().get(name).into_iter().flatten();
        let is_repeated = |field: &str| {
            ["message.", "sessionId", "timestamp", OUTCOME].iter().any(|it| field.starts_with(it))
        };
        let fields = fields.filter(|(field, _)| is_repeated(field));
        fields.map(|(field, value)| (field.clone(), value.clone())).collect()
    };
    let (first, again) = (repeated(facts), repeated(&copy));
    let empty = Json::string("");
    for field in first.keys().chain(again.keys()).collect::<BTreeSet<_>>() {
        let values = (first.get(field), again.get(field));
        let is_emptied = field.starts_with(OUTCOME)
            && (values.1 == Some(&empty) || !record.contains_key(OUTCOME));
        if values.0 != values.1 && !is_emptied {
            facts.contradict(name, field, Json::of(&values.0), Json::of(&values.1));
        }
    }
}
