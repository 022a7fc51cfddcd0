//! Permutes the records of a pair: two change places or texts, or one is repeated.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use threadfold_fold::parity::Side;

use super::RecordedPair;
use super::identity::{RawPart, Step, codex, leaves_of};
use super::mutate::{Change, Mutation, Place, each_place, json, records, texts, unwrapped};
use super::mutation_count::general;

/// A permutation of the records of one side.
#[derive(Clone, Debug)]
pub struct Permutation {
    /// What is permuted.
    pub form: PermutationForm,
    /// The first record, or its text.
    pub first: PermutedRecord,
    /// The second one, or the first again if it is repeated.
    pub second: PermutedRecord,
}

/// What is permuted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PermutationForm {
    /// Two records that follow each other change places.
    Neighbours,
    /// Two records of one kind, with others between them, change places.
    Places,
    /// Two records of one kind exchange a text.
    Texts,
    /// A record is there twice.
    Repetition,
}

/// A record of a permutation.
#[derive(Clone, Debug)]
pub struct PermutedRecord {
    /// The record, as the mutation that removes it or changes its text.
    pub mutation: Mutation,
    /// The record.
    pub object: Value,
    /// A record before it has what it has.
    pub is_copy: bool,
    /// Its line has a number that says where it belongs.
    pub is_numbered: bool,
    /// Its list has a review.
    pub has_review: bool,
    /// Its place in its list: the lines of a file, or the elements of a list in a document.
    unit: Unit,
}

/// A place in a list of records.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Unit {
    file: usize,
    /// The line; a document is one line.
    line: usize,
    /// The list in the document and the element in it; nothing if lines are the list.
    element: Option<(Vec<Step>, usize)>,
}

/// What distinguishes the lists of a pair: the file, and the list in a document.
type ListName = (usize, Option<(usize, Vec<Step>)>);

/// What distinguishes the kinds of permutations: the form, the side, both records and the field.
type PermutationKind = (PermutationForm, u8, String, String, String);

impl Unit {
    /// Returns the place of a part; nothing if it is not in a list.
    fn new(pair: &RecordedPair, place: &Place) -> Option<Self> {
        let (file, line) = (place.file, place.line);
        let last = place.at.iter().rposition(|step| matches!(step, Step::Element(_)));
        let element = match last.map(|last| (last, &place.at[last])) {
            Some((last, Step::Element(number))) => Some((place.at[..last].to_vec(), *number)),
            _ => None,
        };
        let is_document = place.side == Side::Transcript
            && element.is_none()
            && records(&pair.files[file].1).len() == 1;
        (!is_document).then_some(Self { file, line, element })
    }

    /// Returns what distinguishes the lists, and the place in the list.
    fn list(&self) -> (ListName, usize) {
        match &self.element {
            Some((list, number)) => ((self.file, Some((self.line, list.clone()))), *number),
            None => ((self.file, None), self.line),
        }
    }
}

/// The names of fields that hold what a person, a model, an agent or a tool wrote.
const TEXTS: [&str; 22] = [
    "aggregatedOutput",
    "aggregated_output",
    "arguments",
    "command",
    "content",
    "delta",
    "error",
    "input",
    "last_agent_message",
    "message",
    "newString",
    "new_string",
    "output",
    "prompt",
    "query",
    "result",
    "stderr",
    "stdout",
    "summary",
    "text",
    "thinking",
    "title",
];

/// Returns the permutations of a pair: of each pair of kinds that follow each other, of each kind and
/// of each text of a kind, the first and the last.
pub fn permutations(pair: &RecordedPair) -> Vec<Permutation> {
    let mut lists: BTreeMap<_, BTreeMap<usize, PermutedRecord>> = BTreeMap::new();
    let mut numbered: BTreeMap<(usize, bool), Vec<bool>> = BTreeMap::new();
    each_place(pair, |place, part, kinds| {
        let Some(unit) = Unit::new(pair, place) else { return };
        let mut add = |unit: Unit, part: &RawPart<'_>, place: &Place, kinds: &[String]| {
            let Some(mutation) = place.mutations(part, kinds).into_iter().next() else { return };
            let (list, number) = unit.list();
            let list = lists.entry((u8::from(place.side == Side::Transcript), list)).or_default();
            let (object, is_copy) = (part.object.clone(), false);
            let lines =
                numbered.entry((unit.file, place.side == Side::Stream)).or_insert_with(|| {
                    let bytes = texts(pair, place.side)[unit.file];
                    records(bytes).into_iter().map(is_numbered).collect::<Vec<bool>>()
                });
            let is_numbered = lines[unit.line] && unit.element.is_none();
            let has_review = false;
            let record =
                PermutedRecord { mutation, object, is_copy, is_numbered, has_review, unit };
            list.entry(number).or_insert(record);
        };
        // A message of OpenCode 2 holds its parts.
        let content = part.object["content"].as_array().filter(|_| part.kind == "message");
        for (number, element) in content.into_iter().flatten().enumerate() {
            let kind = format!("content/{}", element["type"].as_str().unwrap_or(""));
            let steps = [Step::Field("content".to_owned()), Step::Element(number)];
            let inner = Place { at: [place.at.clone(), steps.to_vec()].concat(), ..place.clone() };
            let part = RawPart {
                kind: kind.clone(),
                ids: Vec::new(),
                message: None,
                at: inner.at.clone(),
                object: element,
            };
            if let Some(unit) = Unit::new(pair, &inner) {
                add(unit, &part, &inner, &[kind]);
            }
        }
        add(unit, part, place, kinds);
    });
    let mut found = Selection::default();
    for list in lists.values_mut() {
        mark_copies(list);
        let records: Vec<&PermutedRecord> = list.values().collect();
        for (first, second) in records.iter().zip(records.iter().skip(1)) {
            found.add(PermutationForm::Neighbours, first, second, "");
        }
        let mut before: BTreeMap<&str, (usize, &PermutedRecord)> = BTreeMap::new();
        for (number, record) in records.iter().enumerate() {
            found.add(PermutationForm::Repetition, record, record, "");
            let earlier = before.insert(&record.mutation.kind, (number, record));
            let Some((place, earlier)) = earlier else { continue };
            if place + 1 < number {
                found.add(PermutationForm::Places, earlier, record, "");
            }
            for (first, second) in exchanges(earlier, record) {
                let field = general(&first.mutation.path);
                found.add(PermutationForm::Texts, &first, &second, &field);
            }
        }
    }
    found.finish()
}

