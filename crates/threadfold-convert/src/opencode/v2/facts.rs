//! Rebuilds the objects of OpenCode 2 from its events, so that they can be compared with the stored
//! ones, field by field.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::fact_steps;
use crate::parity::{Facts, RecordName};

/// The sessions and messages that events describe.
#[derive(Default)]
pub(in crate::opencode) struct EventFacts {
    sessions: BTreeMap<String, Value>,
    pub(super) messages: BTreeMap<String, MessageFacts>,
    inbox: BTreeMap<String, Value>,
    /// The message of each command and compaction that has not ended.
    begun: BTreeMap<String, String>,
    /// The text that was streamed of each text, thought and summary, until it ends.
    pub(super) deltas: BTreeMap<String, String>,
    /// Texts that ended as something else than was streamed: record, field, streamed, ended.
    pub(super) contradictions: Vec<(String, String, Value, Value)>,
    /// The message of the step that has not ended, by session.
    pub(super) open_steps: BTreeMap<String, String>,
    busy: BTreeMap<String, bool>,
    version: Option<String>,
}

/// A message, with the session and the number that it has there.
pub(super) struct MessageFacts {
    pub(super) session: String,
    seq: u64,
    pub(super) object: Value,
}

/// One event.
pub(super) struct FactEvent<'a> {
    pub(super) data: &'a Value,
    pub(super) created: &'a Value,
    pub(super) session: &'a str,
    own: String,
    seq: u64,
}

/// Returns an object without the fields that have no value.
pub(super) fn without_null(mut object: Value) -> Value {
    if let Value::Object(fields) = &mut object {
        fields.retain(|_, value| !value.is_null());
    }
    object
}

impl EventFacts {
    /// Reads one event.
    pub(in crate::opencode) fn read(&mut self, event: &Value) {
        let data = &event["data"];
        let form = &data["form"];
        let session = data["sessionID"].as_str().or(form["sessionID"].as_str());
        let (Some(kind), Some(session)) = (event["type"].as_str(), session) else { return };
        let id = event["id"].as_str().unwrap_or("");
        let read = FactEvent {
            data,
            created: &event["created"],
            session,
            own: id.replacen("evt_", "msg_", 1),
            seq: event["durable"]["seq"].as_u64().unwrap_or(u64::MAX),
        };
        let Some(rest) = kind.strip_prefix("session.") else { return };
        match rest.split('.').next().unwrap_or("") {
            "step" | "text" | "reasoning" | "tool" | "retry" => {
                fact_steps::read(self, rest, &read);
            }
            "execution" => self.read_execution(rest, &read),
            "inbox" => self.read_inbox(rest, &read),
            "compaction" => self.read_compaction(rest, &read),
            _ => self.read_session(rest, &read),
        }
        self.check_location(rest, session, event);
    }

    /// Checks that an event happened where its session is.
    fn check_location(&mut self, kind: &str, session: &str, event: &Value) {
        // What only the server does has no place, and a session that moves has two.
        let has_none = kind.starts_with("execution.") || kind == "usage.updated";
        let known = self.sessions.get(session).map(|it| &it["location"]);
        let is_checked = !has_none && kind != "moved";
        if let Some(known) = known.filter(|it| is_checked && **it != event["location"]) {
            let places = (known.clone(), event["location"].clone());
            let id = event["id"].as_str().unwrap_or("").to_owned();
            self.contradictions.push((id, "location".to_owned(), places.0, places.1));
        }
    }

    /// Creates a message, or creates it again with its number.
    pub(super) fn create(&mut self, id: &str, event: &FactEvent<'_>, object: Value) {
        let seq = self.messages.get(id).map_or(event.seq, |known| known.seq);
        let mut object = without_null(object);
        object["id"] = id.into();
        let session = event.session.to_owned();
        self.messages.insert(id.to_owned(), MessageFacts { session, seq, object });
    }

    /// Begins the step of a message. A step that a crash cut off is completed when the next one begins.
    pub(super) fn close_step(&mut self, id: &str, event: &FactEvent<'_>) {
        let before = self.open_steps.insert(event.session.to_owned(), id.to_owned());
        let before = before.filter(|before| before != id);
        if let Some(message) = before.and_then(|before| self.messages.get_mut(&before)) {
            message.object["time"]["completed"] = event.created.clone();
        }
    }

