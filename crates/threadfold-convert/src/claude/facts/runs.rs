//! Evidence of runs, turns and tasks: how each run ended, what was at work, and what was delivered.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use threadfold_core::Json;

use super::{Reader, is_in_main, text};
use crate::claude::notifications::named_task;
use crate::parity::{
    Answer, QueuedPrompt, RecordName, RunReport, StoredHook, TaskEvent, TaskNotice, normalize,
};

/// The counts of a message that the report of a run sums up.
pub(in crate::claude) const COUNTS: [&str; 4] =
    ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"];

/// The reasons for which a model stops.
const REASONS: [&str; 7] = [
    "end_turn",
    "tool_use",
    "max_tokens",
    "stop_sequence",
    "pause_turn",
    "refusal",
    "model_context_window_exceeded",
];

/// The totals of a model that both the report of a run and the file have.
const TOTALS: [&str; 9] = [
    "inputTokens",
    "outputTokens",
    "cacheReadInputTokens",
    "cacheCreationInputTokens",
    "webSearchRequests",
    "costUSD",
    "thinkingTokens",
    "cacheCreationEphemeral5mInputTokens",
    "cacheCreationEphemeral1hInputTokens",
];

/// What is known of the runs while their records are read.
#[derive(Default)]
pub(super) struct Progress {
    /// The lines that are read are those of a subagent's file.
    pub(super) is_subagent_file: bool,
    /// How often a stream reported that a turn began.
    begun: usize,
    /// The last answer ended its turn.
    is_turn_over: bool,
    /// The last line of the main conversation is a call, or the result of one.
    is_in_call: bool,
    /// Counts that the end of a message changed: its id, the count, and both values.
    changed_counts: Vec<(String, String, u64, u64)>,
    /// Hooks that began and have not ended.
    open_hooks: usize,
    /// How many answers precede the turn.
    answers_before_turn: usize,
    /// How many lines to the model were streamed since the last report.
    lines_to_model: usize,
    /// How many of them precede the turn.
    lines_before_turn: usize,
    /// The conversation was compacted since the last report.
    has_compaction: bool,
    /// A command or workflow ran in the background.
    has_tasks: bool,
    /// The line before each attachment of a file.
    before_attachments: BTreeMap<String, Option<String>>,
    /// The lines of a file, with the line that each follows.
    parents: Vec<(RecordName, String)>,
    /// What is in the agent's queue.
    queue: usize,
}

impl Reader {
    /// Reads the start of a message of the main conversation.
    pub(super) fn open_answer(&mut self, id: &str, message: &Map<String, Value>) {
        self.runs.is_turn_over = false;
        let mut answer = Answer { id: id.to_owned(), is_streamed: true, ..Answer::default() };
        count(&mut answer, message.get("usage"));
        self.facts.evidence.answers.push(answer);
    }

    /// Reads the end of the message of the main conversation that is streaming: its reason and counts.
    pub(super) fn end_answer(&mut self, id: &str, event: &Map<String, Value>) {
        let reason = event.get("delta").and_then(|delta| delta["stop_reason"].as_str());
        let mut answers = self.facts.evidence.answers.iter_mut().rev();
        let Some(answer) = answers.find(|it| it.id == id) else { return };
        if let Some(reason) = reason {
            answer.reason = Some(reason.to_owned());
            let before = answer.usage.clone();
            let again = event.get("usage").unwrap_or(&Value::Null);
            for (field, first) in before.into_iter().filter(|(it, _)| it != "output_tokens") {
                let changed = again[&field].as_u64().filter(|it| first > 0 && *it > 0);
                if let Some(again) = changed.filter(|it| *it != first) {
                    self.runs.changed_counts.push((id.to_owned(), field, first, again));
                }
            }
            count(answer, event.get("usage"));
        }
    }

    /// Notes that a streamed message is complete.
    pub(super) fn stop_answer(&mut self, id: &str) {
        let last = self.facts.evidence.answers.last();
        let is_last =
            last.is_some_and(|it| it.id == id && it.reason.as_deref() == Some("end_turn"));
        self.runs.is_turn_over = is_last;
    }

