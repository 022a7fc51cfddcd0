//! Changes one field of one record of a pair.

use std::collections::BTreeMap;

use serde_json::Value;
use threadfold_convert::codex;
use threadfold_fold::SessionFile;
use threadfold_fold::parity::Side;

use super::RecordedPair;
use super::identity::{RawPart, Step, parts};

/// A change of one field, or the removal of one record.
#[derive(Clone, Debug)]
pub struct Mutation {
    /// Which side is changed.
    pub side: Side,
    /// Which file; the stream is one.
    pub file: usize,
    /// Which line of the file; a document is one line.
    pub line: usize,
    /// The kind of record.
    pub kind: String,
    /// The names under which known gaps may name the record.
    pub gap_kinds: Vec<String>,
    /// What identifies the record on both sides.
    pub ids: Vec<String>,
    /// The message that an event changes.
    pub message: Option<String>,
    /// The path of the changed value below its record.
    pub path: String,
    /// The value before.
    pub value: Value,
    /// What is changed.
    pub change: Change,
    /// Where the changed value is in its line.
    pub(super) steps: Vec<Step>,
}

/// What is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// The value becomes another one of its type.
    Alter,
    /// The field is removed.
    Remove,
    /// The whole record is removed.
    RemoveRecord,
}

/// The text of a side, as lines or documents.
pub fn texts(pair: &RecordedPair, side: Side) -> Vec<&[u8]> {
    match side {
        Side::Stream => vec![&pair.stream],
        Side::Transcript => pair.files.iter().map(|(_, bytes)| bytes.as_slice()).collect(),
    }
}

/// Returns the records of a file: its lines, or the whole file if that is one document.
pub fn records(bytes: &[u8]) -> Vec<&[u8]> {
    if serde_json::from_slice::<Value>(bytes).is_ok() {
        return vec![bytes];
    }
    bytes.split_inclusive(|byte| *byte == b'\n').collect()
}

/// Returns the JSON of a record, without the frame of server-sent events or of a recorder.
pub fn json(record: &[u8]) -> Option<Value> {
    let record = record.trim_ascii();
    serde_json::from_slice(record.strip_prefix(b"data:").unwrap_or(record)).ok()
}

/// Returns the event inside a recorder's wrapper, and where it is.
pub fn unwrapped(record: &Value) -> (Vec<Step>, &Value) {
    let (mut at, mut inner) = (Vec::new(), record);
    while inner.get("properties").is_none() && !is_newer(inner) {
        let wrappers = ["payload", "data", "event"];
        let next = wrappers.iter().find(|name| {
            let is_claude = inner.get("session_id").is_some() || inner.get("sessionId").is_some();
            !is_claude && inner.get(**name).is_some_and(Value::is_object)
        });
        let Some(name) = next else { break };
        at.push(Step::Field((*name).to_owned()));
        inner = &inner[*name];
    }
    let is_found = inner.get("properties").is_some() || is_newer(inner);
    if is_found { (at, inner) } else { (Vec::new(), record) }
}

/// Returns whether this is an event or an export of OpenCode 2.
fn is_newer(record: &Value) -> bool {
    let is_event = record["type"].is_string() && record["data"].is_object();
    is_event || (record["messages"].is_array() && record["info"]["location"].is_object())
}

/// Returns the mutations of a pair: of each kind of record and field, the first and the last.
pub fn mutations(pair: &RecordedPair) -> Vec<Mutation> {
    let mut first = BTreeMap::new();
    let mut last = BTreeMap::new();
    let side_order = |side| u8::from(side == Side::Transcript);
    each_place(pair, |place, part, kinds| {
        for mutation in place.mutations(part, kinds) {
            let field = super::mutation_count::general(&mutation.path);
            let key = (side_order(place.side), mutation.kind.clone(), field, mutation.change);
            first.entry(key.clone()).or_insert_with(|| mutation.clone());
            last.insert(key, mutation);
        }
    });
    let mut all: Vec<_> = first.into_values().collect();
    let is_new = |it: &Mutation| {
        !all.iter().any(|known| {
            (known.side, known.file, known.line, &known.steps, known.change)
                == (it.side, it.file, it.line, &it.steps, it.change)
        })
    };
    let more: Vec<_> = last.into_values().filter(is_new).collect();
    all.extend(more);
    all
}