    fn change_session(&mut self, event: &FactEvent<'_>, field: &str, value: &Value) {
        if let Some(session) = self.sessions.get_mut(event.session) {
            session[field] = value.clone();
        }
    }

    fn read_session(&mut self, kind: &str, event: &FactEvent<'_>) {
        let (data, time) = (event.data, json!({"created": event.created}));
        match kind {
            "created" => {
                self.version = data["version"].as_str().map(str::to_owned).or(self.version.take());
                let session = json!({
                    "id": event.session, "projectID": data["projectID"],
                    "parentID": data["parentID"], "title": data["title"],
                    "location": data["location"], "agent": data["agent"],
                    "model": data["model"], "metadata": data["metadata"],
                    "permissions": data["permissions"],
                    "subpath": data["subpath"].as_str().filter(|it| !it.is_empty()),
                    "time": time, "cost": 0, "tokens": no_tokens(),
                });
                self.sessions.insert(event.session.to_owned(), without_null(session));
            }
            "forked" => self.fork(event),
            "renamed" => self.change_session(event, "title", &data["title"]),
            "metadata.updated" => self.change_session(event, "metadata", &data["metadata"]),
            "permissions" => self.change_session(event, "permissions", &data["permissions"]),
            "moved" => self.change_session(event, "location", &data["location"]),
            "usage.updated" => {
                self.change_session(event, "cost", &data["cost"]);
                self.change_session(event, "tokens", &data["tokens"]);
            }
            "agent.selected" => {
                self.change_session(event, "agent", &data["agent"]);
                self.create(
                    &event.own,
                    event,
                    json!({"type": "agent-switched", "agent": data["agent"],
                        "previous": data["previous"], "time": time}),
                );
            }
            "model.selected" => {
                self.change_session(event, "model", &data["model"]);
                self.create(
                    &event.own,
                    event,
                    json!({"type": "model-switched", "model": data["model"],
                        "previous": data["previous"], "time": time}),
                );
            }
            "synthetic" => self.create(
                &event.own,
                event,
                json!({"type": "synthetic", "text": data["text"],
                    "description": data["description"], "metadata": data["metadata"],
                    "time": time}),
            ),
            "skill.activated" => self.create(
                &event.own,
                event,
                json!({"type": "skill", "skill": data["id"], "name": data["name"],
                    "text": data["text"], "time": time}),
            ),
            "shell.started" | "shell.ended" => self.read_shell(event),
            "revert.staged" => self.change_session(event, "revert", &data["revert"]),
            "revert.cleared" | "revert.committed" => {
                if let Some(Value::Object(session)) = self.sessions.get_mut(event.session) {
                    session.remove("revert");
                }
                let to = data["to"].as_str().and_then(|to| self.messages.get(to));
                if let Some(first) = to.map(|it| it.seq) {
                    self.messages.retain(|_, it| it.session != event.session || it.seq < first);
                }
            }
            _ => {}
        }
    }

    fn read_execution(&mut self, kind: &str, event: &FactEvent<'_>) {
        let outcome = kind.strip_prefix("execution.").unwrap_or("");
        self.busy.insert(event.session.to_owned(), outcome == "started");
        if outcome == "started" {
            return;
        }
        let time = json!({"created": event.created});
        self.create(&event.own, event, json!({"type": "idle", "outcome": outcome, "time": time}));
        self.change_session(event, "outcome", &outcome.into());
        if let Some(session) = self.sessions.get_mut(event.session) {
            session["time"]["idle"] = event.created.clone();
        }
    }

