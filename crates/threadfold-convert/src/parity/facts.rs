//! Facts: what the records of one side state, field by field.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use threadfold_core::Json;

use super::{Evidence, normalize};

/// What the records of one side state.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    records: BTreeMap<RecordName, BTreeMap<String, Json>>,
    contradictions: Vec<Contradiction>,
    /// The agent's version, as the records name it.
    pub version: Option<String>,
    /// The last run ended by its own account.
    pub has_ended: bool,
    /// A signal interrupted the last run, which reported that.
    pub was_interrupted: bool,
    /// A run ended before the first record of a conversation.
    pub has_empty_run: bool,
    /// Records whose id is not that of the other side's record.
    pub renamed: BTreeSet<RecordName>,
    /// Calls that return before their subagent ends.
    pub background: BTreeSet<String>,
    /// Calls whose subagent was stopped before its end, by a person, a host or a signal.
    pub stopped: BTreeSet<String>,
    /// Sessions that the records contain, with or without messages.
    pub sessions: BTreeSet<String>,
    /// Results of runs that no message of the stream contains, by the id of the record.
    pub unspoken_results: Vec<(RecordName, String)>,
    /// Outputs of commands that no model gave.
    pub command_outputs: BTreeSet<String>,
    /// Messages that were cut off, which the agent replaced by others and removed from its file.
    pub replaced_answers: BTreeSet<String>,
    /// Calls of subagents that no record names.
    pub unnamed_calls: BTreeSet<String>,
    /// Prompts that the file has in the agent's queue.
    pub queued_prompts: BTreeSet<String>,
    /// The sessions of a stream that left one and began another, in their order; otherwise none.
    pub successive_sessions: Vec<String>,
    /// The form of the history, where one version of the agent has several.
    pub history: Option<String>,
    /// Calls that were at work at the same time, in groups.
    pub parallel_calls: Vec<BTreeSet<String>>,
    /// The variant of a record, where known gaps depend on it: one of a subagent, or one that the
    /// agent wrote itself.
    pub variants: BTreeMap<RecordName, Variant>,
    /// The session of a record, where no field of it names the session.
    pub places: BTreeMap<RecordName, String>,
    /// The messages of each session, in their order, where no block may show it.
    pub orders: BTreeMap<String, Vec<String>>,
    /// What the records show about runs, turns and tasks.
    pub evidence: Evidence,
    /// The values that a field of the other side may have, where this side does not state one.
    choices: BTreeMap<(RecordName, String), Vec<Json>>,
}

/// A variant of a kind of record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// A line of a subagent: known gaps name it `subagent/<kind>`.
    Subagent,
    /// A message that the agent wrote itself, so both sides have copies of one object: known gaps
    /// name it `synthetic/<kind>`.
    Synthetic,
    /// A message that arrived as a whole in a stream that shows others while they arrive, so both
    /// sides have copies of one object: known gaps name it `whole/<kind>`.
    Whole,
}

/// The name of a record, which both sides share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordName {
    /// The kind of record, as the agent names it.
    pub kind: String,
    /// Its id.
    pub id: String,
}

/// Two values of a field that one side states, where only one can be right.
#[derive(Clone, Debug, PartialEq)]
pub struct Contradiction {
    /// The record.
    pub record: RecordName,
    /// The field.
    pub field: String,
    /// The value that was stated first.
    pub first: Json,
    /// The other value.
    pub second: Json,
}

impl RecordName {
    pub(crate) fn new(kind: &str, id: &str) -> Self {
        Self { kind: kind.to_owned(), id: id.to_owned() }
    }
}

impl Facts {
    /// Returns the records with their fields.
    pub fn records(&self) -> &BTreeMap<RecordName, BTreeMap<String, Json>> {
        &self.records
    }

    /// Returns the fields of which this side states two values.
    pub fn contradictions(&self) -> &[Contradiction] {
        &self.contradictions
    }

    /// Returns the values that a field of the other side may have, if this side limits them.
    pub fn choices(&self, record: &RecordName, field: &str) -> Option<&[Json]> {
        self.choices.get(&(record.clone(), normalize(field))).map(Vec::as_slice)
    }

    /// States one of the values that a field of the other side may have.
    pub(crate) fn allow(&mut self, record: &RecordName, field: &str, value: Json) {
        let key = (record.clone(), normalize(field));
        self.choices.entry(key).or_default().push(value);
    }

    /// Returns whether a record of this name was read.
    pub fn has(&self, record: &RecordName) -> bool {
        self.records.contains_key(record)
    }