    /// Reads a line of an answer of the main conversation.
    pub(super) fn read_answer_line(
        &mut self,
        id: &str,
        record: &Map<String, Value>,
        message: &Map<String, Value>,
        is_stream: bool,
    ) {
        if !is_stream {
            if !self.runs.is_subagent_file && record.get("isSidechain") != Some(&Value::Bool(true))
            {
                let queued = self.facts.evidence.queued_prompts.iter_mut();
                queued.for_each(|prompt| prompt.is_answered = true);
            }
            return;
        }
        let is_marked = |field: &str| match record.get(field) {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(_) => true,
        };
        let reason = text(message, "stop_reason").map(str::to_owned);
        let answers = &mut self.facts.evidence.answers;
        if !answers.iter().rev().any(|it| it.id == id) {
            let is_synthetic = text(message, "model") == Some("<synthetic>");
            let (id, is_whole) = (id.to_owned(), reason.is_some());
            self.runs.is_turn_over = match reason.as_deref() {
                Some("end_turn") => true,
                Some("stop_sequence") => is_synthetic,
                _ => false,
            };
            answers.push(Answer { id, is_whole, is_synthetic, reason, ..Answer::default() });
        }
        let mut answer = answers.iter_mut().rev().find(|it| it.id == id);
        if let (Some(answer), Some(block)) = (&mut answer, last_block(message)) {
            answer.last_text = Some(block["text"].as_str().unwrap_or("").to_owned());
        }
        if let Some(answer) =
            answer.filter(|_| is_marked("error") || is_marked("isApiErrorMessage"))
        {
            answer.is_error = true;
            answer.api_error = text(record, "api_error").map(str::to_owned);
        }
    }

    /// Reads the id of a line, and whether the line goes on with the turn.
    pub(super) fn read_line(&mut self, kind: &str, record: &Map<String, Value>) {
        if let Some(uuid) = text(record, "uuid").filter(|_| kind != "attachment") {
            let lines = &mut self.facts.evidence.lines;
            let place = lines.len();
            lines.entry(uuid.to_owned()).or_insert(place);
        }
        if let (false, Some(uuid), Some(parent)) =
            (self.is_stream, text(record, "uuid"), text(record, "parentUuid"))
        {
            self.runs.parents.push((RecordName::new(kind, uuid), parent.to_owned()));
        }
        if kind == "user" && is_in_main(record) {
            let is_replay = record.get("isReplay") == Some(&Value::Bool(true));
            self.runs.lines_to_model += usize::from(!is_replay);
            self.runs.is_turn_over = false;
            self.runs.is_in_call = true;
        }
        if kind == "assistant" && is_in_main(record) {
            let content = record.get("message").and_then(|it| it["content"].as_array());
            let mut parts = content.into_iter().flatten();
            self.runs.is_in_call = parts.any(|it| it["type"] == "tool_use");
        }
        let is_work =
            matches!(kind, "user" | "assistant" | "attachment" | "queue-operation" | "system");
        if is_work && !self.is_stream && !self.runs.is_subagent_file {
            let evidence = &mut self.facts.evidence;
            evidence.is_account_early |= evidence.has_account && kind == "assistant";
            evidence.has_account = false;
        }
    }

    /// Reads that a turn began.
    pub(super) fn begin_turn(&mut self) {
        self.runs.begun += 1;
        self.runs.answers_before_turn = self.facts.evidence.answers.len();
        self.runs.lines_before_turn = self.runs.lines_to_model;
        self.runs.is_turn_over = false;
        self.facts.has_ended = false;
    }

    /// Reads the report at the end of a run.
    pub(super) fn keep_report(&mut self, record: &Map<String, Value>) {
        let answers = self.facts.evidence.answers.len();
        let is_interrupted = std::mem::take(&mut self.is_interrupted);
        let name = RecordName::new("result", text(record, "uuid").unwrap_or(""));
        let fields = record.clone();
        let answers_before_turn = self.runs.answers_before_turn;
        let report = RunReport {
            record: name,
            fields,
            answers,
            answers_before_turn,
            is_interrupted,
            lines_to_model: std::mem::take(&mut self.runs.lines_to_model),
            lines_before_turn: std::mem::take(&mut self.runs.lines_before_turn),
            has_compaction: std::mem::take(&mut self.runs.has_compaction),
        };
        self.facts.evidence.reports.push(report);
    }

    /// States the totals of each model, which the report of a run and the file both have.
    pub(super) fn state_totals(&mut self, session: &str, totals: Option<&Value>) {
        let models = totals.and_then(Value::as_object).filter(|it| !it.is_empty());
        let Some(models) = models else { return };
        let name = RecordName::new("session", session);
        self.facts.forget_within(&name, "modelUsage");
        let names = models.keys().map(|model| Value::from(model.as_str())).collect();
        self.facts.set(&name, "models", &Value::Array(names));
        for (model, totals) in models {
            for field in TOTALS {
                if let Some(value) = totals.get(field) {
                    self.facts.set(&name, &format!("modelUsage.{model}.{field}"), value);
                }
            }
        }
    }

