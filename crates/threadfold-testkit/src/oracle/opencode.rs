//! What the records of OpenCode contain.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::shown::ShownContent;
use super::{ExpectedContent, Piece, spelling};
use crate::raw_count::newer::NewerRecords;
use crate::raw_count::opencode::{OpencodeCount, bare, records};
use crate::sessions_on_disk::SessionOnDisk;

/// The latest version of every message and part.
#[derive(Default)]
struct Latest {
    parts: BTreeMap<String, Value>,
    roles: BTreeMap<String, String>,
    /// The records of version 2.
    newer: NewerRecords,
}

/// Returns what the records of a session and its children contain.
pub(super) fn expected(
    session: &SessionOnDisk,
    root: &str,
    shown: &ShownContent,
) -> ExpectedContent {
    let mut count = OpencodeCount::default();
    let mut latest = Latest::default();
    for (_, bytes) in &session.files {
        count.add(bytes);
        for record in records(bytes) {
            if !latest.newer.read(bare(&record)) {
                latest.record(bare(&record));
            }
        }
    }
    latest.parts.append(&mut latest.newer.parts);
    let prompts = latest.newer.prompts.iter().map(|id| (id.clone(), "user".to_owned()));
    latest.roles.extend(prompts);
    let mut expected = ExpectedContent::default();
    for part in latest.parts.values() {
        let session = part["sessionID"].as_str().unwrap_or("");
        if count.root_of(session) != root {
            continue;
        }
        let place = if session == root { "main".to_owned() } else { shown.conversation(session) };
        let message = part["messageID"].as_str().unwrap_or("");
        let is_user = latest.roles.get(message).is_some_and(|role| role == "user");
        if let (true, Some(id)) = (is_user, part["id"].as_str()) {
            expected.persons.insert((place.clone(), id.to_owned()));
        }
        add_part(&mut expected, shown, &place, part, is_user);
    }
    expected
}

impl Latest {
    fn record(&mut self, record: &Value) {
        let kind = record["type"].as_str().unwrap_or("");
        let about = match &record["properties"] {
            Value::Null => &record["data"],
            about => about,
        };
        match kind.trim_end_matches(|it: char| it.is_ascii_digit() || it == '.') {
            "message.removed" => {
                let message = about["messageID"].clone();
                self.parts.retain(|_, part| part["messageID"] != message);
            }
            "message.part.removed" => {
                self.parts.remove(about["partID"].as_str().unwrap_or(""));
            }
            kind if kind.starts_with("session.next.") => self.next(kind, about),
            _ => self.look(record),
        }
    }

    /// Adds an event of the newer protocol as the part that it means.
    fn next(&mut self, kind: &str, about: &Value) {
        let message = about.get("assistantMessageID").unwrap_or(&about["messageID"]).clone();
        let text = |key: &str| about[key].as_str().unwrap_or("").to_owned();
        let mut part = json!({"sessionID": about["sessionID"], "messageID": message});
        let kind = kind.trim_start_matches("session.next.");
        let id = match kind {
            "prompted" => {
                self.roles.insert(text("messageID"), "user".to_owned());
                part["type"] = json!("text");
                part["text"] = about["prompt"]["text"].clone();
                text("messageID")
            }
            "text.ended" | "reasoning.ended" => {
                let (name, id) = match kind {
                    "text.ended" => ("text", text("textID")),
                    _ => ("reasoning", text("reasoningID")),
                };
                part["type"] = json!(name);
                part["text"] = about["text"].clone();
                part["time"] = json!({"end": 1});
                format!("{message}:{id}")
            }
            "tool.called" => {
                part["type"] = json!("tool");
                part["tool"] = about["tool"].clone();
                part["callID"] = about["callID"].clone();
                part["state"] = json!({"status": "running", "input": about["input"]});
                text("callID")
            }
            "tool.success" | "tool.failed" => {
                if let Some(call) = self.parts.get_mut(&text("callID")) {
                    let is_error = kind == "tool.failed";
                    call["state"]["status"] = json!(if is_error { "error" } else { "completed" });
                    call["state"]["output"] = about["content"].clone();
                    call["state"]["error"] = about["error"].clone();
                }
                return;
            }
            _ => return,
        };
        part["id"] = json!(id);
        self.parts.insert(id, part);
    }

