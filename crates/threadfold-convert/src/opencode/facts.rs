//! States what OpenCode's events and stored objects say: both carry the same objects.

mod next;
mod questions;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use threadfold_core::Json;

use super::rows;
use super::v2::{EventFacts, state_message, state_session};
use crate::parity::{FactReader, Facts, RecordName};
use crate::record::FeedLine;

use next::NextTexts;
use questions::Questions;

/// The records that bus and store both have: objects, and events of the newer protocol, of which the
/// log lacks only the deltas.
pub(super) const STORED: [&str; 18] = [
    "session",
    "v2/session",
    "message",
    "part",
    "session.next.prompt.admitted",
    "session.next.prompted",
    "session.next.step.started",
    "session.next.step.ended",
    "session.next.step.failed",
    "session.next.text.started",
    "session.next.text.ended",
    "session.next.reasoning.started",
    "session.next.reasoning.ended",
    "session.next.tool.input.started",
    "session.next.tool.input.ended",
    "session.next.tool.called",
    "session.next.tool.success",
    "session.next.tool.failed",
];

/// Returns a reader of facts.
pub(super) fn reader() -> Box<dyn FactReader> {
    Box::<Reader>::default()
}

#[derive(Default)]
struct Reader {
    facts: Facts,
    /// The text that was streamed of each part.
    deltas: BTreeMap<String, String>,
    next_texts: NextTexts,
    questions: Questions,
    /// Parts of each message.
    parts: BTreeMap<String, BTreeSet<RecordName>>,
    busy: BTreeSet<String>,
    /// Errors that sessions reported: the message that failed carries the same.
    errors: Vec<(String, Value)>,
    /// The error of each message, with its session.
    failed: BTreeMap<String, (String, Value)>,
    /// What the events of version 2 describe.
    newer: EventFacts,
    /// The session that the last stored record named: messages of version 2 do not name theirs.
    session: String,
}

impl FactReader for Reader {
    fn push(&mut self, line: &FeedLine<'_>) {
        let bytes = line.bytes.strip_prefix(b"data:").unwrap_or(line.bytes);
        let row = std::str::from_utf8(bytes).ok().and_then(rows::with_table);
        let bytes = row.as_ref().map_or(bytes, |row| row.as_bytes());
        let Ok(record) = serde_json::from_slice::<Value>(bytes) else { return };
        if line.feed.is_stream() { self.read_event(&record) } else { self.read_stored(&record) }
    }

    fn finish(mut self: Box<Self>) -> Facts {
        let parts: Vec<_> = self.parts.values().flatten().cloned().collect();
        for part in parts {
            self.compare_deltas(&part);
        }
        for (session, error) in std::mem::take(&mut self.errors) {
            let mut failed = self.failed.values().filter(|(owner, _)| *owner == session);
            let last = self.failed.values().rfind(|(owner, _)| *owner == session);
            if let (false, Some((_, last))) = (failed.any(|(_, it)| *it == error), last) {
                let (first, second) = (Json::of(last), Json::of(&error));
                self.facts.contradict(
                    &RecordName::new("session", &session),
                    "error",
                    first,
                    second,
                );
            }
        }
        self.facts.has_ended = self.busy.is_empty();
        std::mem::take(&mut self.questions).finish(&mut self.facts);
        self.newer.finish(&mut self.facts);
        self.facts
    }
}

/// The totals of a session over its messages.
const TOTALS: [&str; 6] = [
    "cost",
    "tokens.input",
    "tokens.output",
    "tokens.reasoning",
    "tokens.cache.read",
    "tokens.cache.write",
];

/// Returns the session in a row of the database, whose columns are the fields of the object.
fn session_of_row(row: &Value) -> Value {
    let mut session = Map::new();
    let is_without_totals = text(row, "version").is_some_and(is_before_totals);
    for (column, value) in row.as_object().into_iter().flatten().filter(|(_, it)| !it.is_null()) {
        let path: &[&str] = match column.as_str() {
            "_rowid" => continue,
            total if is_without_totals && is_unset_total(total, value) => continue,
            "workspace_id" => &["workspaceID"],
            "project_id" => &["projectID"],
            "parent_id" => &["parentID"],
            "share_url" => &["share", "url"],
            "tokens_cache_read" => &["tokens", "cache", "read"],
            "tokens_cache_write" => &["tokens", "cache", "write"],
            other => match other.split_once('_') {
                Some((group @ ("summary" | "tokens" | "time"), field)) => &[group, field],
                _ => &[other],
            },
        };
        let (last, above) = path.split_last().expect("a column has a name");
        let mut at = &mut session;
        for step in above {
            let inner = at.entry(*step).or_insert_with(|| Value::Object(Map::new()));
            at = inner.as_object_mut().expect("columns of a group do not name the group itself");
        }
        // The database returns a JSON column as text.
        let inner = value.as_str().filter(|text| text.starts_with(['{', '[']));
        let inner = inner.and_then(|text| serde_json::from_str(text).ok());
        at.insert((*last).to_owned(), inner.unwrap_or_else(|| as_written(value)));
    }
    Value::Object(session)
}