    /// Compares the cost in an account of a file with the sum over its models.
    pub(super) fn compare_cost(&mut self, session: &str, account: &Map<String, Value>) {
        let (cost, models) = (account.get("totalCostUSD"), account.get("modelUsage"));
        let sum = sum_of_costs(models);
        if !is_cost(cost, sum) {
            let name = RecordName::new("session", session);
            self.facts.contradict(&name, "costUsd", Json::of(&cost), Json::of(&sum));
        }
    }

    /// Reads a record about a task.
    pub(super) fn read_task(&mut self, subtype: &str, record: &Map<String, Value>) {
        let ids = ["task_id", "tool_use_id", "run_id"].iter().filter_map(|it| text(record, it));
        let ids: Vec<String> = ids.map(str::to_owned).collect();
        self.facts.evidence.tasks.extend(ids);
        let is_agent = text(record, "task_type").is_none_or(|kind| kind == "local_agent");
        let is_apart = record.get("is_backgrounded") == Some(&Value::Bool(true));
        self.runs.has_tasks |= subtype == "task_started" && (!is_agent || is_apart);
        let evidence = &mut self.facts.evidence;
        let task = text(record, "task_id").unwrap_or("").to_owned();
        let owned = |field| text(record, field).map(str::to_owned);
        let call = owned("tool_use_id");
        if subtype == "task_started" {
            evidence.task_starts.entry(task).or_default().insert(call);
            return;
        }
        let is_notice = subtype == "task_notification";
        let patched = || record.get("patch")?["status"].as_str().map(str::to_owned);
        let status = if is_notice { owned("status") } else { patched() };
        if let Some(status) = status.as_ref().filter(|_| is_notice) {
            evidence.task_ends.entry(task.clone()).or_default().insert(status.clone());
        }
        evidence.task_events.push(TaskEvent {
            record: RecordName::new(subtype, text(record, "uuid").unwrap_or("")),
            task,
            call,
            names_call: subtype != "task_updated",
            tool_uses: record
                .get("usage")
                .and_then(|it| it["tool_uses"].as_u64())
                .filter(|_| is_notice),
            status,
            output_file: owned("output_file"),
        });
    }

    /// Reads the tasks that the structured result of a call names.
    pub(super) fn read_started_tasks(&mut self, outcome: Option<&Value>) {
        let fields = outcome.and_then(Value::as_object).into_iter().flatten();
        let is_id = |name: &str| ["Id", "ID", "_id"].iter().any(|it| name.ends_with(it));
        let ids = fields.filter(|(name, _)| is_id(name)).filter_map(|(_, value)| value.as_str());
        self.facts.evidence.tasks.extend(ids.map(str::to_owned));
    }

    /// Reads a text to the model, which may be the notification of a task.
    pub(super) fn read_notice(&mut self, record: &Map<String, Value>, words: &str) -> bool {
        let Some(named) = named_task(words) else { return false };
        let uuid = text(record, "uuid").unwrap_or("");
        self.facts.evidence.task_notices.push(TaskNotice {
            record: RecordName::new("task_notification", uuid),
            task: named.task,
            call: named.call,
            status: named.status,
            output_file: named.output_file,
        });
        true
    }

    /// Reads a line of the agent's queue.
    pub(super) fn read_queue(&mut self, record: &Map<String, Value>) {
        let (words, evidence) = (text(record, "content"), &mut self.facts.evidence);
        match text(record, "operation") {
            Some("enqueue") => {
                evidence.enqueued += 1;
                evidence.enqueued_silently += usize::from(words.is_none());
                self.runs.queue += 1;
            }
            Some("dequeue") => {
                evidence.dequeued += 1;
                // Some versions report only what they take from the queue.
                evidence.taken += usize::from(self.runs.queue > 0);
                self.runs.queue = self.runs.queue.saturating_sub(1);
            }
            _ => {}
        }
        if let Some(words) = words {
            let is_notice = self.read_notice(record, words);
            self.facts.queued_prompts.insert(words.to_owned());
            if !is_notice && text(record, "reason") == Some("absorbed_mid_turn") {
                let block = text(record, "commandUuid").map(str::to_owned);
                self.facts.evidence.absorbed.push((block, words.to_owned()));
            }
        }
    }

