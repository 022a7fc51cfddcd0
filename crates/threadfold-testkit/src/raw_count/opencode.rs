//! The same count for what OpenCode says and keeps, in whichever form.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// What the raw records of OpenCode's sessions hold, counted without the converter.
#[derive(Debug, Default)]
pub struct OpencodeCount {
    /// Sessions that something was said in.
    pub sessions: BTreeSet<String>,
    /// The parent of each session that has one.
    pub parents: BTreeMap<String, String>,
    calls: BTreeMap<String, Call>,
}

/// A tool's part, as it was told last.
#[derive(Debug)]
struct Call {
    session: String,
    message: String,
    has_ended: bool,
}

impl OpencodeCount {
    /// Counts the records of a file.
    pub fn add(&mut self, bytes: &[u8]) {
        for record in records(bytes) {
            self.record(&record);
        }
    }

    /// Returns the names of a session's calls with its children's, and of those that have a
    /// result.
    pub fn of_root(&self, root: &str) -> (BTreeSet<String>, BTreeSet<String>) {
        let mut calls = BTreeSet::new();
        let mut results = BTreeSet::new();
        for (id, call) in self.calls.iter().filter(|(_, call)| self.root(&call.session) == root) {
            calls.insert(id.clone());
            if call.has_ended {
                results.insert(id.clone());
            }
        }
        (calls, results)
    }

    /// Returns the sessions that no other one made.
    pub fn roots(&self) -> BTreeSet<&str> {
        self.sessions.iter().map(|session| self.root(session)).collect()
    }

    fn root<'a>(&'a self, session: &'a str) -> &'a str {
        let mut top = session;
        for _ in 0..100 {
            match self.parents.get(top) {
                Some(parent) => top = parent,
                None => break,
            }
        }
        top
    }

    fn record(&mut self, record: &Value) {
        let record = bare(record);
        let kind = record["type"].as_str().unwrap_or("");
        let about = if record["properties"].is_object() { "properties" } else { "data" };
        let about = &record[about];
        let named = |key: &str| about[key].as_str().unwrap_or("").to_owned();
        if kind.starts_with("session.next.") {
            self.sessions.insert(named("sessionID"));
        }
        match kind.trim_end_matches(|it: char| it.is_ascii_digit() || it == '.') {
            "message.removed" => {
                let message = named("messageID");
                self.calls.retain(|_, call| call.message != message);
            }
            "message.part.removed" => {
                self.calls.remove(&named("partID"));
            }
            "session.next.tool.called" => self.call(named("callID"), about, false),
            "session.next.tool.success" | "session.next.tool.failed" => {
                self.call(named("callID"), about, true);
            }
            _ => self.look(record),
        }
    }

    /// Looks for sessions, messages and parts in a value, at any depth.
    fn look(&mut self, value: &Value) {
        if let (Some("part"), row) = (value["table"].as_str(), &value["row"]) {
            let mut part = match &row["data"] {
                Value::String(text) => serde_json::from_str(text).unwrap_or_default(),
                data => data.clone(),
            };
            for (name, column) in
                [("id", "id"), ("sessionID", "session_id"), ("messageID", "message_id")]
            {
                part[name] = row[column].clone();
            }
            return self.look(&part);
        }
        if let Some(id) = value["id"].as_str() {
            let is_session = value["projectID"].is_string() || value["project_id"].is_string();
            let parent = value["parentID"].as_str().or(value["parent_id"].as_str());
            if let (true, Some(parent)) = (is_session, parent) {
                self.parents.insert(id.to_owned(), parent.to_owned());
            }
            if let Some(session) = value["sessionID"].as_str() {
                self.sessions.insert(session.to_owned());
            }
            if value["type"] == "tool" && value["callID"].is_string() {
                self.tool(id, value);
                return;
            }
        }
        match value {
            Value::Array(list) => list.iter().for_each(|it| self.look(it)),
            Value::Object(fields) => fields.values().for_each(|it| self.look(it)),
            _ => {}
        }
    }

    fn tool(&mut self, id: &str, part: &Value) {
        let state = &part["state"];
        let session = part["sessionID"].as_str().unwrap_or("");
        if let (true, Some(child)) =
            (part["tool"] == "task", state["metadata"]["sessionId"].as_str())
        {
            self.parents.entry(child.to_owned()).or_insert_with(|| session.to_owned());
        }
        let has_ended = matches!(state["status"].as_str(), Some("completed" | "error"));
        self.call(id.to_owned(), part, has_ended);
    }

    fn call(&mut self, id: String, told: &Value, has_ended: bool) {
        let named = |key: &str| told[key].as_str().unwrap_or("").to_owned();
        let call = Call { session: named("sessionID"), message: named("messageID"), has_ended };
        self.sessions.insert(call.session.clone());
        self.calls.insert(id, call);
    }
}

/// Returns the records of a file: one a line, those of a list, or the one that it is.
pub fn records(bytes: &[u8]) -> Vec<Value> {
    match serde_json::from_slice(bytes) {
        Ok(Value::Array(list)) => list,
        Ok(one) => vec![one],
        Err(_) => bytes
            .split(|byte| *byte == b'\n')
            .filter_map(|line| {
                let data = line.strip_prefix(b"data:").unwrap_or(line);
                serde_json::from_slice(data).ok()
            })
            .collect(),
    }
}

/// Returns an event without what it is wrapped in.
pub fn bare(record: &Value) -> &Value {
    let inner = ["payload", "event", "data"].map(|key| &record[key]);
    let is_wrapper = !record["type"].is_string() && !record["table"].is_string();
    match inner.into_iter().find(|it| is_wrapper && it.is_object()) {
        Some(inner) => bare(inner),
        None => record,
    }
}
