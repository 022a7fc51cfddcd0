//! Streamed messages: what was shown while a message arrived must be what it became.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use threadfold_core::Json;

use super::text;
use crate::parity::{Facts, RecordName, is_same_path, normalize};

/// The messages that are streaming, and the ends of those that did.
#[derive(Default)]
pub(super) struct Previews {
    /// The message that is streaming, in each conversation.
    streaming: BTreeMap<String, String>,
    /// The streaming message that has not ended, in each conversation.
    unended: BTreeMap<String, String>,
    blocks: BTreeMap<(String, u64), Preview>,
    openings: BTreeMap<String, Map<String, Value>>,
    /// Messages whose end was reported.
    ended: BTreeSet<String>,
    /// Messages that an interruption cut off.
    aborted: BTreeSet<String>,
}

/// A block that was shown while it arrived.
#[derive(Default)]
struct Preview {
    kind: String,
    start: Map<String, Value>,
    text: String,
    thinking: String,
    signature: String,
    json: String,
}

impl Previews {
    pub(super) fn start(&mut self, conversation: &str, message: &str) {
        self.streaming.insert(conversation.to_owned(), message.to_owned());
        self.unended.insert(conversation.to_owned(), message.to_owned());
    }

    /// Ends the message that is streaming.
    pub(super) fn stop(&mut self, conversation: &str) {
        self.unended.remove(conversation);
    }

    /// Reads the report of the end of a message: its reason and counts.
    pub(super) fn end(&mut self, message: &str) {
        self.ended.insert(message.to_owned());
    }

    /// Reads that an interruption cut off a message.
    pub(super) fn abort(&mut self, message: &str) {
        self.aborted.insert(message.to_owned());
    }

    /// Requires that the end of a message was reported before its stop, unless its connection was lost
    /// and its blocks were abandoned, or lost before its first whole block.
    pub(super) fn require_report(&self, facts: &mut Facts, message: &str, is_whole: bool) {
        let name = RecordName::new("assistant", message);
        let has_lines = facts.has(&name);
        // Versions that mark the stop of a message that was cut off mark that of one without lines, too.
        let is_marked = facts.version.as_deref().is_some_and(super::names_cut_messages);
        let is_complete = is_whole && (has_lines || is_marked);
        let is_required = is_complete || self.aborted.contains(message);
        if is_required && !self.ended.contains(message) {
            let missing = Json::of(&Value::Null);
            facts.contradict(&name, "message.stopReason", missing.clone(), missing);
        }
    }

    /// Returns the message that is streaming, if another one came whole: it was cut off, and the
    /// agent asked again without streaming.
    pub(super) fn replaced_by(&mut self, conversation: &str, message: &str) -> Option<String> {
        let is_replaced = self.unended.get(conversation).is_some_and(|it| it != message);
        let is_whole = !self.openings.contains_key(message);
        if is_replaced && is_whole { self.unended.remove(conversation) } else { None }
    }

    pub(super) fn message(&self, conversation: &str) -> Option<String> {
        self.streaming.get(conversation).cloned()
    }

    pub(super) fn keep_opening(&mut self, message: &str, opening: &Map<String, Value>) {
        self.openings.insert(message.to_owned(), opening.clone());
    }

    pub(super) fn opening(&self, message: &str) -> Option<&Map<String, Value>> {
        self.openings.get(message)
    }

    pub(super) fn has_opening(&self, message: &str) -> bool {
        self.openings.contains_key(message)
    }

    /// Returns whether a message arrived as a whole, although the stream shows others while they
    /// arrive.
    pub(super) fn is_whole(&self, message: &str) -> bool {
        !self.openings.is_empty() && !self.has_opening(message)
    }

    /// Limits what a file may report as the end of a message that was cut off: the agent writes the
    /// count of the start, and one of the usual reasons.
    pub(super) fn allow_ends(&self, facts: &mut Facts) {
        for message in self.openings.keys() {
            let name = RecordName::new("assistant", message);
            let is_cut = facts.has(&name) && facts.get(&name, "message.stopReason").is_none();
            let count = facts.get(&name, super::AT_START).filter(|_| is_cut).cloned();
            let Some(count) = count else { continue };
            facts.allow(&name, super::OUTPUT_TOKENS, count);
            for reason in ["end_turn", "tool_use", "stop_sequence"] {
                facts.allow(&name, "message.stopReason", Json::string(reason));
            }
        }
    }

    pub(super) fn start_block(&mut self, conversation: &str, event: &Map<String, Value>) {
        let (Some(message), Some(index)) =
            (self.message(conversation), event.get("index").and_then(Value::as_u64))
        else {
            return;
        };
        let start = event.get("content_block").and_then(Value::as_object).cloned();
        let start = start.unwrap_or_default();
        let kind = text(&start, "type").unwrap_or("").to_owned();
        self.blocks.insert((message, index), Preview { kind, start, ..Preview::default() });
    }

