//! The records of OpenCode 2 as parts like those of version 1, made without the converter.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// The latest version of everything that the records of OpenCode 2 contain.
#[derive(Debug, Default)]
pub struct NewerRecords {
    /// Texts, thoughts, calls and prompts, by the id of their block.
    pub parts: BTreeMap<String, Value>,
    /// The messages that a person wrote.
    pub prompts: BTreeSet<String>,
    /// Sessions with any content.
    pub sessions: BTreeSet<String>,
    /// The parent of each session that has one.
    pub parents: BTreeMap<String, String>,
    /// The session that the last stored record named.
    session: String,
    /// Messages in the order of their creation.
    order: Vec<(String, String)>,
    /// What waits in an inbox.
    inbox: BTreeMap<String, Value>,
    /// The message of each command that a person typed.
    shells: BTreeMap<String, String>,
}

impl NewerRecords {
    /// Reads a record. Returns whether it is one of version 2.
    pub fn read(&mut self, record: &Value) -> bool {
        let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
        if let (Some(table), row) = (record["table"].as_str(), &record["row"]) {
            match table {
                "session_v2" => self.add_session(&row["id"], &row["parent_id"]),
                "session_message" => {
                    let mut message = match &row["data"] {
                        Value::String(text) => serde_json::from_str(text).unwrap_or_default(),
                        data => data.clone(),
                    };
                    message["id"] = row["id"].clone();
                    message["type"] = row["type"].clone();
                    self.add_message(&text(&row["session_id"]), &message);
                }
                _ => {}
            }
            return matches!(
                table,
                "session_v2" | "session_message" | "session_inbox" | "event_sequence"
            );
        }
        let info = &record["info"];
        if let (Some(messages), true) = (record["messages"].as_array(), has_location(info)) {
            self.add_session(&info["id"], &info["parentID"]);
            let session = self.session.clone();
            messages.iter().for_each(|message| self.add_message(&session, message));
            return true;
        }
        if has_location(record) && record["id"].is_string() {
            self.add_session(&record["id"], &record["parentID"]);
            return true;
        }
        let is_message = text(&record["id"]).starts_with("msg_") && record["type"].is_string();
        if is_message && record["time"].is_object() && record["sessionID"].is_null() {
            let session = self.session.clone();
            self.add_message(&session, record);
            return true;
        }
        let kind = record["type"].as_str().unwrap_or("");
        let is_event = record["data"].is_object() && record["aggregate_id"].is_null();
        let is_newer = ["session.", "permission.", "form.", "shell."]
            .iter()
            .any(|family| kind.starts_with(family));
        if !is_event || !is_newer || kind.starts_with("session.next.") {
            return false;
        }
        self.add_event(kind.trim_start_matches("session."), record);
        true
    }

    fn add_session(&mut self, id: &Value, parent: &Value) {
        self.session = id.as_str().unwrap_or("").to_owned();
        if let Some(parent) = parent.as_str() {
            self.parents.insert(self.session.clone(), parent.to_owned());
        }
    }

    fn add_part(&mut self, session: &str, message: &str, id: &str, mut part: Value) {
        part["id"] = json!(id);
        part["sessionID"] = json!(session);
        part["messageID"] = json!(message);
        self.sessions.insert(session.to_owned());
        let place = (session.to_owned(), message.to_owned());
        if !self.order.contains(&place) {
            self.order.push(place);
        }
        self.parts.insert(id.to_owned(), part);
    }

    fn add_message(&mut self, session: &str, message: &Value) {
        let id = message["id"].as_str().unwrap_or("").to_owned();
        self.sessions.insert(session.to_owned());
        match message["type"].as_str().unwrap_or("") {
            "user" => self.add_prompt(session, &id, &message["text"]),
            "shell" => {
                let (shell, output) = (&message["shellID"], &message["output"]["output"]);
                let status = &message["status"];
                let part = typed(shell, &message["command"], status, &message["exit"], output);
                self.add_part(session, &id, &id, part);
            }
            "assistant" => {
                let mut ordinals: BTreeMap<String, usize> = BTreeMap::new();
                for item in message["content"].as_array().into_iter().flatten() {
                    let kind = item["type"].as_str().unwrap_or("").to_owned();
                    if kind == "tool" {
                        let call = item["id"].as_str().unwrap_or("");
                        let state = &item["state"];
                        let part = tool(&item["name"], call, state);
                        self.add_part(session, &id, &format!("{id}:{call}"), part);
                        continue;
                    }
                    let ordinal = ordinals.entry(kind.clone()).or_default();
                    let block = format!("{id}:{kind}:{ordinal}");
                    *ordinal += 1;
                    if item["text"] != "" {
                        self.add_part(session, &id, &block, ended(&kind, item));
                    }
                }
            }
            _ => {}
        }
    }

