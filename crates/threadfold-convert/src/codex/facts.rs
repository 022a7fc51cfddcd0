//! States what Codex's records say, field by field.

mod canonical;
mod mentions;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use threadfold_core::Json;

use mentions::Mentions;

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
    mentions: Mentions,
    /// The next ordinal of the file.
    ordinal: Option<u64>,
    /// When each item began that has not ended.
    starts: BTreeMap<String, Value>,
    /// The texts that were streamed, by item.
    deltas: BTreeMap<String, String>,
    /// The totals of tokens of each thread.
    totals: BTreeMap<String, Vec<Value>>,
    /// A review is running: live views name another thread and turn than the file does.
    is_in_review: bool,
    /// The file is of a review.
    is_review: bool,
    /// The file has a review, as older versions write it.
    has_review: bool,
}

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
                self.check_ordinal(&record);
                self.read_stored(subagent, &record);
            }
        }
    }

    fn finish(mut self: Box<Self>) -> Facts {
        self.note_parallel();
        self.facts.has_ended = self.open_turns.is_empty();
        std::mem::take(&mut self.mentions).finish(&mut self.facts);
        self.facts
    }
}

fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name)?.as_str()
}

impl Reader {
    fn read_streamed(&mut self, record: &Value) {
        let message = record.get("msg").unwrap_or(record);
        // After a resume, the tokens are those of a turn that may be gone.
        let is_usage = text(message, "method") == Some("thread/tokenUsage/updated");
        if text(record, "type").is_none() {
            let view = RecordName::new("view", "app-server");
            self.facts.set(&view, "name", &Value::from("app-server"));
            if !is_usage {
                self.mentions.read(message);
            }
            // The turn inside a review is only announced.
            if self.is_in_review && text(message, "method") == Some("turn/started") {
                self.mentions.read(message);
            }
        }
        let params = &message["params"];
        let thread = text(params, "threadId").unwrap_or("").to_owned();
        match text(message, "method").or_else(|| text(record, "type")).unwrap_or("") {
            "turn/started" | "turn.started" => {
                self.open_turns.insert(thread);
                self.state_turn("turn_start", &params["turn"]);
            }
            "turn/completed" | "turn.completed" | "turn.failed" => {
                self.open_turns.remove(&thread);
                self.state_turn("turn_end", &params["turn"]);
            }
            "thread.started" => {
                self.thread = text(record, "thread_id").unwrap_or("").to_owned();
                let thread = self.thread.clone();
                self.state_session(&thread);
            }
            _ => {}
        }
        match text(message, "method").or_else(|| text(record, "type")).unwrap_or("") {
            "item/started" => self.state_start(params),
            "item/completed" => {
                self.note_review(&params["item"]);
                self.check_deltas(&params["item"]);
                self.state_item(params);
            }
            "item/agentMessage/delta" | "item/plan/delta" | "item/reasoning/summaryTextDelta" => {
                let id = text(params, "itemId").unwrap_or("").to_owned();
                *self.deltas.entry(id).or_default() += text(params, "delta").unwrap_or("");
            }
            "thread/tokenUsage/updated" => {
                let thread = text(params, "threadId").unwrap_or("").to_owned();
                self.check_total(&thread, &params["tokenUsage"]);
                self.state_usage(&thread, &params["tokenUsage"]["total"]);
            }
            "turn.completed" => {
                let thread = self.thread.clone();
                self.state_usage(&thread, &record["usage"]);
            }
            _ => {}
        }
    }

