//! Lines that files have twice: a compaction writes results again, and in some versions a command that
//! begins another session copies the lines of the first one.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use threadfold_core::Json;

use crate::parity::{Facts, RecordName};

/// The structured form of a result, which a compaction may empty.
const OUTCOME: &str = "toolUseResult";

/// The id of a line, and that of the line before it.
const UUID: &str = "uuid";
const PARENT: &str = "parentUuid";

/// The session of a line of a file.
const SESSION: &str = "sessionId";

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
    is_same(UUID, record.get(UUID)) && is_same("message.content.content", block.get("content"))
}

/// Compares the `uuid` of a result with that of the line which it repeats. A line of history that is
/// told again may have another one; then it also follows another line.
pub(super) fn compare_uuid(facts: &mut Facts, name: &RecordName, record: &Map<String, Value>) {
    let value = |field: &str| record.get(field).map(Json::of);
    let is_at_same_place =
        facts.get(name, PARENT).is_some_and(|it| Some(it) == value(PARENT).as_ref());
    let (known, own) = (facts.get(name, UUID).cloned(), value(UUID));
    if is_at_same_place && !facts.renamed.contains(name) && known != own {
        facts.contradict(name, UUID, Json::of(&known), Json::of(&own));
    }
}

/// Returns whether the file of another session repeats a line that was read before.
///
/// The line before is of that session as well; a single line of another session is none of its file.
pub(super) fn is_of_next_session(
    facts: &Facts,
    name: &RecordName,
    record: &Map<String, Value>,
    previous: Option<&str>,
) -> bool {
    let (Some(uuid), Some(session)) = (record.get(UUID), record.get(SESSION)) else {
        return false;
    };
    facts.get(name, SESSION).is_some_and(|known| *known != Json::of(session))
        && facts.get(name, UUID) == Some(&Json::of(uuid))
        && session.as_str() == previous
}

/// Compares a result with the one that it repeats: a compaction may empty the structured form, and
/// the file of another session has its own session.
pub(super) fn compare(
    facts: &mut Facts,
    name: &RecordName,
    record: &Map<String, Value>,
    block: &Value,
    is_of_next: bool,
) {
    let mut copy = Facts::default();
    copy.set(name, "message.content", block);
    if let Some(role) = record.get("message").and_then(|message| message.get("role")) {
        copy.set(name, "message.role", role);
    }
    for field in [SESSION, "timestamp", OUTCOME] {
        if let Some(value) = record.get(field) {
            copy.set(name, field, value);
        }
    }
    let repeated = |facts: &Facts| -> BTreeMap<String, Json> {
        let fields = facts.records().get(name).into_iter().flatten();
        let is_repeated = |field: &str| {
            ["message.", SESSION, "timestamp", OUTCOME].iter().any(|it| field.starts_with(it))
        };
        let fields = fields.filter(|(field, _)| is_repeated(field));
        fields.map(|(field, value)| (field.clone(), value.clone())).collect()
    };
    let (first, again) = (repeated(facts), repeated(&copy));
    let empty = Json::string("");
    for field in first.keys().chain(again.keys()).collect::<BTreeSet<_>>() {
        let values = (first.get(field), again.get(field));
        let is_emptied = field.starts_with(OUTCOME)
            && !is_of_next
            && (values.1 == Some(&empty) || !record.contains_key(OUTCOME));
        let is_moved = is_of_next && field == SESSION;
        if values.0 != values.1 && !is_emptied && !is_moved {
            facts.contradict(name, field, Json::of(&values.0), Json::of(&values.1));
        }
    }
}