    /// States which session the records are of that name none, such as a list of messages.
    pub fn name_session(&mut self, session: &str) {
        if session.is_empty() || !self.sessions.remove("") {
            return;
        }
        self.sessions.insert(session.to_owned());
        if let Some(order) = self.orders.remove("") {
            self.orders.entry(session.to_owned()).or_default().extend(order);
        }
        for fields in self.records.values_mut() {
            if let Some(named) = fields.get_mut("sessionID").filter(|it| **it == Json::string("")) {
                *named = Json::string(session);
            }
        }
    }

    pub(crate) fn remove(&mut self, record: &RecordName) {
        self.records.remove(record);
    }

    /// Removes the values below a field, because a later report has all of them again.
    pub(crate) fn forget_within(&mut self, record: &RecordName, field: &str) {
        let within = |it: &String| it.strip_prefix(field).is_some_and(|it| it.starts_with('.'));
        if let Some(fields) = self.records.get_mut(record) {
            fields.retain(|it, _| !within(it));
        }
    }

    pub(crate) fn get(&self, record: &RecordName, field: &str) -> Option<&Json> {
        self.records.get(record)?.get(field)
    }

    /// States a value; the last one counts.
    pub(crate) fn set(&mut self, record: &RecordName, field: &str, value: &Value) {
        self.each_leaf(record, field, value, |facts, record, field, value| {
            facts.records.entry(record.clone()).or_default().insert(field, value);
        });
    }

    /// States a value that every record must repeat unchanged.
    pub(crate) fn agree(&mut self, record: &RecordName, field: &str, value: &Value) {
        self.each_leaf(record, field, value, |facts, record, field, value| {
            let fields = facts.records.entry(record.clone()).or_default();
            match fields.get(&field) {
                None => {
                    fields.insert(field, value);
                }
                Some(known) if *known == value => {}
                Some(known) => {
                    let first = known.clone();
                    facts.contradict(record, &field, first, value);
                }
            }
        });
    }

    /// Removes a field of every record that has the other one.
    pub(crate) fn forget(&mut self, field: &str, other: &str) {
        for fields in self.records.values_mut().filter(|fields| fields.contains_key(other)) {
            fields.remove(field);
        }
    }

    /// Renames a field of every record that has the other one.
    pub(crate) fn rename_beside(&mut self, other: &str, from: &str, to: &str) {
        for fields in self.records.values_mut().filter(|fields| fields.contains_key(other)) {
            if let Some(value) = fields.remove(from) {
                fields.insert(to.to_owned(), value);
            }
        }
    }

    /// Reports two values of one field.
    pub(crate) fn contradict(
        &mut self,
        record: &RecordName,
        field: &str,
        first: Json,
        second: Json,
    ) {
        let (record, field) = (record.clone(), field.to_owned());
        self.contradictions.push(Contradiction { record, field, first, second });
    }

    /// Replaces a record by its present state.
    pub(crate) fn replace(&mut self, record: &RecordName, value: &Value) {
        self.remove(record);
        self.set(record, "", value);
    }

    fn each_leaf(
        &mut self,
        record: &RecordName,
        field: &str,
        value: &Value,
        mut each: impl FnMut(&mut Self, &RecordName, String, Json),
    ) {
        let mut leaves = Vec::new();
        flatten(field, value, &mut leaves);
        for (field, value) in leaves {
            each(self, record, field, value);
        }
    }
}

/// Collects the values inside a value, with their paths. An empty object or list is a value.
fn flatten(path: &str, value: &Value, leaves: &mut Vec<(String, Json)>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                // The numbers of elements stay, so that elements are not confused.
                let name = if name.contains(['[', ']']) { name.clone() } else { normalize(name) };
                let dot = if path.is_empty() { "" } else { "." };
                flatten(&format!("{path}{dot}{name}"), value, leaves);
            }
        }
        Value::Array(elements) if !elements.is_empty() => {
            for (number, value) in elements.iter().enumerate() {
                flatten(&format!("{path}[{number}]"), value, leaves);
            }
        }
        leaf => leaves.push((path.to_owned(), Json::of(leaf))),
    }
}

/// Returns whether both values are absolute paths that end in one file name.
///
/// An agent resolves the path that a model gave, and a recorder replaces the folder of a user, which
/// may be cut in two in streamed text.
pub(crate) fn is_same_path(shown: &Value, confirmed: Option<&Value>) -> bool {
    let file = |value: &Value| {
        let path = value.as_str().filter(|path| path.starts_with('/') && !path.contains('\n'))?;
        path.rsplit('/').next().map(str::to_owned)
    };
    file(shown).is_some() && file(shown) == confirmed.and_then(file)
}
