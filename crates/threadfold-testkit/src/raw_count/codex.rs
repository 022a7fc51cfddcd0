//! An independent count of Codex's raw records: calls, results, texts and reasoning.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// What the raw records of one thread contain.
#[derive(Debug, Default)]
pub struct CodexCount {
    /// The thread.
    pub thread: String,
    /// Ids of calls.
    pub calls: BTreeSet<String>,
    /// Ids of calls that have a result: an output to the model, or an item that ended.
    pub results: BTreeSet<String>,
    /// Ids of calls that started a subagent, or that a person interrupted: these have no result of
    /// their own.
    pub unanswered: BTreeSet<String>,
    /// How often each text of the model occurs, by the kind of record that has it.
    texts: BTreeMap<String, [usize; 3]>,
    /// How often each reasoning occurs, by the kind of record that has it.
    reasoning: BTreeMap<String, [usize; 2]>,
    /// Messages of the model that items report.
    itemized: BTreeSet<String>,
    /// How often each prompt occurs.
    pub prompts: BTreeMap<String, usize>,
    /// The last prompt and the last reasoning of a review that is running: before 0.157, the file of
    /// the thread that asked for it has each of them twice, one right after the other.
    review: Option<[String; 2]>,
}

impl CodexCount {
    /// Counts the records of a rollout; `end` is the first ordinal that is no part of it.
    pub fn add(&mut self, bytes: &[u8], end: Option<u64>) {
        let lines = bytes.split(|byte| *byte == b'\n');
        let records: Vec<Value> = lines.filter_map(|it| serde_json::from_slice(it).ok()).collect();
        let records = own_records(&records);
        let meta = records.iter().find(|it| it["type"] == "session_meta");
        let thread = meta.and_then(|it| it["payload"]["id"].as_str()).unwrap_or_default();
        self.thread = thread.to_owned();
        for (at, record) in records.iter().enumerate() {
            if end.is_some_and(|end| record["ordinal"].as_u64().is_some_and(|it| it >= end)) {
                break;
            }
            self.record(record, &records[at + 1..]);
        }
    }

    /// Returns how often each text must be shown: as often as the record that has it most often,
    /// because one text is in several kinds of records.
    pub fn texts(&self) -> BTreeMap<String, usize> {
        self.texts.iter().map(|(text, kinds)| (text.clone(), most(kinds))).collect()
    }

    /// Returns how often each reasoning must be shown.
    pub fn reasoning(&self) -> BTreeMap<String, usize> {
        self.reasoning.iter().map(|(text, kinds)| (text.clone(), most(kinds))).collect()
    }

    fn record(&mut self, record: &Value, rest: &[&Value]) {
        let payload = &record["payload"];
        let kind = payload["type"].as_str().unwrap_or("");
        let call = || payload["call_id"].as_str().map(str::to_owned);
        match (record["type"].as_str().unwrap_or(""), kind) {
            ("response_item", "message") if payload["role"] == "assistant" => {
                // An item of the same message has what is left of it without a plan.
                let id = payload["id"].as_str().unwrap_or("");
                if !is_summary(rest) && !self.itemized.contains(id) {
                    self.text(&joined(&payload["content"], "\n"), 0);
                }
            }
            ("response_item", "reasoning") => {
                let summary = joined(&payload["summary"], "\n");
                let raw = joined(&payload["content"], "\n");
                self.reason(if summary.is_empty() { &raw } else { &summary }, 0);
            }
            ("response_item", "function_call" | "custom_tool_call" | "tool_search_call") => {
                self.calls.extend(call());
            }
            ("response_item", it) if it.ends_with("_output") => {
                let output = payload["output"].as_str().unwrap_or("");
                let words = output.strip_prefix("Wall time: ").and_then(|it| it.split_once('\n'));
                if words.map_or(output, |(_, words)| words).starts_with("aborted") {
                    self.unanswered.extend(call());
                }
                if output.starts_with("{\"agent_id\"") || output.starts_with("{\"task_name\"") {
                    self.unanswered.extend(call());
                }
                self.results.extend(call());
            }
            ("event_msg", "agent_message") => {
                self.text(payload["message"].as_str().unwrap_or(""), 1);
            }
            ("event_msg", "user_message") => {
                let text = payload["message"].as_str().unwrap_or("").to_owned();
                if !self.is_repeated(0, &text) {
                    *self.prompts.entry(text).or_default() += 1;
                }
            }
            ("event_msg", "agent_reasoning") if self.review.is_some() => {
                let text = payload["text"].as_str().unwrap_or("");
                if !self.is_repeated(1, text) {
                    self.reason(text, 0);
                }
            }
            ("event_msg", "entered_review_mode") => self.review = Some(Default::default()),
            ("event_msg", "exited_review_mode") => self.review = None,
            ("event_msg", "item_completed") => self.item(&payload["item"]),
            _ => {}
        }
    }