/// Returns a value as the agent writes it: the database has `0.0` in a column of numbers.
fn as_written(value: &Value) -> Value {
    let whole = value.as_f64().filter(|it| value.is_f64() && it.fract() == 0.0);
    whole.map_or_else(|| value.clone(), |whole| Value::from(whole as i64))
}

/// Returns whether a version stored no totals of sessions. An update of the database gave the
/// sessions of such versions the columns with their defaults.
fn is_before_totals(version: &str) -> bool {
    let minor = version.strip_prefix("1.").and_then(|it| it.split('.').next()?.parse::<u32>().ok());
    minor.is_some_and(|minor| minor < 15)
}

/// Returns whether a column is a total with its default value.
fn is_unset_total(column: &str, value: &Value) -> bool {
    let is_total = column == "cost" || column.starts_with("tokens_");
    is_total && value.as_f64() == Some(0.0)
}

fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name)?.as_str()
}

impl Reader {
    fn read_event(&mut self, record: &Value) {
        // A recorder or the global bus may wrap the event.
        let mut event = record;
        let is_newer = |event: &Value| {
            let has_data = event.get("data").is_some_and(Value::is_object);
            text(event, "type").is_some() && has_data && event.get("properties").is_none()
        };
        while let Some(inner) = ["payload", "event", "data"]
            .iter()
            .filter(|_| event.get("properties").is_none() && !is_newer(event))
            .find_map(|name| event.get(*name).filter(|it| it.is_object()))
        {
            event = inner;
        }
        if is_newer(event) {
            return self.newer.read(event);
        }
        let Some(properties) = event.get("properties") else { return };
        let session = text(properties, "sessionID");
        match text(event, "type").unwrap_or("") {
            "session.created" | "session.updated" => self.read_session(properties.get("info")),
            "message.updated" => self.read_message(properties.get("info")),
            "message.part.updated" => self.read_part(properties.get("part")),
            "message.part.delta" => {
                if let (Some(part), Some("text"), Some(delta)) = (
                    text(properties, "partID"),
                    text(properties, "field"),
                    text(properties, "delta"),
                ) {
                    self.deltas.entry(part.to_owned()).or_default().push_str(delta);
                }
            }
            "message.part.removed" => {
                if let Some(id) = text(properties, "partID") {
                    let name = RecordName::new("part", id);
                    self.facts.remove(&name);
                    self.parts.values_mut().for_each(|parts| {
                        parts.remove(&name);
                    });
                }
            }
            "message.removed" => {
                if let Some(id) = text(properties, "messageID") {
                    self.subtract_totals(session.unwrap_or(""), id);
                    self.facts.remove(&RecordName::new("message", id));
                    for part in self.parts.remove(id).unwrap_or_default() {
                        self.facts.remove(&part);
                    }
                }
            }
            "session.status" => {
                let is_idle = properties.get("status").and_then(|it| text(it, "type"));
                self.note_activity(session, is_idle == Some("idle"));
            }
            "session.idle" => self.note_activity(session, true),
            "session.error" => {
                if let (Some(session), Some(error)) = (session, properties.get("error")) {
                    self.errors.push((session.to_owned(), error.clone()));
                }
            }
            "question.asked" => self.questions.ask(&mut self.facts, properties),
            "question.replied" => self.questions.reply(&mut self.facts, properties),
            kind if kind.starts_with("session.next.") => {
                self.next_texts.read(&mut self.facts, kind, event, properties);
            }
            _ => {}
        }
    }

    /// Subtracts a message that was removed from its session's totals, which the bus does not report
    /// again before the next message.
    fn subtract_totals(&mut self, session: &str, message: &str) {
        let (session, message) =
            (RecordName::new("session", session), RecordName::new("message", message));
        for field in TOTALS {
            let number =
                |name: &RecordName| self.facts.get(name, field)?.as_str().parse::<f64>().ok();
            if let (Some(total), Some(part)) = (number(&session), number(&message)) {
                let rest = ((total - part) * 1e9).round() / 1e9;
                let rest = match rest.fract() == 0.0 {
                    true => Value::from(rest as i64),
                    false => Value::from(rest),
                };
                self.facts.set(&session, field, &rest);
            }
        }
    }