/// Returns whether a line has a number: an event of OpenCode 2, or a row of the log of version 1.
fn is_numbered(line: &[u8]) -> bool {
    let Some(value) = json(line) else { return false };
    let (_, inner) = unwrapped(&value);
    let is_row = inner["aggregate_id"].is_string() && inner["seq"].is_u64();
    // The newer protocol of version 1 has on the bus the ids of its log, which ascend.
    let is_logged = inner["type"].as_str().is_some_and(|it| it.starts_with("session.next."));
    let is_logged = is_logged && inner["id"].is_string();
    is_row || is_logged || inner["durable"]["seq"].is_u64() || value["seq"].is_u64()
}

/// Marks the records of a list that repeat what records of other kinds before them have.
fn mark_copies(list: &mut BTreeMap<usize, PermutedRecord>) {
    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let reviews = ["event_msg/entered_review_mode", "item/EnteredReviewMode"];
    let has_review = list.values().any(|it| reviews.contains(&it.mutation.kind.as_str()));
    for record in list.values_mut() {
        record.has_review = has_review;
        let (texts, kind) = (codex::texts_of(&record.object), record.mutation.kind.clone());
        let is_known =
            |text: &String| known.get(text).is_some_and(|kinds| kinds.iter().any(|it| *it != kind));
        record.is_copy = !texts.is_empty() && texts.iter().all(is_known);
        for text in texts {
            known.entry(text).or_default().insert(kind.clone());
        }
    }
}

/// The permutations that were found, of each kind the first and the last.
#[derive(Default)]
struct Selection {
    kinds: BTreeMap<PermutationKind, [Option<Permutation>; 2]>,
}

impl Selection {
    fn add(
        &mut self,
        form: PermutationForm,
        first: &PermutedRecord,
        second: &PermutedRecord,
        field: &str,
    ) {
        let is_stored = u8::from(first.mutation.side == Side::Transcript);
        let kinds = [first, second].map(|it| it.mutation.kind.clone());
        let is_swap = matches!(form, PermutationForm::Neighbours | PermutationForm::Places);
        if is_swap && numbered_alike(first, second) {
            return;
        }
        let [one, other] = kinds;
        let key = (form, is_stored, one, other, field.to_owned());
        let permutation = Permutation { form, first: first.clone(), second: second.clone() };
        let known = self.kinds.entry(key).or_default();
        match known {
            [None, _] => known[0] = Some(permutation),
            [_, last] => *last = Some(permutation),
        }
    }

    fn finish(self) -> Vec<Permutation> {
        self.kinds.into_values().flatten().flatten().collect()
    }
}

/// Returns whether two records are equal apart from what numbers their places.
fn numbered_alike(first: &PermutedRecord, second: &PermutedRecord) -> bool {
    let mut one = first.object.clone();
    let mut other = second.object.clone();
    exchange_numbers(&mut one, &mut other);
    one == second.object && other == first.object
}

/// Returns the texts that two records of one kind can exchange.
fn exchanges(
    first: &PermutedRecord,
    second: &PermutedRecord,
) -> Vec<(PermutedRecord, PermutedRecord)> {
    let mut leaves = Vec::new();
    leaves_of(&first.object, "", &mut leaves);
    let mut found = Vec::new();
    for (path, _) in leaves {
        let plain = general(&path);
        if !TEXTS.contains(&plain.rsplit('.').next().unwrap_or("")) {
            continue;
        }
        let steps = steps_of(&path);
        let texts = [first, second].map(|it| value_at(&it.object, &steps));
        let [Some(Value::String(one)), Some(Value::String(other))] = texts else { continue };
        if one == other || one.is_empty() || other.is_empty() {
            continue;
        }
        let [first, second] = [(first, one), (second, other)].map(|(record, value)| {
            let mut record = record.clone();
            record.mutation.path.clone_from(&path);
            record.mutation.value = Value::from(value.as_str());
            record.mutation.change = Change::Alter;
            record.mutation.steps.extend(steps.clone());
            record
        });
        found.push((first, second));
    }
    found
}

