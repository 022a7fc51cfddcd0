//! What `codex exec` prints: its items are numbered, and are found in the file by their content.

use std::collections::BTreeMap;

use serde_json::Value;
use threadfold_core::Json;

use super::live::check_outcome;
use super::{contents, kinds, text};
use crate::parity::{Facts, RecordName};

/// What an item has from its beginning on, if it is there at all.
const REPEATED: [&str; 7] =
    ["arguments", "command", "prompt", "sender_thread_id", "server", "tool", "type"];

/// What a process printed so far.
#[derive(Default)]
pub(super) struct PrintedFacts {
    has_thread: bool,
    is_in_turn: bool,
    /// The items of the process, as they began.
    items: BTreeMap<String, Value>,
    thread: String,
    /// The last error of the turn, apart from those after which the agent tried again.
    error: Option<String>,
}

impl PrintedFacts {
    /// Reads a line.
    pub(super) fn read(&mut self, facts: &mut Facts, line: &Value) {
        let kind = text(line, "type").unwrap_or("");
        let mut wrong = |field: &str, value: &Value| {
            let record = RecordName::new("line", "");
            facts.contradict(&record, field, Json::of(value), Json::of(&()));
        };
        if !kinds::is_printed(kind) {
            wrong("type", &line["type"]);
        }
        let item = &line["item"];
        // Warnings may precede the turn.
        let is_warning = text(item, "type") == Some("error");
        match kind {
            "thread.started" => {
                *self = Self { has_thread: true, ..Self::default() };
                self.thread = text(line, "thread_id").unwrap_or("").to_owned();
            }
            "turn.started" => {
                // One version prints that the turn of a subagent begins, too.
                if !self.has_thread {
                    wrong("turn.started", line);
                }
                self.is_in_turn = true;
            }
            "error" => {
                let message = text(line, "message").filter(|it| !it.starts_with("Reconnecting"));
                self.error = message.map(str::to_owned);
            }
            "turn.completed" | "turn.failed" => {
                // The end of a turn that failed repeats its error.
                let repeated = text(&line["error"], "message");
                if self.error.take().is_some_and(|it| Some(it.as_str()) != repeated) {
                    wrong("error.message", &line["error"]["message"]);
                }
                if !self.is_in_turn {
                    wrong(kind, line);
                }
                self.is_in_turn = false;
            }
            _ if !self.has_thread || (!self.is_in_turn && !is_warning) => {
                wrong(kind, line);
            }
            _ => {}
        }
        if item.is_object() {
            self.read_item(facts, kind, item);
        }
    }

    /// Checks the end of the stream: an error without another attempt ends the turn.
    pub(super) fn finish(self, facts: &mut Facts) {
        if let Some(error) = self.error.filter(|_| self.is_in_turn) {
            let record = RecordName::new("line", "");
            facts.contradict(&record, "turn.failed", Json::string(&error), Json::of(&()));
        }
    }

    fn read_item(&mut self, facts: &mut Facts, kind: &str, item: &Value) {
        let id = text(item, "id").unwrap_or("");
        // A search has its own id beside its number.
        let is_search = text(item, "type") == Some("web_search");
        if let Some(begun) = self.items.get(id) {
            for name in REPEATED {
                let value = begun.get(name).filter(|it| !it.is_null() && **it != "");
                if let Some(value) = value.filter(|it| item.get(name) != Some(it)) {
                    let record = RecordName::new("item", id);
                    facts.contradict(&record, name, Json::of(value), Json::of(&item[name]));
                }
            }
        } else {
            let expected = format!("item_{}", self.items.len());
            if id != expected && !is_search {
                let record = RecordName::new("line", "");
                facts.contradict(&record, "item.id", Json::string(id), Json::string(&expected));
            }
            self.items.insert(id.to_owned(), item.clone());
        }
        if kind == "item.completed" {
            check_outcome(facts, id, item);
            contents::state_printed(facts, item, &self.thread);
        }
    }
}