    fn read_inbox(&mut self, kind: &str, event: &FactEvent<'_>) {
        let Some(id) = event.data["inboxID"].as_str() else { return };
        match kind {
            "inbox.enqueued" => {
                self.inbox.insert(id.to_owned(), event.data["item"].clone());
            }
            "inbox.delivered" => {
                let Some(item) = self.inbox.remove(id) else { return };
                let kind = item["type"].as_str().unwrap_or("");
                if !matches!(kind, "user" | "synthetic") {
                    return;
                }
                let mut message = match &item["payload"] {
                    Value::Object(payload) => payload.clone(),
                    _ => Map::new(),
                };
                message.insert("type".into(), kind.into());
                message.insert("time".into(), json!({"created": event.created}));
                self.create(id, event, Value::Object(message));
            }
            "inbox.cancelled" => {
                self.inbox.remove(id);
            }
            _ => {}
        }
    }

    fn read_compaction(&mut self, kind: &str, event: &FactEvent<'_>) {
        let (data, key) = (event.data, format!("compaction {}", event.session));
        if kind == "compaction.delta" {
            let text = data["text"].as_str().unwrap_or("");
            self.deltas.entry(key).or_default().push_str(text);
            return;
        }
        if kind == "compaction.started" {
            let id = data["inputID"].as_str().unwrap_or(&event.own).to_owned();
            let time = json!({"created": event.created});
            self.begun.insert(key, id.clone());
            let object = json!({"type": "compaction", "status": "running",
                "reason": data["reason"], "summary": "", "recent": data["recent"], "time": time});
            return self.create(&id, event, object);
        }
        let id = self.begun.remove(&key).unwrap_or_else(|| event.own.clone());
        let known = self.messages.get(&id);
        let time = known.map_or(json!({"created": event.created}), |it| it.object["time"].clone());
        if kind == "compaction.ended" {
            self.end_text(&key, (&id, "summary"), data["text"].as_str().unwrap_or(""));
            let object = json!({"type": "compaction", "status": "completed",
                "reason": data["reason"], "model": data["model"], "summary": data["text"],
                "recent": data["recent"], "cost": data["cost"], "tokens": data["tokens"],
                "time": time});
            return self.create(&id, event, object);
        }
        let object = json!({"type": "compaction", "status": "failed", "reason": data["reason"],
            "error": data["error"], "cost": data["cost"], "tokens": data["tokens"], "time": time});
        self.create(&id, event, object);
    }

    fn read_shell(&mut self, event: &FactEvent<'_>) {
        let shell = &event.data["shell"];
        let key = format!("shell {}", shell["id"].as_str().unwrap_or(""));
        let id = self.begun.get(&key).cloned().unwrap_or_else(|| event.own.clone());
        let known = self.messages.get(&id).map(|it| it.object["time"]["created"].clone());
        let completed = known.is_some().then(|| event.created.clone());
        let mut metadata = shell["metadata"].clone();
        if let Value::Object(fields) = &mut metadata {
            fields.remove("sessionID");
        }
        let created = known.unwrap_or_else(|| event.created.clone());
        let object = json!({"type": "shell", "shellID": shell["id"],
            "command": shell["command"], "status": shell["status"], "exit": shell["exit"],
            "output": event.data["output"], "metadata": metadata,
            "time": without_null(json!({"created": created, "completed": completed}))});
        self.create(&id, event, object);
        self.begun.insert(key, id);
    }

    /// Copies a session: its messages get other ids, and its totals begin at zero.
    fn fork(&mut self, event: &FactEvent<'_>) {
        let (source, boundary) = (&event.data["parentID"], &event.data["boundary"]);
        let Some(mut session) = source.as_str().and_then(|it| self.sessions.get(it)).cloned()
        else {
            return;
        };
        session["id"] = event.session.into();
        session["fork"] = json!({"sessionID": source, "boundary": boundary});
        session["cost"] = 0.into();
        session["tokens"] = no_tokens();
        session["time"] = json!({"created": event.created});
        if let Value::Object(fields) = &mut session {
            fields.remove("outcome");
        }
        if let Some(title) = session["title"].as_str() {
            session["title"] = fork_title(title).into();
        }
        self.sessions.insert(event.session.to_owned(), session);
        let last = boundary["messageID"].as_str().and_then(|it| self.messages.get(it));
        let last = last.map_or(u64::MAX, |it| it.seq);
        let copied = self.messages.values().filter(|it| source == &it.session && it.seq <= last);
        let copied: Vec<_> = copied.map(|it| (it.seq, it.object.clone())).collect();
        for (seq, object) in copied {
            let copy = FactEvent { own: String::new(), seq, ..*event };
            self.create(&format!("{}_{seq}", event.own), &copy, object);
        }
    }