    /// States what an item says, in the form that both views share.
    fn state_item(&mut self, params: &Value) {
        let item = &params["item"];
        let Some(id) = text(item, "id") else {
            self.contradict("item", "", "id", &Value::Null, item);
            return;
        };
        // The numbers of older versions are not those of items alone.
        if id.len() < 4 {
            return;
        }
        let field = |names: [&str; 2]| names.iter().find_map(|it| params.get(*it)).cloned();
        // 0.128 names the beginning and the end of a review by its turn.
        let is_turn = field(["turnId", "turn_id"]).is_some_and(|turn| turn == id);
        let record = match text(item, "type").filter(|_| is_turn) {
            Some(kind) => RecordName::new("item", &format!("{id} {kind}")),
            None => RecordName::new("item", id),
        };
        self.facts.agree(&record, "", &canonical::item(item));
        if let Some(time) = field(["completedAtMs", "completed_at_ms"]) {
            self.facts.agree(&record, "completedAtMs", &time);
            if item.get("completedAtMs").is_some_and(|it| *it != time) {
                self.contradict("item", id, "completedAtMs", &time, &item["completedAtMs"]);
            }
        }
        let started = params.get("started_at_ms").cloned().or_else(|| self.starts.remove(id));
        if let Some(time) = started {
            self.facts.agree(&record, "startedAtMs", &time);
        }
        if matches!(text(item, "type"), Some("userMessage" | "UserMessage")) {
            let prompt = RecordName::new("prompt", id);
            self.facts.set(&prompt, "id", &Value::from(id));
        }
        if !self.is_in_review && !self.is_review {
            for names in [["threadId", "thread_id"], ["turnId", "turn_id"]] {
                let value = field(names).unwrap_or_default();
                self.facts.agree(&record, names[0], &value);
            }
        }
    }

    /// States when a turn began and ended: `turn_start` or `turn_end`.
    fn state_turn(&mut self, kind: &str, turn: &Value) {
        // The numbers of older versions are counted by each process.
        let id = text(turn, "turn_id").or_else(|| text(turn, "id")).filter(|it| it.len() > 4);
        let Some(id) = id else { return };
        let record = RecordName::new(kind, id);
        for (name, stored) in [
            ("startedAt", "started_at"),
            ("completedAt", "completed_at"),
            ("durationMs", "duration_ms"),
            ("rootTurnId", "root_turn_id"),
        ] {
            let value = turn.get(name).or_else(|| turn.get(stored)).filter(|it| !it.is_null());
            if let Some(value) = value {
                self.facts.agree(&record, name, value);
            }
        }
    }

    /// States the session: the first thread of either view.
    fn state_session(&mut self, thread: &str) {
        let record = RecordName::new("session", "");
        if self.facts.get(&record, "id").is_none() {
            self.facts.set(&record, "id", &Value::from(thread));
        }
    }

    /// States when an item began, if it ends.
    fn state_start(&mut self, params: &Value) {
        let id = text(&params["item"], "id").filter(|it| it.len() > 4);
        if let (Some(id), Some(time)) = (id, params.get("startedAtMs")) {
            self.starts.insert(id.to_owned(), time.clone());
        }
    }

    /// Notes that a review begins or ends.
    fn note_review(&mut self, item: &Value) {
        match text(item, "type").unwrap_or("") {
            "enteredReviewMode" | "EnteredReviewMode" => self.is_in_review = true,
            "exitedReviewMode" | "ExitedReviewMode" => self.is_in_review = false,
            _ => {}
        }
    }

    /// Checks that the records of a file are numbered without a gap.
    fn check_ordinal(&mut self, record: &Value) {
        let found = record["ordinal"].as_u64();
        let expected = std::mem::replace(&mut self.ordinal, found.map(|it| it + 1));
        // A file begins with this record, and may contain it again.
        let is_first = text(record, "type") == Some("session_meta");
        if !is_first && expected != found {
            self.contradict("record", "", "ordinal", &expected.into(), &found.into());
        }
    }

    fn contradict(&mut self, kind: &str, id: &str, field: &str, first: &Value, second: &Value) {
        let record = RecordName::new(kind, id);
        self.facts.contradict(&record, field, Json::of(first), Json::of(second));
    }