    fn add_prompt(&mut self, session: &str, id: &str, text: &Value) {
        self.prompts.insert(id.to_owned());
        self.add_part(session, id, id, json!({"type": "text", "text": text, "time": {"end": 1}}));
    }

    fn add_event(&mut self, kind: &str, event: &Value) {
        let data = &event["data"];
        let text = |key: &str| data[key].as_str().unwrap_or("").to_owned();
        let (session, message) = (text("sessionID"), text("assistantMessageID"));
        let call = format!("{message}:{}", text("id"));
        match kind {
            "created" => self.add_session(&data["sessionID"], &data["parentID"]),
            "inbox.enqueued" => {
                self.inbox.insert(text("inboxID"), data["item"].clone());
                if data["item"]["type"] == "user" {
                    let prompt = &data["item"]["payload"]["text"];
                    self.add_prompt(&session, &text("inboxID"), prompt);
                }
            }
            "inbox.delivered" => {
                // A message has its place from now on.
                let place = (session, text("inboxID"));
                self.order.retain(|it| *it != place);
                self.order.push(place);
            }
            "inbox.cancelled" => {
                self.parts.remove(&text("inboxID"));
            }
            "text.ended" | "reasoning.ended" => {
                let kind = kind.trim_end_matches(".ended");
                let id = format!("{message}:{kind}:{}", data["ordinal"]);
                if data["text"] != "" {
                    self.add_part(&session, &message, &id, ended(kind, data));
                }
            }
            "tool.input.started" => {
                let state = json!({"status": "streaming"});
                let part = tool(&data["name"], &text("id"), &state);
                self.add_part(&session, &message, &call, part);
            }
            "tool.called" | "tool.success" | "tool.failed" => {
                let Some(mut part) = self.parts.get(&call).cloned() else { return };
                match kind {
                    "tool.called" => {
                        part["state"] = json!({"status": "running", "input": data["input"]})
                    }
                    _ => {
                        let state = json!({
                            "status": if kind == "tool.success" { "completed" } else { "error" },
                            "input": match &part["state"]["input"] {
                                Value::Null => json!({}),
                                input => input.clone(),
                            },
                            "content": data["content"], "error": data["error"]});
                        part = tool(&part["tool"], &text("id"), &state);
                    }
                }
                self.add_part(&session, &message, &call, part);
            }
            "shell.started" | "shell.ended" => {
                let shell = &data["shell"];
                let own = event["id"].as_str().unwrap_or("").replacen("evt_", "msg_", 1);
                let key = shell["id"].as_str().unwrap_or("").to_owned();
                let id = self.shells.entry(key).or_insert(own).clone();
                let output = &data["output"]["output"];
                let (status, exit) = (&shell["status"], &shell["exit"]);
                let part = typed(&shell["id"], &shell["command"], status, exit, output);
                self.add_part(&session, &id, &id, part);
            }
            "revert.committed" => {
                let first = (session.clone(), text("to"));
                let Some(first) = self.order.iter().position(|it| *it == first) else { return };
                let gone: Vec<_> =
                    self.order[first..].iter().filter(|it| it.0 == session).cloned().collect();
                self.order.retain(|it| !gone.contains(it));
                self.parts.retain(|_, part| {
                    !gone.iter().any(|(_, message)| part["messageID"] == **message)
                });
            }
            _ => {}
        }
    }
}

fn has_location(value: &Value) -> bool {
    value["location"].is_object() && value["projectID"].is_string()
}

fn ended(kind: &str, item: &Value) -> Value {
    let metadata = json!({"anthropic": {"signature": item["state"]["signature"]}});
    json!({"type": kind, "text": item["text"], "time": {"end": 1}, "metadata": metadata})
}

fn tool(name: &Value, call: &str, state: &Value) -> Value {
    let status = match state["status"].as_str() {
        Some("streaming") => "pending",
        Some(status) => status,
        None => "",
    };
    json!({"type": "tool", "tool": name, "callID": call, "state": {"status": status,
        "input": state["input"], "output": state["content"],
        "error": state["error"]["message"]}})
}

fn typed(shell: &Value, command: &Value, status: &Value, exit: &Value, output: &Value) -> Value {
    let status = match status.as_str() {
        Some("running") => "running",
        Some("exited") if *exit == 0 => "completed",
        _ => "error",
    };
    json!({"type": "tool", "tool": "shell", "callID": shell, "state": {"status": status,
        "input": {"command": command}, "output": output, "error": output}})
}