    fn note_activity(&mut self, session: Option<&str>, is_idle: bool) {
        let Some(session) = session else { return };
        if is_idle {
            self.busy.remove(session);
        } else {
            self.busy.insert(session.to_owned());
        }
    }

    /// Reads a stored object, in any of its forms.
    fn read_stored(&mut self, record: &Value) {
        if self.read_newer(record) {
            return;
        }
        if let Some(Value::Array(messages)) = record.get("messages") {
            self.read_session(record.get("info"));
            self.check_order("message", messages.iter().map(|it| &it["info"]["id"]));
            messages.iter().for_each(|message| self.read_exchange(message));
        } else if record.get("parts").is_some() {
            self.read_exchange(record);
        } else if let (Some(table), Some(row)) = (text(record, "table"), record.get("row")) {
            self.read_row(table, row);
        } else if record.get("role").is_some() {
            self.read_message(Some(record));
        } else if record.get("messageID").is_some() {
            self.read_part(Some(record));
        } else if record.get("projectID").is_some() {
            self.read_session(Some(record));
        } else if let (Some(kind), Some(data)) = (text(record, "type"), record.get("data")) {
            // The log appends a version to the type.
            let kind = kind.trim_end_matches(|it: char| it.is_ascii_digit() || it == '.');
            let mut event = Map::new();
            event.insert("id".into(), record.get("id").cloned().unwrap_or_default());
            event.insert("type".into(), kind.into());
            event.insert("properties".into(), data.clone());
            self.read_event(&Value::Object(event));
        }
    }

    /// Reads a stored object of version 2. Returns whether it is one.
    fn read_newer(&mut self, record: &Value) -> bool {
        let is_wrapper = record.get("type").is_none() && record.get("table").is_none();
        match record.get("data").filter(|_| is_wrapper) {
            Some(Value::Array(messages)) => {
                // The API may answer with the latest message first.
                let created = |it: Option<&Value>| it?.get("time")?.get("created")?.as_u64();
                let is_reversed = created(messages.first()) > created(messages.last());
                let mut in_order: Vec<&Value> = messages.iter().collect();
                if is_reversed {
                    in_order.reverse();
                }
                return in_order.into_iter().all(|it| self.read_newer(it));
            }
            Some(inner @ Value::Object(_)) => return self.read_newer(inner),
            _ => {}
        }
        if let (Some("session_message"), Some(row)) = (text(record, "table"), record.get("row")) {
            self.read_message_row(row);
            return true;
        }
        if let Some(Value::Array(messages)) = record.get("messages") {
            let info = record.get("info");
            let is_newer = info.is_some_and(|it| it.get("location").is_some());
            if is_newer && messages.iter().all(|it| it.get("info").is_none()) {
                // An export names its session, whatever else its session lacks.
                if let Some((info, id)) = info.and_then(|it| Some((it, text(it, "id")?))) {
                    self.session = id.to_owned();
                    state_session(&mut self.facts, id, info);
                }
                for message in messages {
                    self.read_newer(message);
                }
                return true;
            }
            return false;
        }
        let Some(id) = text(record, "id") else { return false };
        if record.get("projectID").is_some() && record.get("location").is_some() {
            self.session = id.to_owned();
            state_session(&mut self.facts, id, record);
            return true;
        }
        let is_message = record.get("type").is_some() && record.get("sessionID").is_none();
        if is_message && id.starts_with("msg_") {
            let session = self.session.clone();
            state_message(&mut self.facts, id, &session, record);
            self.facts.orders.entry(session).or_default().push(id.to_owned());
            return true;
        }
        false
    }

    fn read_message_row(&mut self, row: &Value) {
        let mut message = match row.get("data") {
            Some(Value::String(text)) => serde_json::from_str(text).unwrap_or(Value::Null),
            Some(data) => data.clone(),
            None => Value::Null,
        };
        let (Some(id), Some(session)) = (text(row, "id"), text(row, "session_id")) else { return };
        if message.is_object() {
            message["id"] = id.into();
            message["type"] = row["type"].clone();
            state_message(&mut self.facts, id, session, &message);
        }
    }