    /// Returns whether a record repeats the one before it in a review.
    fn is_repeated(&mut self, kind: usize, text: &str) -> bool {
        let Some(review) = &mut self.review else { return false };
        let is_repeated = review[kind] == text;
        review[kind] = if is_repeated { String::new() } else { text.to_owned() };
        is_repeated
    }

    fn item(&mut self, item: &Value) {
        match item["type"].as_str().unwrap_or("") {
            "AgentMessage" => {
                self.itemized.extend(item["id"].as_str().map(str::to_owned));
                self.text(&joined(&item["content"], ""), 2);
            }
            "Reasoning" => {
                let list = |name: &str| {
                    let parts = item[name].as_array().into_iter().flatten();
                    parts.filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
                };
                let (summary, raw) = (list("summary_text"), list("raw_content"));
                self.reason(if summary.is_empty() { &raw } else { &summary }, 1);
            }
            "UserMessage" => {
                *self.prompts.entry(joined(&item["content"], "\n")).or_default() += 1;
            }
            "CommandExecution" | "FileChange" | "McpToolCall" | "DynamicToolCall" | "WebSearch"
            | "ImageView" => {
                let id = item["id"].as_str().map(str::to_owned);
                self.calls.extend(id.clone());
                self.results.extend(id);
            }
            "SubAgentActivity" if item["kind"] == "started" => {
                self.unanswered.extend(item["id"].as_str().map(str::to_owned));
            }
            _ => {}
        }
    }

    fn text(&mut self, text: &str, kind: usize) {
        self.texts.entry(text.to_owned()).or_default()[kind] += 1;
    }

    fn reason(&mut self, text: &str, kind: usize) {
        self.reasoning.entry(text.to_owned()).or_default()[kind] += 1;
    }
}

fn most(kinds: &[usize]) -> usize {
    kinds.iter().copied().max().unwrap_or(0)
}

/// Returns whether a text of the model is the summary of the compaction that follows it.
fn is_summary(rest: &[&Value]) -> bool {
    let is_part = |it: &&&Value| {
        let kind = it["type"].as_str().unwrap_or("");
        let event = it["payload"]["type"].as_str().unwrap_or("");
        kind == "compacted"
            || kind == "response_item"
            || event != "token_count" && kind == "event_msg"
    };
    rest.iter().find(is_part).is_some_and(|it| it["type"] == "compacted")
}

/// Returns the texts of a list of parts.
fn joined(parts: &Value, separator: &str) -> String {
    let parts = parts.as_array().into_iter().flatten();
    parts.filter_map(|it| it["text"].as_str()).collect::<Vec<_>>().join(separator)
}

/// Returns the records of a rollout without the history that a subagent copied from its parent.
fn own_records(records: &[Value]) -> Vec<&Value> {
    let metas: Vec<&Value> = records.iter().filter(|it| it["type"] == "session_meta").collect();
    let Some(own) = metas.first().map(|it| &it["payload"]) else { return records.iter().collect() };
    let thread = own["id"].as_str().unwrap_or("");
    let has_copy = metas.iter().any(|it| it["payload"]["id"].as_str() != Some(thread));
    if !own["source"]["subagent"].is_object() || !has_copy {
        return records.iter().collect();
    }
    let start = match own["subagent_history_start_ordinal"].as_u64() {
        Some(start) => records.iter().position(|it| it["ordinal"].as_u64() >= Some(start)),
        None => records.iter().position(|it| {
            it["payload"]["type"] == "task_started"
                && it["payload"]["turn_id"].as_str().is_some_and(|turn| turn > thread)
        }),
    };
    let rest = &records[start.unwrap_or(records.len())..];
    metas.into_iter().take(1).chain(rest).collect()
}