    pub(super) fn grow(&mut self, conversation: &str, event: &Map<String, Value>) {
        let (Some(message), Some(index), Some(delta)) = (
            self.message(conversation),
            event.get("index").and_then(Value::as_u64),
            event.get("delta").and_then(Value::as_object),
        ) else {
            return;
        };
        let Some(preview) = self.blocks.get_mut(&(message, index)) else { return };
        for (field, grown) in [
            ("text", &mut preview.text),
            ("thinking", &mut preview.thinking),
            ("signature", &mut preview.signature),
            ("partial_json", &mut preview.json),
        ] {
            grown.push_str(text(delta, field).unwrap_or(""));
        }
    }

    /// Compares a whole block with what was shown of it.
    pub(super) fn confirm(
        &mut self,
        facts: &mut Facts,
        record: &RecordName,
        (message, index): (&str, u64),
        block: &Value,
    ) {
        if let Some(opening) = self.openings.get(message) {
            agree_opening(facts, message, opening);
        }
        let Some(preview) = self.blocks.remove(&(message.to_owned(), index)) else { return };
        let kind = Value::from(preview.kind.as_str());
        facts.agree(record, "message.content.type", &kind);
        for field in ["id", "name", "data"] {
            if let Some(value) = preview.start.get(field) {
                facts.agree(record, &format!("message.content.{field}"), value);
            }
        }
        match preview.kind.as_str() {
            "text" => {
                let begun = text(&preview.start, "text").unwrap_or("");
                let shown = Value::from(format!("{begun}{}", preview.text));
                facts.agree(record, "message.content.text", &shown);
            }
            "thinking" => {
                facts.agree(record, "message.content.thinking", &preview.thinking.into());
                if !preview.signature.is_empty() || block.get("signature").is_some() {
                    facts.agree(record, "message.content.signature", &preview.signature.into());
                }
            }
            "tool_use" => agree_input(facts, record, &preview.json, block.get("input")),
            _ => {}
        }
    }
}

/// States how a message ended.
pub(super) fn state_end(facts: &mut Facts, message: &str, end: &Map<String, Value>) {
    let name = RecordName::new("assistant", message);
    if !facts.has(&name) {
        return;
    }
    let delta = end.get("delta").and_then(Value::as_object);
    // A message that was aborted has a delta without a reason, and no end.
    if delta.is_none_or(|delta| delta.get("stop_reason").is_none_or(Value::is_null)) {
        return;
    }
    for (field, value) in delta.into_iter().flatten().filter(|(_, value)| !value.is_null()) {
        facts.agree(&name, &format!("message.{}", normalize(field)), value);
    }
    // An end without details has none in the file either.
    if delta.is_some_and(|delta| delta.get("stop_details").is_none_or(Value::is_null)) {
        facts.allow(&name, "message.stopDetails", Json::of(&Value::Null));
    }
    let usage = end.get("usage").and_then(Value::as_object);
    for (field, value) in usage.into_iter().flatten() {
        let field = format!("message.usage.{}", normalize(field));
        // Old versions stream the lines of a message with its final count.
        if field == super::OUTPUT_TOKENS && facts.get(&name, &field).is_some() {
            facts.agree(&name, &field, value);
        } else {
            facts.set(&name, &field, value);
        }
    }
}

/// States that a message which arrived as a whole has an end, even if the stream lacks it.
pub(super) fn require_end(facts: &mut Facts, message: &str) {
    let name = RecordName::new("assistant", message);
    for field in ["message.stopReason", super::OUTPUT_TOKENS] {
        if facts.has(&name) && facts.get(&name, field).is_none() {
            facts.set(&name, field, &Value::Null);
        }
    }
}

/// Compares the lines of a message with the message as it began.
fn agree_opening(facts: &mut Facts, message: &str, opening: &Map<String, Value>) {
    let name = RecordName::new("assistant", message);
    for field in ["id", "role", "type", "model"] {
        if let Some(value) = opening.get(field) {
            require(facts, &name, &format!("message.{field}"), value);
        }
    }
    let usage = opening.get("usage").and_then(Value::as_object);
    for (field, value) in usage.into_iter().flatten() {
        match field.as_str() {
            "output_tokens" => facts.agree(&name, super::AT_START, value),
            field => {
                require(facts, &name, &format!("message.usage.{}", normalize(field)), value);
            }
        }
    }
}

/// Compares a field of a message's lines with its beginning, which they repeat.
fn require(facts: &mut Facts, name: &RecordName, field: &str, value: &Value) {
    let is_value = !value.is_object() && !value.is_array();
    if is_value && facts.get(name, field).is_none() {
        facts.contradict(name, field, Json::of(value), Json::of(&Value::Null));
    }
    facts.agree(name, field, value);
}

/// Compares a call's input with what was shown of it; the agent may add defaults.
fn agree_input(facts: &mut Facts, record: &RecordName, shown: &str, input: Option<&Value>) {
    let Ok(Value::Object(shown)) = serde_json::from_str::<Value>(shown) else {
        let is_empty = shown.is_empty() && input.is_none_or(|it| it == &Value::Object(Map::new()));
        if !is_empty {
            let (first, second) = (Json::string(shown), Json::of(&input));
            facts.contradict(record, "message.content.input", first, second);
        }
        return;
    };
    for (field, value) in &shown {
        let confirmed = input.and_then(|input| input.get(field));
        if !is_same_path(value, confirmed) {
            facts.agree(record, &format!("message.content.input.{}", normalize(field)), value);
        }
    }
}