/// Calls a function for each part of each record of a pair, with the names under which known gaps may
/// name it.
pub(super) fn each_place(
    pair: &RecordedPair,
    mut each: impl FnMut(&Place, &RawPart<'_>, &[String]),
) {
    let stream = super::mutation_count::raw(pair, Side::Stream);
    let files = super::mutation_count::raw(pair, Side::Transcript);
    let others = other_sessions(pair);
    let is_other = |value: &Value| {
        let message = value.get("msg").unwrap_or(value);
        let params = &message["params"];
        let thread = params["threadId"].as_str().or(params["thread"]["id"].as_str());
        thread.is_some_and(|thread| others.iter().any(|it| it == thread))
    };
    for side in [Side::Stream, Side::Transcript] {
        for (file, bytes) in texts(pair, side).into_iter().enumerate() {
            let is_read = side == Side::Stream || !is_of_other(bytes, &others);
            for (line, record) in records(bytes).into_iter().enumerate() {
                let Some(value) = json(record).filter(|it| is_read && !is_other(it)) else {
                    continue;
                };
                let (at, inner) = unwrapped(&value);
                for part in parts(inner) {
                    let place =
                        Place { side, file, line, at: [at.clone(), part.at.clone()].concat() };
                    let mut kinds = part.gap_kinds();
                    kinds.extend(stream.is_whole(&part).then(|| "whole/assistant".to_owned()));
                    let further = stream.kinds_beside(&part);
                    kinds.extend(further.into_iter().filter(|_| side == Side::Transcript));
                    kinds.extend(files.kind_of_output(&part).filter(|_| side == Side::Transcript));
                    each(&place, &part, &kinds);
                }
            }
        }
    }
}

/// Returns the sessions that were recorded beside the one of the pair: forks of Codex, whose files are
/// not part of it.
pub(super) fn other_sessions(pair: &RecordedPair) -> Vec<String> {
    if pair.agent != codex::AGENT {
        return Vec::new();
    }
    let files: Vec<_> =
        pair.files.iter().map(|(path, bytes)| SessionFile { path, bytes }).collect();
    let read: Vec<usize> = pair.agent.reading_order(&files).iter().map(|it| it.index).collect();
    let unread = pair.files.iter().enumerate().filter(|(number, _)| !read.contains(number));
    unread.filter_map(|(_, (_, bytes))| thread_of(bytes)).collect()
}

/// Returns whether a file is of one of these sessions.
pub(super) fn is_of_other(bytes: &[u8], others: &[String]) -> bool {
    !others.is_empty() && thread_of(bytes).is_some_and(|thread| others.contains(&thread))
}

/// Returns the thread that a rollout is of.
fn thread_of(bytes: &[u8]) -> Option<String> {
    let first = json(bytes.split(|byte| *byte == b'\n').next()?)?;
    first["payload"]["id"].as_str().map(str::to_owned)
}

/// The place of a part of a record.
#[derive(Clone)]
pub(super) struct Place {
    /// The side.
    pub(super) side: Side,
    /// The file.
    pub(super) file: usize,
    /// The line.
    pub(super) line: usize,
    /// The way to the part in the line.
    pub(super) at: Vec<Step>,
}

impl Place {
    /// Returns the mutations of a part: its removal, and changes of each of its values.
    pub(super) fn mutations(&self, part: &RawPart<'_>, gap_kinds: &[String]) -> Vec<Mutation> {
        let mut all = Vec::new();
        let mut add = |path: String, steps: Vec<Step>, value: &Value, change| {
            all.push(Mutation {
                side: self.side,
                file: self.file,
                line: self.line,
                kind: part.kind.clone(),
                gap_kinds: gap_kinds.to_vec(),
                ids: part.ids.clone(),
                message: part.message.clone(),
                path,
                value: value.clone(),
                change,
                steps: [self.at.clone(), steps].concat(),
            });
        };
        add(String::new(), Vec::new(), &Value::Null, Change::RemoveRecord);
        each_leaf(
            part.object,
            "",
            &mut Vec::new(),
            &mut |path: &str, steps: &[Step], value: &Value| {
                add(path.to_owned(), steps.to_vec(), value, Change::Alter);
                // A field without a value means the same as no field.
                if !value.is_null() {
                    add(path.to_owned(), steps.to_vec(), value, Change::Remove);
                }
            },
        );
        all
    }
}

fn each_leaf(
    value: &Value,
    path: &str,
    steps: &mut Vec<Step>,
    each: &mut impl FnMut(&str, &[Step], &Value),
) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                let dot = if path.is_empty() { "" } else { "." };
                steps.push(Step::Field(name.clone()));
                each_leaf(value, &format!("{path}{dot}{name}"), steps, each);
                steps.pop();
            }
        }
        Value::Array(elements) if !elements.is_empty() => {
            for (number, value) in elements.iter().enumerate() {
                steps.push(Step::Element(number));
                each_leaf(value, &format!("{path}[{number}]"), steps, each);
                steps.pop();
            }
        }
        leaf => each(path, steps, leaf),
    }
}