fn steps_of(path: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    for name in path.split('.') {
        let (name, rest) = name.split_once('[').unwrap_or((name, ""));
        if !name.is_empty() {
            steps.push(Step::Field(name.to_owned()));
        }
        let numbers = rest.split(['[', ']']).filter_map(|it| it.parse().ok());
        steps.extend(numbers.map(Step::Element));
    }
    steps
}

fn value_at<'a>(value: &'a Value, steps: &[Step]) -> Option<&'a Value> {
    steps.iter().try_fold(value, |at, step| match step {
        Step::Field(name) => at.get(name),
        Step::Element(number) => at.get(number),
    })
}

fn value_at_mut<'a>(value: &'a mut Value, steps: &[Step]) -> Option<&'a mut Value> {
    steps.iter().try_fold(value, |at, step| match step {
        Step::Field(name) => at.get_mut(name),
        Step::Element(number) => at.get_mut(number),
    })
}

/// Exchanges what numbers the places of two records, so that it stays where it was: the number and
/// time of a line of a rollout, the number of an item of `codex exec`, and the id of an event of
/// Claude Code's stream, which nothing refers to. Without that, the numbers
/// alone would show a permutation.
fn exchange_numbers(one: &mut Value, other: &mut Value) {
    let is_rollout = |it: &Value| it["payload"].is_object() && it["timestamp"].is_string();
    if is_rollout(one) && is_rollout(other) {
        for name in ["ordinal", "timestamp"] {
            exchange(one, other, &[Step::Field(name.to_owned())]);
        }
    }
    let kind = |it: &Value| it["type"].as_str().unwrap_or("").to_owned();
    if kind(one) == "stream_event" && kind(other) == "stream_event" {
        exchange(one, other, &[Step::Field("uuid".to_owned())]);
    }
    let is_item = |it: &Value| kind(it).starts_with("item.") && it["item"]["id"].is_string();
    // The beginning and the end of an item have one number.
    if is_item(one) && is_item(other) && kind(one) == kind(other) {
        exchange(one, other, &["item", "id"].map(|it| Step::Field(it.to_owned())));
    }
}

fn exchange(one: &mut Value, other: &mut Value, steps: &[Step]) {
    if let (Some(one), Some(other)) = (value_at_mut(one, steps), value_at_mut(other, steps)) {
        std::mem::swap(one, other);
    }
}

/// Returns the pair with the permutation applied.
pub fn apply(pair: &RecordedPair, permutation: &Permutation) -> RecordedPair {
    let (first, second) = (&permutation.first, &permutation.second);
    let mut changed = pair.clone();
    let bytes = match first.mutation.side {
        Side::Stream => &mut changed.stream,
        Side::Transcript => &mut changed.files[first.mutation.file].1,
    };
    let mut lines: Vec<Vec<u8>> = records(bytes).into_iter().map(<[u8]>::to_vec).collect();
    let (one, other) = (first.unit.line, second.unit.line);
    match (permutation.form, &first.unit.element, &second.unit.element) {
        (PermutationForm::Texts, _, _) => {
            for (line, record, text) in [(one, first, second), (other, second, first)] {
                let text = text.mutation.value.clone();
                edit(&mut lines[line], |value| {
                    if let Some(found) = value_at_mut(value, &record.mutation.steps) {
                        *found = text;
                    }
                });
            }
        }
        (PermutationForm::Repetition, Some((list, number)), _) => edit(&mut lines[one], |value| {
            if let Some(Value::Array(elements)) = value_at_mut(value, list) {
                elements.insert(number + 1, elements[*number].clone());
            }
        }),
        (PermutationForm::Repetition, None, _) => {
            end_line(&mut lines[one]);
            lines.insert(one + 1, lines[one].clone());
        }
        (_, Some((list, number)), Some((_, next))) => edit(&mut lines[one], |value| {
            if let Some(Value::Array(elements)) = value_at_mut(value, list) {
                elements.swap(*number, *next);
            }
        }),
        _ => {
            if let (Some(mut value), Some(mut next)) = (json(&lines[one]), json(&lines[other])) {
                exchange_numbers(&mut value, &mut next);
                edit(&mut lines[one], |it| *it = value);
                edit(&mut lines[other], |it| *it = next);
            }
            lines.iter_mut().for_each(end_line);
            lines.swap(one, other);
        }
    }
    *bytes = lines.concat();
    changed
}

fn end_line(line: &mut Vec<u8>) {
    if !line.ends_with(b"\n") {
        line.push(b'\n');
    }
}

/// Changes the JSON of a line.
fn edit(line: &mut Vec<u8>, change: impl FnOnce(&mut Value)) {
    let Some(mut value) = json(line) else { return };
    change(&mut value);
    let prefix = if line.starts_with(b"data:") { "data: " } else { "" };
    *line = format!("{prefix}{value}\n").into_bytes();
}
