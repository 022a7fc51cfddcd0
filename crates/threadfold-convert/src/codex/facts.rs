//! States what Codex's records say, field by field.

use std::collections::BTreeSet;

use serde_json::Value;

use super::wire::with_underscores;
use crate::parity::{FactReader, Facts, RecordName};
use crate::record::{FeedKind, FeedLine};

/// Returns a reader of facts.
pub(super) fn reader() -> Box<dyn FactReader> {
    Box::<Reader>::default()
}

#[derive(Default)]
struct Reader {
    facts: Facts,
    /// Calls that have no output yet: those of one response of the model.
    together: BTreeSet<String>,
    open_turns: BTreeSet<String>,
    /// The main thread.
    thread: String,
}

/// What both live views of an item and the file's have, in both spellings.
const SHARED: [(&str, &str); 8] = [
    ("processId", "process_id"),
    ("cwd", "cwd"),
    ("source", "source"),
    ("phase", "phase"),
    ("model", "model"),
    ("reasoningEffort", "reasoning_effort"),
    ("senderThreadId", "sender_thread_id"),
    ("query", "query"),
];

impl FactReader for Reader {
    fn push(&mut self, line: &FeedLine<'_>) {
        let Ok(record) = serde_json::from_slice::<Value>(line.bytes) else { return };
        match line.feed.is_stream() {
            true => self.read_streamed(&record),
            false => {
                let subagent = match &line.feed.kind {
                    FeedKind::Subagent(thread) => Some(thread.as_str()),
                    _ => None,
                };
                self.read_stored(subagent, &record);
            }
        }
    }

    fn finish(mut self: Box<Self>) -> Facts {
        self.note_parallel();
        self.facts.has_ended = self.open_turns.is_empty();
        self.facts
    }
}

fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name)?.as_str()
}

impl Reader {
    fn read_streamed(&mut self, record: &Value) {
        let message = record.get("msg").unwrap_or(record);
        let params = &message["params"];
        let thread = text(params, "threadId").unwrap_or("").to_owned();
        match text(message, "method").or_else(|| text(record, "type")).unwrap_or("") {
            "turn/started" | "turn.started" => {
                self.open_turns.insert(thread);
            }
            "turn/completed" | "turn.completed" | "turn.failed" => {
                self.open_turns.remove(&thread);
            }
            "thread.started" => {
                self.thread = text(record, "thread_id").unwrap_or("").to_owned();
            }
            _ => {}
        }
        match text(message, "method").or_else(|| text(record, "type")).unwrap_or("") {
            "item/completed" => self.state_item(&params["item"]),
            "thread/tokenUsage/updated" => {
                let thread = text(params, "threadId").unwrap_or("").to_owned();
                self.state_usage(&thread, &params["tokenUsage"]["total"]);
            }
            "turn.completed" => {
                let thread = self.thread.clone();
                self.state_usage(&thread, &record["usage"]);
            }
            _ => {}
        }
    }

    /// States what an item says beyond its block.
    fn state_item(&mut self, item: &Value) {
        let Some(id) = text(item, "id") else { return };
        let record = RecordName::new("item", id);
        for (name, stored) in SHARED {
            let value = [name, stored].iter().find_map(|it| item.get(*it));
            let Some(value) = value.filter(|it| !it.is_null()) else { continue };
            let value = match value.as_str() {
                // A file has a folder as a URL.
                Some(folder) if name == "cwd" => {
                    Value::from(folder.strip_prefix("file://").unwrap_or(folder))
                }
                Some(source) if name == "source" => Value::from(with_underscores(source)),
                _ => value.clone(),
            };
            self.facts.set(&record, name, &value);
        }
    }

    /// States the tokens of a thread; the last report counts.
    fn state_usage(&mut self, thread: &str, usage: &Value) {
        let record = RecordName::new("usage", thread);
        let names = [
            ("inputTokens", "input_tokens"),
            ("cachedInputTokens", "cached_input_tokens"),
            ("outputTokens", "output_tokens"),
        ];
        let counts = names.map(|(name, stored)| {
            let count = usage.get(name).or_else(|| usage.get(stored)).and_then(Value::as_u64);
            (name, count.unwrap_or(0))
        });
        // After a review, `codex exec` reports nothing but zeros.
        if counts.iter().any(|(_, count)| *count > 0) {
            for (name, count) in counts {
                self.facts.set(&record, name, &Value::from(count));
            }
        }
    }

    /// Notes the calls of one response, which ran at the same time.
    fn note_parallel(&mut self) {
        let together = std::mem::take(&mut self.together);
        if together.len() > 1 {
            self.facts.parallel_calls.push(together);
        }
    }

    fn read_stored(&mut self, subagent: Option<&str>, record: &Value) {
        let payload = &record["payload"];
        if text(record, "type") == Some("session_meta") {
            let version = text(payload, "cli_version").map(str::to_owned);
            self.facts.version = self.facts.version.take().or(version);
            let history = text(payload, "history_mode").map(str::to_owned);
            self.facts.history = self.facts.history.take().or(history);
            self.facts.sessions.extend(text(payload, "id").map(str::to_owned));
        }
        if text(record, "type") == Some("session_meta") {
            let thread = text(payload, "id").unwrap_or("");
            if self.thread.is_empty() {
                self.thread = thread.to_owned();
            }
        }
        let call = text(payload, "call_id").map(str::to_owned);
        match text(payload, "type").unwrap_or("") {
            "function_call" | "custom_tool_call" => self.together.extend(call),
            "function_call_output" | "custom_tool_call_output" => self.note_parallel(),
            "item_completed" => self.state_item(&payload["item"]),
            "token_count" => {
                let thread = subagent.unwrap_or(&self.thread).to_owned();
                self.state_usage(&thread, &payload["info"]["total_token_usage"]);
            }
            _ => {}
        }
    }
}