/// Returns the pair with the mutation applied.
pub fn apply(pair: &RecordedPair, mutation: &Mutation) -> RecordedPair {
    let mut changed = pair.clone();
    let bytes = match mutation.side {
        Side::Stream => &mut changed.stream,
        Side::Transcript => &mut changed.files[mutation.file].1,
    };
    let mut out = Vec::with_capacity(bytes.len());
    for (line, record) in records(bytes).into_iter().enumerate() {
        if line != mutation.line {
            out.extend_from_slice(record);
            continue;
        }
        let Some(mut value) = json(record) else { continue };
        if change(&mut value, &mutation.steps, mutation.change) {
            let prefix: &[u8] = if record.starts_with(b"data:") { b"data: " } else { b"" };
            out.extend_from_slice(prefix);
            out.extend_from_slice(value.to_string().as_bytes());
            out.push(b'\n');
        }
    }
    *bytes = out;
    changed
}

/// Changes the value at a path. Returns whether the record still exists.
fn change(record: &mut Value, steps: &[Step], change: Change) -> bool {
    let Some((last, before)) = steps.split_last() else {
        return change != Change::RemoveRecord;
    };
    let mut at = record;
    for step in before {
        at = match step {
            Step::Field(name) => &mut at[name.as_str()],
            Step::Element(number) => &mut at[*number],
        };
    }
    if change == Change::Alter {
        let value = match last {
            Step::Field(name) => &mut at[name.as_str()],
            Step::Element(number) => &mut at[*number],
        };
        *value = altered(value);
        return true;
    }
    match (last, at) {
        (Step::Field(name), Value::Object(fields)) => {
            // The object that an event carries is the record, so the event goes with it.
            let is_removal = change == Change::RemoveRecord;
            let is_event = is_removal && matches!(name.as_str(), "info" | "part");
            // So does what a recorder puts around a message.
            let is_wrapped = is_removal && name == "msg" && before.is_empty();
            fields.remove(name);
            let is_inside = before.last() == Some(&Step::Field("properties".to_owned()));
            let is_gone = is_wrapped || (is_event && is_inside);
            !is_gone
        }
        (Step::Element(number), Value::Array(elements)) => {
            elements.remove(*number);
            true
        }
        _ => true,
    }
}

fn altered(value: &Value) -> Value {
    match value {
        Value::Null => Value::from("changed"),
        Value::Bool(it) => Value::from(!it),
        Value::Number(number) => match number.as_i64() {
            Some(number) => Value::from(number + 1),
            None => Value::from(number.as_f64().unwrap_or(0.0) + 1.0),
        },
        Value::String(text) => Value::from(format!("{text}~")),
        Value::Array(_) => Value::from(vec!["changed"]),
        Value::Object(_) => serde_json::json!({"changed": true}),
    }
}