    /// Reads an attachment: what was delivered while the agent was at work, or a hook.
    pub(super) fn read_attachment(&mut self, record: &Map<String, Value>) {
        let parent = record.get("parentUuid").and_then(Value::as_str).map(str::to_owned);
        if let Some(uuid) = text(record, "uuid") {
            self.runs.before_attachments.insert(uuid.to_owned(), parent.clone());
        }
        let Some(attached) = record.get("attachment").and_then(Value::as_object) else { return };
        match text(attached, "type") {
            Some("queued_command") => self.read_delivery(record, attached),
            Some("max_turns_reached") => self.facts.evidence.has_turn_limit = true,
            Some(kind) if kind.starts_with("hook_") => {
                let Some(event) = text(attached, "hookEvent") else { return };
                let id = text(attached, "hookName").unwrap_or(event);
                let mut line = parent;
                while let Some(above) =
                    line.as_ref().and_then(|it| self.runs.before_attachments.get(it))
                {
                    line = above.clone();
                }
                let is_start = record.get("parentUuid") == Some(&Value::Null);
                let line = line.filter(|it| self.facts.evidence.lines.contains_key(it));
                self.facts.evidence.stored_hooks.push(StoredHook {
                    record: RecordName::new("hook", id),
                    event: event.to_owned(),
                    line,
                    is_start,
                });
            }
            _ => {}
        }
    }

    fn read_delivery(&mut self, record: &Map<String, Value>, attached: &Map<String, Value>) {
        let prompt = attached.get("prompt");
        let words = prompt.and_then(|it| it.as_str().or_else(|| it[0]["text"].as_str()));
        let words = words.unwrap_or("").to_owned();
        let is_notice = self.read_notice(record, &words);
        let is_prompt = text(attached, "commandMode").is_none_or(|mode| mode == "prompt");
        let is_prompt = is_prompt && !is_notice;
        let evidence = &mut self.facts.evidence;
        let block = text(attached, "source_uuid").or_else(|| text(record, "uuid"));
        evidence.delivered.extend(block.filter(|_| is_prompt).map(str::to_owned));
        if self.runs.is_subagent_file {
            return;
        }
        if !is_prompt {
            evidence.queued_notices += 1;
            return;
        }
        self.state_delivery(record, attached);
        let record = RecordName::new("queued_command", text(record, "uuid").unwrap_or(""));
        let evidence = &mut self.facts.evidence;
        evidence.queued_prompts.push(QueuedPrompt { record, words, is_answered: false });
    }

    /// States a prompt that was delivered as the message by which a stream repeats it.
    fn state_delivery(&mut self, record: &Map<String, Value>, attached: &Map<String, Value>) {
        let Some(uuid) = attached.get("source_uuid").or_else(|| record.get("uuid")) else { return };
        let message = RecordName::new("user", uuid.as_str().unwrap_or(""));
        let content = match attached.get("prompt") {
            Some(Value::String(text)) => json!([{"type": "text", "text": text}]),
            other => other.cloned().unwrap_or_default(),
        };
        self.facts.set(&message, "message.content", &content);
        self.facts.set(&message, "message.role", &Value::from("user"));
        self.facts.set(&message, "uuid", uuid);
        let timestamp = attached.get("timestamp").or_else(|| record.get("timestamp"));
        for (field, value) in [("timestamp", timestamp), ("sessionId", record.get("sessionId"))] {
            if let Some(value) = value {
                self.facts.set(&message, field, value);
            }
        }
    }

    /// Reads the start or the end of a hook of a stream.
    pub(super) fn read_hook(&mut self, subtype: &str, record: &Map<String, Value>) {
        if let Some(event) = text(record, "hook_event") {
            self.facts.evidence.hook_events.insert(event.to_owned());
        }
        let open = &mut self.runs.open_hooks;
        match subtype {
            "hook_started" => *open += 1,
            _ => *open = open.saturating_sub(1),
        }
    }

    /// Reads that a call was denied.
    pub(super) fn read_denial(&mut self, call: Option<&str>) {
        self.facts.evidence.denied.extend(call.map(str::to_owned));
    }

    /// Reads that the conversation was compacted.
    pub(super) fn read_compaction(&mut self) {
        self.runs.has_compaction = true;
    }

    /// Reads what the agent does at the moment.
    pub(super) fn read_status(&mut self, record: &Map<String, Value>) {
        if record.get("status").is_some_and(|status| !status.is_null()) {
            self.runs.is_turn_over = false;
        }
    }