    /// Checks that messages or parts are listed in the order of their ids, which ascend.
    fn check_order<'a>(&mut self, kind: &str, ids: impl Iterator<Item = &'a Value>) {
        let ids: Vec<&str> = ids.filter_map(Value::as_str).collect();
        for two in ids.windows(2).filter(|two| two[0] >= two[1]) {
            let record = RecordName::new(kind, two[1]);
            let (first, second) = (Json::string(two[0]), Json::string(two[1]));
            self.facts.contradict(&record, "order", first, second);
        }
    }

    fn read_exchange(&mut self, exchange: &Value) {
        self.read_message(exchange.get("info"));
        if let Some(Value::Array(parts)) = exchange.get("parts") {
            self.check_order("part", parts.iter().map(|it| &it["id"]));
            parts.iter().for_each(|part| self.read_part(Some(part)));
        }
    }

    /// Reads a row of the database: ids are columns, and missing in the JSON of the row.
    fn read_row(&mut self, table: &str, row: &Value) {
        if table == "session" {
            return self.read_session(Some(&session_of_row(row)));
        }
        let data = match row.get("data") {
            Some(Value::String(text)) => serde_json::from_str(text).unwrap_or(Value::Null),
            Some(data) => data.clone(),
            None => Value::Null,
        };
        let Value::Object(mut object) = data else { return };
        for (column, field) in
            [("id", "id"), ("session_id", "sessionID"), ("message_id", "messageID")]
        {
            if let Some(value) = row.get(column) {
                object.insert(field.into(), value.clone());
            }
        }
        match table {
            "message" => self.read_message(Some(&Value::Object(object))),
            "part" => self.read_part(Some(&Value::Object(object))),
            _ => {}
        }
    }

    fn read_session(&mut self, info: Option<&Value>) {
        let Some(id) = info.and_then(|info| text(info, "id")) else {
            let missing = Json::of(&Value::Null);
            let session = RecordName::new("session", "");
            return self.facts.contradict(&session, "id", missing.clone(), missing);
        };
        let info = info.unwrap_or(&Value::Null);
        self.facts.sessions.insert(id.to_owned());
        let is_root = info.get("parentID").is_none_or(Value::is_null);
        if let (true, Some(version)) = (is_root, text(info, "version")) {
            self.facts.version = Some(version.to_owned());
        }
        let name = RecordName::new("session", id);
        self.facts.replace(&name, info);
    }

    fn read_message(&mut self, info: Option<&Value>) {
        let Some((info, id)) = info.and_then(|info| Some((info, text(info, "id")?))) else {
            return;
        };
        if let Some(session) = text(info, "sessionID") {
            self.facts.sessions.insert(session.to_owned());
            if let Some(error) = info.get("error") {
                self.failed.insert(id.to_owned(), (session.to_owned(), error.clone()));
            }
        }
        self.replace(&RecordName::new("message", id), info);
    }

    /// Replaces an object by its present state; what it is never changes.
    fn replace(&mut self, name: &RecordName, object: &Value) {
        let fixed: Vec<_> = ["sessionID", "messageID", "role", "type", "callID", "parentID"]
            .into_iter()
            .filter_map(|field| Some((field, self.facts.get(name, field)?.clone())))
            .collect();
        self.facts.replace(name, object);
        for (field, before) in fixed {
            match self.facts.get(name, field).cloned() {
                Some(now) if now == before => {}
                now => {
                    let now = now.unwrap_or_else(|| Json::of(&Value::Null));
                    self.facts.contradict(name, field, before, now);
                }
            }
        }
    }

    fn read_part(&mut self, part: Option<&Value>) {
        let Some(part) = part else { return };
        let (Some(id), Some(message)) = (text(part, "id"), text(part, "messageID")) else { return };
        let name = RecordName::new("part", id);
        self.replace(&name, part);
        self.questions.state_call(&mut self.facts, part);
        self.parts.entry(message.to_owned()).or_default().insert(name);
    }

    /// Compares the text of a part with what was streamed of it.
    fn compare_deltas(&mut self, part: &RecordName) {
        let Some(shown) = self.deltas.get(&part.id) else { return };
        // Only a part that ended was completed; an abandoned one keeps what it began with.
        if self.facts.get(part, "time.end").is_none() {
            return;
        }
        let Some(text) = self.facts.get(part, "text").and_then(|json| json.to_text()) else {
            return;
        };
        // Up to 1.2 the end of a text is trimmed, and its deltas are not.
        if text.trim_end() != shown.trim_end() {
            let shown = Value::from(shown.as_str());
            self.facts.agree(part, "text", &shown);
        }
    }
}
