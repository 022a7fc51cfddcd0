//! The same count for OpenCode's records, in any format.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::newer::NewerRecords;

/// Counts of the raw records of OpenCode's sessions, made without the converter.
#[derive(Debug, Default)]
pub struct OpencodeCount {
    /// Sessions with any content.
    pub sessions: BTreeSet<String>,
    /// The parent of each session that has one.
    pub parents: BTreeMap<String, String>,
    calls: BTreeMap<String, Call>,
    /// The records of version 2.
    newer: NewerRecords,
}

/// The latest version of a tool's part.
#[derive(Debug)]
struct Call {
    session: String,
    message: String,
    has_ended: bool,
    /// It is of version 2.
    is_newer: bool,
}

impl OpencodeCount {
    /// Counts the records of a file.
    pub fn add(&mut self, bytes: &[u8]) {
        for record in records(bytes) {
            if !self.newer.read(bare(&record)) {
                self.record(&record);
            }
        }
        self.sessions.extend(self.newer.sessions.iter().cloned());
        self.parents.extend(self.newer.parents.clone());
        self.calls.retain(|_, call| !call.is_newer);
        let calls = self.newer.parts.iter().filter(|(_, part)| part["type"] == "tool");
        self.calls.extend(calls.map(|(id, part)| {
            let named = |key: &str| part[key].as_str().unwrap_or("").to_owned();
            let has_ended = matches!(part["state"]["status"].as_str(), Some("completed" | "error"));
            let (session, message) = (named("sessionID"), named("messageID"));
            (id.clone(), Call { session, message, has_ended, is_newer: true })
        }));
    }

    /// Returns the ids of the calls of a session and its children, and of those that have a
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

    /// Returns the sessions without a parent.
    pub fn roots(&self) -> BTreeSet<&str> {
        self.sessions.iter().map(|session| self.root(session)).collect()
    }

    /// Returns the session without a parent that a session belongs to.
    pub fn root_of<'a>(&'a self, session: &'a str) -> &'a str {
        self.root(session)
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

    /// Searches a value for sessions, messages and parts, at any depth.
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
        let (session, message) = (named("sessionID"), named("messageID"));
        let call = Call { session, message, has_ended, is_newer: false };
        self.sessions.insert(call.session.clone());
        self.calls.insert(id, call);
    }
}

/// Returns the records of a file: its lines, the items of its list, or the whole file.
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

/// Returns an event without its wrapper.
pub fn bare(record: &Value) -> &Value {
    let inner = ["payload", "event", "data"].map(|key| &record[key]);
    let is_wrapper = !record["type"].is_string() && !record["table"].is_string();
    match inner.into_iter().find(|it| is_wrapper && it.is_object()) {
        Some(inner) => bare(inner),
        None => record,
    }
}