    /// States what the runs show as a whole.
    pub(super) fn finish_runs(&mut self) {
        let is_idle =
            self.runs.open_hooks == 0 && !self.runs.has_tasks && self.facts.background.is_empty();
        let parents = std::mem::take(&mut self.runs.parents);
        let evidence = &mut self.facts.evidence;
        let is_known = |line: &String| {
            evidence.lines.contains_key(line) || self.runs.before_attachments.contains_key(line)
        };
        evidence.orphans = parents.into_iter().filter(|(_, parent)| !is_known(parent)).collect();
        evidence.turns = self.runs.begun.max(evidence.reports.len());
        // Reports may come late, but each run that ended has one.
        let has_failed = |it: &RunReport| it.fields.get("subtype").is_none_or(|it| it != "success");
        let failed = evidence.reports.iter().rev().skip(1).any(has_failed);
        evidence.was_resumed =
            self.runs.begun > 1 && (failed || evidence.reports.len() < self.runs.begun);
        evidence.is_in_call = self.runs.is_in_call;
        evidence.is_complete = self.runs.is_turn_over && is_idle;
        // Without a report nothing else shows which of the values was meant.
        if evidence.reports.is_empty() {
            for (id, field, first, again) in std::mem::take(&mut self.runs.changed_counts) {
                let name = RecordName::new("assistant", &id);
                let field = format!("message.usage.{}", normalize(&field));
                self.facts.contradict(&name, &field, Json::of(&first), Json::of(&again));
            }
        }
    }
}

/// Returns the sum of the costs of all models; nothing if one of them has no cost, or there is no
/// list of models.
pub(in crate::claude) fn sum_of_costs(models: Option<&Value>) -> Option<f64> {
    let models = models?.as_object()?;
    models.values().map(|it| it["costUSD"].as_f64()).sum()
}

/// Returns whether a cost is the sum over the models.
pub(in crate::claude) fn is_cost(cost: Option<&Value>, sum: Option<f64>) -> bool {
    let cost = cost.and_then(Value::as_f64);
    cost.zip(sum).is_some_and(|(cost, sum)| (cost - sum).abs() < 1e-6)
}

/// Adds the counts of a message that was streamed: those of its end replace those of its start.
fn count(answer: &mut Answer, usage: Option<&Value>) {
    for field in COUNTS {
        let Some(value) = usage.and_then(|usage| usage.get(field)).and_then(Value::as_u64) else {
            continue;
        };
        // The end of a message may repeat its input as 0.
        if value > 0 || field == "output_tokens" {
            answer.usage.insert(field.to_owned(), value);
        }
    }
}

/// Checks the report of a streamed message's end: it has the output tokens, and one without a reason,
/// of a message that was cut off, repeats the counts of its start and names no sequence that stopped it.
pub(super) fn check_end(reader: &mut Reader, id: &str, event: &Map<String, Value>) {
    let name = RecordName::new("assistant", id);
    let has_reason = event.get("delta").is_some_and(|delta| !delta["stop_reason"].is_null());
    let reason = event.get("delta").and_then(|delta| delta["stop_reason"].as_str());
    let is_stored = !reader.facts.version.as_deref().is_some_and(super::is_stored_before_end);
    // The file of these versions has no reason to compare with.
    if let Some(reason) = reason.filter(|it| !is_stored && !REASONS.contains(it)) {
        let (found, missing) = (Json::string(reason), Json::of(&Value::Null));
        reader.facts.contradict(&name, "message.stopReason", found, missing);
    }
    let usage = event.get("usage").unwrap_or(&Value::Null);
    if !usage["output_tokens"].is_u64() {
        let (missing, found) = (Json::of(&Value::Null), Json::of(&usage["output_tokens"]));
        reader.facts.contradict(&name, super::OUTPUT_TOKENS, missing, found);
    }
    let start = reader.previews.opening(id).and_then(|it| it.get("usage")).cloned();
    let Some(start) = start.filter(|_| !has_reason) else { return };
    let sequence = event.get("delta").map(|delta| &delta["stop_sequence"]);
    if let Some(sequence) = sequence.filter(|it| !it.is_null()) {
        let (missing, found) = (Json::of(&Value::Null), Json::of(sequence));
        reader.facts.contradict(&name, "message.stopSequence", missing, found);
    }
    for field in COUNTS {
        let (first, again) = (&start[field], &usage[field]);
        if !first.is_null() && !again.is_null() && first != again {
            let field = format!("message.usage.{}", normalize(field));
            reader.facts.contradict(&name, &field, Json::of(first), Json::of(again));
        }
    }
}

/// Returns the last block of a message.
fn last_block(message: &Map<String, Value>) -> Option<&Value> {
    message.get("content")?.as_array()?.last()
}