    /// Ends a text: what was streamed of it must be the whole.
    pub(super) fn end_text(&mut self, key: &str, (id, field): (&str, &str), text: &str) {
        if let Some(streamed) = self.deltas.remove(key)
            && streamed != text
        {
            let values = (Value::from(streamed), Value::from(text));
            self.contradictions.push((id.to_owned(), field.to_owned(), values.0, values.1));
        }
    }

    /// Adds everything to the facts.
    pub(in crate::opencode) fn finish(self, facts: &mut Facts) {
        if self.sessions.is_empty() && self.messages.is_empty() {
            return;
        }
        facts.version = facts.version.take().or(self.version);
        facts.has_ended = !self.busy.values().any(|is_busy| *is_busy);
        for (id, session) in &self.sessions {
            state_session(facts, id, session);
        }
        let mut numbered: Vec<_> = self.messages.iter().collect();
        numbered.sort_by_key(|(_, message)| message.seq);
        // A stream without numbers does not show in which order messages were created.
        let has_numbers = numbered.iter().all(|(_, message)| message.seq < u64::MAX);
        for (id, message) in numbered {
            state_message(facts, id, &message.session, &message.object);
            if has_numbers {
                let order = facts.orders.entry(message.session.clone()).or_default();
                order.push(id.clone());
            }
        }
        for (id, field, first, second) in &self.contradictions {
            let (first, second) =
                (threadfold_core::Json::of(first), threadfold_core::Json::of(second));
            facts.contradict(&RecordName::new("message", id), field, first, second);
        }
    }
}

/// States a session. Its record has a name of its own, because version 1 stores other fields of it.
pub(in crate::opencode) fn state_session(facts: &mut Facts, id: &str, session: &Value) {
    facts.sessions.insert(id.to_owned());
    facts.replace(&RecordName::new("v2/session", id), session);
}

/// States a message. No message names its session.
pub(in crate::opencode) fn state_message(
    facts: &mut Facts,
    id: &str,
    session: &str,
    message: &Value,
) {
    facts.sessions.insert(session.to_owned());
    let mut message = message.clone();
    message["sessionID"] = session.into();
    facts.replace(&RecordName::new("message", id), &message);
}

fn no_tokens() -> Value {
    json!({"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}})
}

/// Returns the title of a copy: a number counts the copies of copies.
fn fork_title(title: &str) -> String {
    let copied = title.strip_suffix(')').and_then(|it| it.rsplit_once(" (fork #"));
    let numbered = copied.and_then(|(title, number)| Some((title, number.parse::<u64>().ok()?)));
    match numbered {
        Some((title, number)) => format!("{title} (fork #{})", number + 1),
        None => format!("{title} (fork #1)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns when the first of two messages was completed, with these events between their steps.
    fn completed(between: &[Value]) -> Value {
        let step = |message: &str, created: u64| {
            json!({"type": "session.step.started", "created": created, "data": {
                "sessionID": "s", "assistantMessageID": message, "started": created}})
        };
        let mut facts = EventFacts::default();
        let (first, last) = (step("m1", 1), step("m2", 9));
        for event in std::iter::once(&first).chain(between).chain([&last]) {
            facts.read(event);
        }
        assert!(facts.messages["m2"].object["time"]["completed"].is_null());
        facts.messages["m1"].object["time"]["completed"].clone()
    }

    #[test]
    fn a_step_that_a_crash_cut_off_is_completed_when_the_next_one_begins() {
        assert_eq!(completed(&[]), 9);
        let end = |kind: &str| {
            json!({"type": format!("session.step.{kind}"), "created": 5, "data": {
                "sessionID": "s", "assistantMessageID": "m1"}})
        };
        assert_eq!(completed(&[end("ended")]), 5);
        assert_eq!(completed(&[end("failed")]), 5);
    }
}