    /// Checks that a text is what was streamed of it.
    fn check_deltas(&mut self, item: &Value) {
        let (Some(id), Some(kind)) = (text(item, "id"), text(item, "type")) else { return };
        let ended = match kind {
            "agentMessage" | "plan" => text(item, "text").unwrap_or("").to_owned(),
            "reasoning" => {
                let parts = item["summary"].as_array().into_iter().flatten();
                parts.filter_map(Value::as_str).collect()
            }
            _ => return,
        };
        if let Some(streamed) = self.deltas.remove(id).filter(|it| *it != ended) {
            self.contradict("item", id, "text", &streamed.into(), &ended.into());
        }
    }

    /// Checks that a total of tokens is the one before it and the last response together.
    fn check_total(&mut self, thread: &str, usage: &Value) {
        let find = |names: [&str; 2]| names.iter().find_map(|it| usage.get(*it)).cloned();
        let total = find(["total", "total_token_usage"]).unwrap_or_default();
        let last = find(["last", "last_token_usage"]).unwrap_or_default();
        let Value::Object(counts) = &total else { return };
        let known = self.totals.entry(thread.to_owned()).or_default();
        let is_sum = |before: &Value| {
            counts.iter().all(|(name, count)| {
                let number = |it: &Value| it[name].as_u64().unwrap_or(0);
                count.as_u64() == Some(number(before) + number(&last))
            })
        };
        // Who goes back continues from an earlier total.
        let is_right = known.is_empty() || known.contains(&total) || known.iter().rev().any(is_sum);
        known.push(total.clone());
        let is_whole = known.len() > 1 || {
            let number = |names: [&str; 2]| names.iter().find_map(|it| total[*it].as_u64());
            let parts = [["inputTokens", "input_tokens"], ["outputTokens", "output_tokens"]];
            let sum = parts.iter().map(|it| number(*it).unwrap_or(0)).sum::<u64>();
            // A context that is full is reported as a total without parts.
            sum == 0 || number(["totalTokens", "total_tokens"]) == Some(sum)
        };
        if !is_right || !is_whole {
            self.contradict("usage", thread, "total", &total, &last);
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
        self.mentions.read(payload);
        let event = text(payload, "type").unwrap_or("");
        self.has_review |= event == "entered_review_mode";
        // Files of older versions name the turns of a review once.
        if self.has_review && event.starts_with("task_") {
            self.mentions.read(payload);
        }
        if text(record, "type") == Some("session_meta") {
            let version = text(payload, "cli_version").map(str::to_owned);
            self.facts.version = self.facts.version.take().or(version);
            let history = text(payload, "history_mode").map(str::to_owned);
            self.facts.history = self.facts.history.take().or(history);
            self.facts.sessions.extend(text(payload, "id").map(str::to_owned));
        }
        if text(record, "type") == Some("session_meta") {
            let view = RecordName::new("view", "app-server");
            self.facts.set(&view, "name", &Value::from("app-server"));
            self.is_review = payload["source"]["subagent"] == "review";
            let thread = text(payload, "id").unwrap_or("");
            if self.thread.is_empty() {
                self.thread = thread.to_owned();
                self.state_session(thread);
            }
        }
        let call = text(payload, "call_id").map(str::to_owned);
        match text(payload, "type").unwrap_or("") {
            "function_call" | "custom_tool_call" => self.together.extend(call),
            "function_call_output" | "custom_tool_call_output" => self.note_parallel(),
            // Live views do not report how the turn of a review ends, or one that ended with its caller.
            "task_complete" if self.is_review => {}
            "turn_aborted" if subagent.is_some() => {}
            "task_started" => self.state_turn("turn_start", payload),
            "task_complete" | "turn_aborted" => self.state_turn("turn_end", payload),
            "item_completed" => {
                self.note_review(&payload["item"]);
                self.state_item(payload);
            }
            "token_count" => {
                let thread = subagent.unwrap_or(&self.thread).to_owned();
                self.check_total(&thread, &payload["info"]);
                self.state_usage(&thread, &payload["info"]["total_token_usage"]);
            }
            _ => {}
        }
    }
}
