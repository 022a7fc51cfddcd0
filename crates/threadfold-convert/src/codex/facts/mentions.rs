//! Threads and turns that records mention: each is mentioned more than once, so that one that is
//! mentioned once is a corrupt id.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::parity::{Facts, RecordName};
use threadfold_core::Json;

/// How often each id of a kind is mentioned.
#[derive(Default)]
pub(super) struct Mentions {
    counts: BTreeMap<(&'static str, String), u32>,
}

impl Mentions {
    /// Reads the ids that a record mentions, at any depth.
    pub(super) fn read(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => {
                for (name, inner) in fields {
                    match (kind_of(name), inner.as_str()) {
                        (Some(kind), Some(id)) => self.add(kind, id),
                        _ => self.read(inner),
                    }
                }
                if let (Some(kind), Some(id)) = (kind_of_object(value), value["id"].as_str()) {
                    self.add(kind, id);
                    // Nothing else may happen in a thread that is announced.
                    if kind == "thread" {
                        self.add(kind, id);
                    }
                }
            }
            Value::Array(list) => list.iter().for_each(|it| self.read(it)),
            _ => {}
        }
    }

    fn add(&mut self, kind: &'static str, id: &str) {
        // The numbers of older versions are counted by each process.
        if id.len() > 20 {
            *self.counts.entry((kind, id.to_owned())).or_default() += 1;
        }
    }

    /// States that ids which are mentioned once are contradicted by all others.
    pub(super) fn finish(self, facts: &mut Facts) {
        for ((kind, id), _) in self.counts.into_iter().filter(|(_, count)| *count == 1) {
            let record = RecordName::new(kind, &id);
            facts.contradict(&record, "id", Json::string(&id), Json::of(&()));
        }
    }
}

fn kind_of(name: &str) -> Option<&'static str> {
    match name {
        "threadId" | "thread_id" | "conversationId" | "sessionId" | "session_id"
        | "senderThreadId" | "sender_thread_id" | "agentThreadId" | "agent_thread_id" => {
            Some("thread")
        }
        "turnId" | "turn_id" | "rootTurnId" | "root_turn_id" | "parent_turn_id" => Some("turn"),
        _ => None,
    }
}

/// Returns what an object is that has an id: a turn or a thread.
fn kind_of_object(object: &Value) -> Option<&'static str> {
    let has = |name: &str| object.get(name).is_some();
    match () {
        () if has("items") && has("status") => Some("turn"),
        () if has("cliVersion") || has("cli_version") => Some("thread"),
        () => None,
    }
}