    /// Searches a value for messages and parts, at any depth.
    fn look(&mut self, value: &Value) {
        if let (Some(table @ ("part" | "message")), row) = (value["table"].as_str(), &value["row"])
        {
            let mut object = match &row["data"] {
                Value::String(text) => serde_json::from_str(text).unwrap_or_default(),
                data => data.clone(),
            };
            object["id"] = row["id"].clone();
            object["sessionID"] = row["session_id"].clone();
            if table == "part" {
                object["messageID"] = row["message_id"].clone();
            }
            return self.look(&object);
        }
        if let (Some(id), Some(_)) = (value["id"].as_str(), value["sessionID"].as_str()) {
            if let Some(role) = value["role"].as_str() {
                self.roles.insert(id.to_owned(), role.to_owned());
            } else if value["messageID"].is_string() && value["type"].is_string() {
                self.parts.insert(id.to_owned(), value.clone());
                return;
            }
        }
        match value {
            Value::Array(list) => list.iter().for_each(|it| self.look(it)),
            Value::Object(fields) => fields.values().for_each(|it| self.look(it)),
            _ => {}
        }
    }
}

fn add_part(
    expected: &mut ExpectedContent,
    shown: &ShownContent,
    place: &str,
    part: &Value,
    is_user: bool,
) {
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let (id, message) = (text(&part["id"]), text(&part["messageID"]));
    let piece = |kind, name: &str, words: String| Piece {
        conversation: place.to_owned(),
        kind,
        name: name.to_owned(),
        words,
    };
    // A text without an end may be abandoned, and only the stream has its words.
    let has_ended = part["time"]["end"].is_number();
    match part["type"].as_str().unwrap_or("") {
        "text" if is_user => {
            let words = text(&part["text"]);
            match shown.texts.get(&(place.to_owned(), id.clone())) == Some(&words) {
                true => expected.matched += 1,
                false => expected.add(piece("user", &id, words)),
            }
        }
        "text" if has_ended => expected.add(piece("text", &message, text(&part["text"]))),
        "text" => expected.allow(piece("text", &message, text(&part["text"]))),
        "reasoning" => {
            let signature = text(&part["metadata"]["anthropic"]["signature"]);
            let thought =
                piece("thinking", &message, format!("{}\0{signature}", text(&part["text"])));
            if has_ended { expected.add(thought) } else { expected.allow(thought) }
        }
        "file" => {
            let (mime, url) = (text(&part["mime"]), text(&part["url"]));
            let kind = if mime.starts_with("image/") { "image" } else { "file" };
            expected.add(piece(kind, &id, format!("{mime}  {url}")));
        }
        "tool" => add_tool(expected, shown, part, &piece),
        _ => {}
    }
}

fn add_tool(
    expected: &mut ExpectedContent,
    shown: &ShownContent,
    part: &Value,
    piece: &dyn Fn(&'static str, &str, String) -> Piece,
) {
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let state = &part["state"];
    let call = part["callID"].as_str().map_or_else(|| text(&part["id"]), str::to_owned);
    let is_pending = state["status"] == "pending";
    let input = if is_pending { &Value::Null } else { &state["input"] };
    let words = format!("{} {}", text(&part["tool"]), spelling(input));
    let whole = piece("call", &call, words);
    let prompt = piece("agent-call", &call, text(&state["input"]["prompt"]));
    if (part["tool"] == "task" || part["tool"] == "subagent") && shown.pieces.contains_key(&prompt)
    {
        expected.add(prompt);
        // The agent wraps the answer in tags of its own.
        expected.free.insert(("agent-result", call));
        return;
    }
    expected.add(whole);
    match state["status"].as_str() {
        Some("completed") => {
            let output = spelling(&state["output"]);
            expected.add(piece("result", &call, format!("false {output}")));
            for file in state["attachments"].as_array().into_iter().flatten() {
                let words = format!("{}  {}", text(&file["mime"]), text(&file["url"]));
                expected.add(piece("attachment", &call, words));
            }
        }
        Some("error") => {
            let error = spelling(&state["error"]);
            expected.add(piece("result", &call, format!("true {error}")));
        }
        _ => {}
    }
}
