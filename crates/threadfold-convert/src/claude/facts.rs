//! States what each record of Claude Code's stream and files says, under names that both share.

mod copies;
mod previews;
mod runs;
mod session;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use threadfold_core::Json;

use super::subagents::is_agent_tool;
use crate::parity::{FactReader, Facts, RecordName, Variant, Versions};
use crate::record::{FeedKind, FeedLine};

use previews::Previews;
use runs::Progress;
pub(super) use runs::{COUNTS, is_cost, sum_of_costs};
pub(super) use session::{CONTEXT, hooks_of_event};

/// Fields of an assistant message that are final only at its end.
const FINAL: [&str; 3] = ["stop_reason", "stop_sequence", "output_tokens"];

/// The output tokens of a message that has ended.
const OUTPUT_TOKENS: &str = "message.usage.outputTokens";

/// The output tokens that were counted when a message began.
const AT_START: &str = "message.usage.outputTokensAtStart";

/// The output tokens at the end of a message, if the file has only those of its start.
const AT_END: &str = "message.usage.outputTokensAtEnd";

/// The stop reason on one line of a message.
const REASON_ON_LINE: &str = "message.stopReasonOnLine";

/// The tier of the provider's service.
const SERVICE_TIER: &str = "message.usage.serviceTier";

/// The type of a subagent whose call names none.
const USUAL_AGENT: &str = "general-purpose";

/// The subagent that a message ran again.
const RESUMED: &str = "toolUseResult.resumedAgentId";

/// Returns a reader of facts.
pub(super) fn reader() -> Box<dyn FactReader> {
    Box::<Reader>::default()
}

#[derive(Default)]
struct Reader {
    facts: Facts,
    /// The lines are those of a stream.
    is_stream: bool,
    /// The content types of each line of a file, by its `uuid`.
    contents: BTreeMap<String, Vec<Value>>,
    previews: Previews,
    runs: Progress,
    /// How many blocks of each message were read.
    counts: BTreeMap<String, u64>,
    /// The fields of each message.
    shapes: BTreeMap<RecordName, Vec<String>>,
    /// The output tokens on each line of a stream's messages that had not ended.
    streamed_counts: Vec<(RecordName, Value)>,
    /// The output tokens on each line of a file's messages, and whether the message had ended.
    counted: BTreeMap<RecordName, Vec<(u64, bool)>>,
    /// Texts of the main conversation: the result of a run is one of them.
    texts: Vec<String>,
    /// What each run reported as its result.
    results: Vec<(String, String)>,
    /// Results and questions that were read before their call.
    before_calls: BTreeSet<(&'static str, String)>,
    retries: u64,
    hooks: usize,
    /// The agent answered a request of its host, such as an interrupt.
    has_host_request: bool,
    /// The latest line of the main conversation is the mark of an interruption.
    is_interrupted: bool,
    /// The sessions of the stream, in their order.
    sessions: Vec<String>,
    /// The session of the line before this one.
    previous_session: Option<String>,
    /// A command left a session.
    has_reset: bool,
    /// The stream has named another session, and no message of it was read.
    is_new_session: bool,
    /// The latest line is the caveat before the output of a command.
    is_after_caveat: bool,
    /// Calls of the stream, with a field that another record repeats: the start of their task, or the
    /// question whether they may run.
    call_fields: Vec<(String, &'static str, Value)>,
    /// Tasks whose start does not name the type of their subagent, each with its call.
    untyped_tasks: Vec<(String, String)>,
    /// The call that started each task first.
    first_calls: BTreeMap<String, String>,
    /// Calls that ran a subagent again, with the subagent's id.
    resumed: Vec<(String, Value)>,
}

impl FactReader for Reader {
    fn push(&mut self, line: &FeedLine<'_>) {
        let Ok(Value::Object(record)) = serde_json::from_slice::<Value>(line.bytes) else { return };
        self.runs.is_subagent_file = matches!(line.feed.kind, FeedKind::Subagent(_));
        match &line.feed.kind {
            FeedKind::SubagentMeta(agent) => session::read_meta(self, agent.bare(), &record),
            FeedKind::Stream => {
                self.is_stream = true;
                self.read(&record, true);
            }
            FeedKind::Subagent(agent) => {
                self.facts.evidence.subagent_files.insert(agent.bare().to_owned());
                self.compare_agent(agent.bare(), &record);
                self.read(&record, false);
            }
            FeedKind::Main => self.read(&record, false),
        }
    }

    fn finish(mut self: Box<Self>) -> Facts {
        // At a signal some versions exit before they report the result of the run.
        self.facts.was_interrupted |=
            !self.facts.has_ended && self.is_interrupted && !self.has_host_request;
        if self.has_reset && self.sessions.len() > 1 {
            self.facts.successive_sessions = std::mem::take(&mut self.sessions);
        }
        self.facts.unnamed_calls = self.unnamed_calls();
        self.finish_runs();
        self.compare_counts();
        self.state_counts();
        self.previews.allow_ends(&mut self.facts);
        self.require_tiers();
        for (kind, call) in std::mem::take(&mut self.before_calls) {
            if self.facts.has(&RecordName::new("assistant", &call)) {
                let record = RecordName::new(kind, &call);
                let (before, after) = (Json::string("before its call"), Json::of(&Value::Null));
                self.facts.contradict(&record, "order", before, after);
            }
        }
        for (id, text) in std::mem::take(&mut self.results) {
            // The output of a command is trimmed in the message, and not in the result.
            if !self.texts.iter().any(|it| it.trim() == text.trim()) {
                let record = RecordName::new("result", &id);
                self.facts.unspoken_results.push((record, text.trim().to_owned()));
            }
        }
        for (call, field, value) in std::mem::take(&mut self.call_fields) {
            let record = RecordName::new("assistant", &call);
            // Without the call the other record is the only report of it.
            if self.facts.has(&record) {
                self.facts.agree(&record, field, &value);
            }
        }
        for (task, call) in std::mem::take(&mut self.untyped_tasks) {
            let call = RecordName::new("assistant", &call);
            let named = self.facts.get(&call, "message.content.input.subagentType");
            let named = named.cloned().unwrap_or_else(|| Json::string(USUAL_AGENT));
            self.facts.allow(&RecordName::new("meta", &task), "agentType", named);
        }
        for (call, agent) in std::mem::take(&mut self.resumed) {
            let record = RecordName::new("tool_result", &call);
            if self.facts.get(&record, RESUMED).is_some() {
                self.facts.agree(&record, RESUMED, &agent);
            }
        }
        self.facts
    }
}

/// Returns whether this version streams a line after its message has ended.
fn is_streamed_at_end(version: &str) -> bool {
    Versions::seen("1.0.128", "2.0.76").before("2.1.30").include(Some(version))
}

/// Returns whether the file of this version has the lines of a message as they were before its end.
fn is_stored_before_end(version: &str) -> bool {
    Versions::seen("2.1.30", "2.1.56").after("2.0.76").before("2.1.59").include(Some(version))
}

/// Returns whether the file of this version has the end of a message on its last line only.
fn is_ended_on_last_line(version: &str) -> bool {
    Versions::seen("2.1.59", "2.1.75").after("2.1.56").before("2.1.100").include(Some(version))
}

/// Returns whether this version removes an answer that was cut off from the file, and asks again.
fn drops_cut_answers(version: &str) -> bool {
    Versions::seen("2.1.100", "2.1.100").after("2.1.50").before("2.1.160").include(Some(version))
}

/// Returns whether this version marks the stop of a message that was cut off.
fn names_cut_messages(version: &str) -> bool {
    Versions::seen("2.1.311", "2.1.326").after("2.1.310").include(Some(version))
}

/// Returns the text of a field.
fn text<'a>(record: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    record.get(name)?.as_str()
}

/// Returns whether a line of a stream is in the main conversation.
fn is_in_main(record: &Map<String, Value>) -> bool {
    record.get("parent_tool_use_id").is_none_or(Value::is_null)
}

/// Returns whether the harness answered a call in place of its tool, because a person, a host or a
/// signal stopped it.
fn is_rejection(result: &Value) -> bool {
    let openings = ["The user doesn't want to proceed with this tool use", "[Request interrupted"];
    let content = &result["content"];
    let words = content.as_str().or_else(|| content[0]["text"].as_str());
    result["is_error"] == true
        && words.is_some_and(|words| openings.iter().any(|it| words.starts_with(it)))
}

/// Returns the paths of the fields inside an object.
fn field_paths(value: &Value) -> Vec<String> {
    let fields = value.as_object().into_iter().flatten();
    let paths = fields.flat_map(|(name, value)| {
        let below = field_paths(value).into_iter().map(move |path| format!("{name}.{path}"));
        std::iter::once(name.clone()).chain(below)
    });
    paths.collect()
}

/// Returns the content of a message as a list: a text is a list of one.
fn content(message: &Map<String, Value>) -> Vec<Value> {
    match message.get("content") {
        Some(Value::String(text)) => {
            vec![serde_json::json!({"type": "text", "text": text})]
        }
        Some(Value::Array(blocks)) => blocks.clone(),
        _ => Vec::new(),
    }
}

impl Reader {
    fn read(&mut self, record: &Map<String, Value>, is_stream: bool) {
        if let Some(version) =
            text(record, "version").or_else(|| text(record, "claude_code_version"))
        {
            self.facts.version = Some(version.to_owned());
        }
        let session = text(record, "session_id").or_else(|| text(record, "sessionId"));
        if let Some(session) = session
            && self.sessions.last().is_none_or(|last| last != session)
        {
            self.is_new_session = !self.sessions.is_empty();
            self.sessions.push(session.to_owned());
            self.facts.sessions.insert(session.to_owned());
        }
        let message = record.get("message").and_then(Value::as_object);
        self.read_line(text(record, "type").unwrap_or(""), record);
        match (text(record, "type").unwrap_or(""), message) {
            ("assistant", Some(message)) => self.read_assistant(record, message, is_stream),
            ("user", Some(message)) => self.read_user(record, message),
            ("stream_event", _) => self.read_event(record),
            (kind, _) => session::read(self, kind, record, is_stream),
        }
        self.previous_session = session.map(str::to_owned);
    }

    /// Returns the calls of subagents whose subagent neither a task nor a result names.
    fn unnamed_calls(&self) -> BTreeSet<String> {
        let is_named = |call: &str| {
            let result = RecordName::new("tool_result", call);
            self.facts.get(&result, "toolUseResult.agentId").is_some()
                || self.first_calls.values().any(|it| it == call)
        };
        let records = self.facts.records().iter();
        let calls = records.filter(|(record, fields)| {
            let name = fields.get("message.content.name").and_then(Json::to_text);
            record.kind == "assistant" && name.is_some_and(|it| is_agent_tool(&it))
        });
        calls.map(|(call, _)| call.id.clone()).filter(|call| !is_named(call)).collect()
    }

    /// Compares the id on a line of a subagent's file with the name of that file.
    fn compare_agent(&mut self, agent: &str, record: &Map<String, Value>) {
        let (Some(kind @ ("assistant" | "user")), Some(uuid)) =
            (text(record, "type"), text(record, "uuid"))
        else {
            return;
        };
        let stated = text(record, "agentId");
        if stated != Some(agent) {
            let name = RecordName::new(kind, uuid);
            self.facts.contradict(&name, "agentId", Json::of(&agent), Json::of(&stated));
        }
    }

    /// States the fields of a line beside its message.
    ///
    /// A line with several blocks stands for several lines of the other side, and 1.0 writes the
    /// lines of subagents again: these have a `uuid` of their own.
    fn state_line(&mut self, name: &RecordName, record: &Map<String, Value>, is_single: bool) {
        let is_old = text(record, "version").is_some_and(|version| version.starts_with("1."));
        let is_rewritten = is_old && record.get("isSidechain") == Some(&Value::Bool(true));
        let has_uuid = is_single && !is_rewritten;
        if !has_uuid {
            self.facts.renamed.insert(name.clone());
        }
        // It stays in the session that told it first, as in the stream.
        let previous = self.previous_session.as_deref();
        let is_of_next = copies::is_of_next_session(&self.facts, name, record, previous);
        for (field, value) in record.iter().filter(|(field, _)| match field.as_str() {
            "uuid" => has_uuid,
            "sessionId" => !is_of_next,
            field => !matches!(field, "message" | "type" | "tool_result_meta"),
        }) {
            let field = match field.as_str() {
                "aborted" => "isAbortedMidStream",
                other => other,
            };
            self.facts.set(name, &crate::parity::normalize(field), value);
        }
        // The stream has these below another name.
        if let Some(Value::Array(about)) = record.get("tool_result_meta") {
            for meta in about.iter().filter_map(Value::as_object) {
                for (from, to) in [
                    ("permission_decision", "permissionDecision"),
                    ("non_execution_kind", "toolDenialKind"),
                ] {
                    if let Some(value) = meta.get(from) {
                        self.facts.set(name, to, value);
                    }
                }
            }
        }
    }

    fn read_assistant(
        &mut self,
        record: &Map<String, Value>,
        message: &Map<String, Value>,
        is_stream: bool,
    ) {
        let Some(id) = text(message, "id").or_else(|| text(record, "uuid")) else { return };
        if is_stream {
            let conversation = text(record, "parent_tool_use_id").unwrap_or("");
            let replaced = self.previews.replaced_by(conversation, id);
            let drops = self.facts.version.as_deref().is_some_and(drops_cut_answers);
            self.facts.replaced_answers.extend(replaced.filter(|_| drops));
            if record.get("aborted") == Some(&Value::Bool(true)) {
                self.previews.abort(id);
            }
        }
        if record.get("isSidechain") == Some(&Value::Bool(true)) || self.runs.is_subagent_file {
            let messages = &mut self.facts.evidence.subagent_messages;
            messages.insert(RecordName::new("assistant", id));
        }
        let is_main = is_in_main(record);
        if is_main {
            self.read_answer_line(id, record, message, is_stream);
        }
        session::read_context(self, record, "context_usage");
        let is_whole = is_stream && is_main && self.previews.is_whole(id);
        self.state_message(id, message, is_stream, is_whole);
        if is_main {
            self.is_interrupted = false;
        }
        let blocks = content(message);
        // 2.1.160 has no other mark of a command that began a session.
        let is_empty = blocks.first().is_some_and(|block| block["text"] == "(no content)");
        self.has_reset |= std::mem::take(&mut self.is_new_session)
            && is_empty
            && text(message, "model") == Some("<synthetic>");
        let is_single = blocks.len() == 1;
        // The index is that of the line's first block; an answer that was not streamed is one line.
        let next = self.counts.entry(id.to_owned()).or_default();
        let first = record.get("apiBlockIndex").and_then(Value::as_u64).unwrap_or(*next);
        *next = first + blocks.len() as u64;
        for (index, block) in (first..).zip(blocks) {
            let call = block.get("id").and_then(Value::as_str).map(str::to_owned);
            let block_id = call.unwrap_or_else(|| format!("{id}:{index}"));
            let name = RecordName::new("assistant", &block_id);
            if !is_main {
                self.facts.variants.insert(name.clone(), Variant::Subagent);
            }
            self.state_line(&name, record, is_single);
            self.state_reason_on_line(&name, message, is_stream);
            self.facts.agree(&name, "message.content", &block);
            if block["input"]["run_in_background"] == true {
                self.facts.background.insert(block_id.clone());
            }
            if is_stream {
                self.previews.confirm(&mut self.facts, &name, (id, index), &block);
            }
            if let (true, Some(words)) = (is_main, block.get("text").and_then(Value::as_str)) {
                self.texts.push(words.to_owned());
            }
        }
    }

    /// States the fields of a message, which all its lines repeat.
    fn state_message(
        &mut self,
        id: &str,
        message: &Map<String, Value>,
        is_stream: bool,
        is_whole: bool,
    ) {
        let name = RecordName::new("assistant", id);
        self.compare_shape(&name, message, is_stream);
        if text(message, "model") == Some("<synthetic>") {
            self.facts.variants.insert(name.clone(), Variant::Synthetic);
        } else if is_whole {
            self.facts.variants.insert(name.clone(), Variant::Whole);
        }
        let reason = message.get("stop_reason").filter(|reason| !reason.is_null());
        let is_final = reason.is_some();
        let is_early = is_stream && self.previews.has_opening(id);
        let is_old = self.facts.version.as_deref().is_none_or(is_streamed_at_end);
        if let (true, false, Some(reason)) = (is_early, is_old, reason) {
            // A line precedes the end of its message, where the reason is first known.
            let missing = Json::of(&Value::Null);
            self.facts.contradict(&name, "message.stopReason", missing, Json::of(reason));
        }
        for (field, value) in message.iter().filter(|(field, _)| *field != "content") {
            let path = format!("message.{}", crate::parity::normalize(field));
            match (field.as_str(), value) {
                ("usage", Value::Object(usage)) => {
                    self.state_usage(&name, usage, is_stream, is_final);
                }
                // Lines of a stream and of old files are written before the message ends.
                (field, Value::Null) if FINAL.contains(&field) => {}
                _ => self.facts.agree(&name, &path, value),
            }
        }
    }

    /// States the stop reason on a line of the versions that write it before the message ends.
    ///
    /// Both sides have the same line; only the oldest may write the file before the stream.
    fn state_reason_on_line(
        &mut self,
        name: &RecordName,
        message: &Map<String, Value>,
        is_stream: bool,
    ) {
        let Some(reason) = message.get("stop_reason").filter(|reason| !reason.is_null()) else {
            return;
        };
        let version = self.facts.version.as_deref();
        // The stream of 1.0 does not name its version.
        let is_old = version.map_or(is_stream, is_streamed_at_end);
        let is_exact = version.is_some_and(is_stored_before_end);
        if is_old && is_stream {
            self.facts.allow(name, REASON_ON_LINE, Json::of(reason));
        } else if is_old || is_exact {
            self.facts.set(name, REASON_ON_LINE, reason);
        }
    }

    /// Compares which fields the lines of one message have: each has them all, but for versions
    /// that write the lines before the last one before the message ends.
    fn compare_shape(&mut self, name: &RecordName, message: &Map<String, Value>, is_stream: bool) {
        let is_unended = message.get("stop_reason").is_some_and(Value::is_null);
        let has_late_end = self.facts.version.as_deref().is_some_and(is_ended_on_last_line);
        if is_unended && has_late_end && !is_stream {
            return;
        }
        let usage = message.get("usage").map(field_paths).unwrap_or_default();
        let shape: Vec<String> = message.keys().cloned().chain(usage).collect();
        match self.shapes.get(name) {
            Some(known) if *known != shape => {
                let (first, second) = (Json::of(known), Json::of(&shape));
                self.facts.contradict(name, "message", first, second);
            }
            Some(_) => {}
            None => {
                self.shapes.insert(name.clone(), shape);
            }
        }
    }

    fn state_usage(
        &mut self,
        name: &RecordName,
        usage: &Map<String, Value>,
        is_stream: bool,
        is_final: bool,
    ) {
        if !usage.contains_key("output_tokens") {
            let missing = Json::of(&Value::Null);
            self.facts.contradict(name, OUTPUT_TOKENS, missing.clone(), missing);
        }
        for (field, value) in usage {
            let path = format!("message.usage.{}", crate::parity::normalize(field));
            match field.as_str() {
                "output_tokens" if is_stream && is_final => self.facts.agree(name, &path, value),
                "output_tokens" if is_stream => {
                    self.streamed_counts.push((name.clone(), value.clone()));
                }
                "output_tokens" => {
                    let counts = self.counted.entry(name.clone()).or_default();
                    counts.push((value.as_u64().unwrap_or(0), is_final));
                }
                _ => self.facts.agree(name, &path, value),
            }
        }
    }

    /// Compares the output tokens on the lines of a stream with those of the message.
    ///
    /// A line is streamed before its message ends, and has the count of the message's start; only
    /// old versions stream it afterwards.
    fn compare_counts(&mut self) {
        for (name, count) in std::mem::take(&mut self.streamed_counts) {
            let is_old = self.facts.version.as_deref().is_none_or(is_streamed_at_end);
            let is_first = self.facts.get(&name, AT_START).is_none();
            if is_old && is_first && self.facts.get(&name, OUTPUT_TOKENS).is_none() {
                // The count is final, but only the file may say so.
                self.facts.allow(&name, OUTPUT_TOKENS, Json::of(&count));
            }
            let is_known = [AT_START, OUTPUT_TOKENS].iter().any(|field| {
                self.facts.get(&name, field).is_some_and(|it| *it == Json::of(&count))
            });
            if !is_known {
                self.facts.agree(&name, AT_START, &count);
            }
        }
        if self.is_stream && self.facts.version.as_deref().is_some_and(is_stored_before_end) {
            self.facts.rename_beside(AT_START, OUTPUT_TOKENS, AT_END);
        } else {
            self.facts.forget(AT_START, OUTPUT_TOKENS);
        }
    }

    /// Refuses a message without a tier in a stream that has others with one: a provider names the
    /// tier of all messages, or of none.
    fn require_tiers(&mut self) {
        let messages = self
            .shapes
            .keys()
            .filter(|name| self.facts.variants.get(name) != Some(&Variant::Synthetic));
        let (with, without): (Vec<_>, Vec<_>) =
            messages.cloned().partition(|name| self.facts.get(name, SERVICE_TIER).is_some());
        if self.is_stream && !with.is_empty() {
            for name in without {
                self.facts.allow(&name, SERVICE_TIER, Json::of(&Value::Null));
            }
        }
    }

    /// States the output tokens of the messages of a file.
    ///
    /// A line may be written before its message ends: then the last line has the final count, and
    /// none before it has a higher one.
    fn state_counts(&mut self) {
        for (name, counts) in std::mem::take(&mut self.counted) {
            let last = counts.iter().rev().find(|(_, is_final)| *is_final);
            let Some((end, _)) = last else {
                // Old versions never stream the end of a subagent's message; both sides have the
                // same line.
                let is_old = self.facts.version.as_deref().is_some_and(is_streamed_at_end);
                if let (true, Some((count, _))) = (
                    is_old && self.facts.evidence.subagent_messages.contains(&name),
                    counts.first(),
                ) {
                    self.facts.agree(&name, OUTPUT_TOKENS, &Value::from(*count));
                    continue;
                }
                for (count, _) in &counts {
                    self.facts.agree(&name, AT_START, &Value::from(*count));
                }
                continue;
            };
            self.facts.agree(&name, OUTPUT_TOKENS, &Value::from(*end));
            for (count, is_final) in &counts {
                if count > end || (*is_final && count != end) {
                    self.facts.agree(&name, OUTPUT_TOKENS, &Value::from(*count));
                }
            }
        }
    }

    fn read_user(&mut self, record: &Map<String, Value>, message: &Map<String, Value>) {
        let blocks = content(message);
        if !self.is_stream {
            self.compare_contents(record, &blocks);
        }
        let (results, parts): (Vec<_>, Vec<_>) =
            blocks.into_iter().partition(|block| block["type"] == "tool_result");
        for block in &results {
            let Some(call) = block["tool_use_id"].as_str() else { continue };
            let name = RecordName::new("tool_result", call);
            if !self.facts.has(&name) && !self.facts.has(&RecordName::new("assistant", call)) {
                self.before_calls.insert(("tool_result", call.to_owned()));
            }
            let outcome = record.get("tool_use_result").or_else(|| record.get("toolUseResult"));
            self.read_started_tasks(outcome);
            if outcome.is_some_and(|it| it["isAsync"] == true || it["status"] == "async_launched") {
                self.facts.background.insert(call.to_owned());
            }
            if is_rejection(block) {
                self.facts.stopped.insert(call.to_owned());
            }
            if !self.is_stream {
                copies::compare_uuid(&mut self.facts, &name, record);
            }
            if copies::is_copy(&self.facts, &name, record, block) {
                let previous = self.previous_session.as_deref();
                let is_of_next = copies::is_of_next_session(&self.facts, &name, record, previous);
                copies::compare(&mut self.facts, &name, record, block, is_of_next);
                continue;
            }
            self.state_line(&name, record, true);
            self.facts.set(&name, "message.content", block);
            self.state_role(&name, message);
        }
        if let Some(words) = parts.first().and_then(|part| part["text"].as_str()) {
            self.read_notice(record, words);
        }
        if is_in_main(record) && !parts.is_empty() {
            let words = parts[0]["text"].as_str();
            self.read_output(words.unwrap_or(""));
            self.is_interrupted = words.is_some_and(|it| it.starts_with("[Request interrupted"));
        }
        if let (false, Some(uuid)) = (parts.is_empty(), text(record, "uuid")) {
            let name = RecordName::new("user", uuid);
            self.state_line(&name, record, true);
            self.facts.set(&name, "message.content", &Value::Array(parts));
            self.state_role(&name, message);
        }
    }

    /// Reads a text that may be the output of a command, which no model gave: in tags, or in a line
    /// of its own after the caveat.
    fn read_output(&mut self, text: &str) {
        let tagged = text
            .strip_prefix("<local-command-stdout>")
            .and_then(|text| text.strip_suffix("</local-command-stdout>"));
        if let Some(output) = tagged.or(self.is_after_caveat.then_some(text)) {
            self.facts.command_outputs.insert(output.trim().to_owned());
        }
        self.is_after_caveat = text.starts_with("<local-command-caveat>");
    }

    /// Compares the kinds of content on a line of a file with those of the line that it repeats.
    fn compare_contents(&mut self, record: &Map<String, Value>, blocks: &[Value]) {
        let Some(uuid) = text(record, "uuid") else { return };
        let kinds: Vec<Value> = blocks.iter().map(|block| block["type"].clone()).collect();
        let known = self.contents.entry(uuid.to_owned()).or_insert_with(|| kinds.clone());
        if *known != kinds {
            let (first, second) = (Json::of(&*known), Json::of(&kinds));
            let name = RecordName::new("user", uuid);
            self.facts.contradict(&name, "message.content.type", first, second);
        }
    }

    fn state_role(&mut self, name: &RecordName, message: &Map<String, Value>) {
        for (field, value) in message.iter().filter(|(field, _)| *field != "content") {
            self.facts.set(name, &format!("message.{field}"), value);
        }
    }

    /// Reads an event of the model's API.
    fn read_event(&mut self, record: &Map<String, Value>) {
        let Some(event) = record.get("event").and_then(Value::as_object) else { return };
        let conversation = text(record, "parent_tool_use_id").unwrap_or("");
        match text(event, "type").unwrap_or("") {
            "message_start" => {
                let Some(message) = event.get("message").and_then(Value::as_object) else { return };
                if let Some(id) = text(message, "id") {
                    self.previews.start(conversation, id);
                    self.previews.keep_opening(id, message);
                    if conversation.is_empty() {
                        self.open_answer(id, message);
                    }
                }
            }
            "message_delta" => {
                if let Some(id) = self.previews.message(conversation) {
                    self.previews.end(&id);
                    runs::check_end(self, &id, event);
                    previews::state_end(&mut self.facts, &id, event);
                    self.end_answer(&id, event);
                }
            }
            "message_stop" => {
                self.previews.stop(conversation);
                if let Some(id) = self.previews.message(conversation) {
                    let is_whole = record.get("abandoned_blocks").is_none_or(Value::is_null);
                    self.previews.require_report(&mut self.facts, &id, is_whole);
                    if is_whole {
                        self.stop_answer(&id);
                    }
                    // Before 2.1.311 a message that was cut off has a stop as well.
                    if is_whole && self.facts.version.as_deref().is_some_and(names_cut_messages) {
                        previews::require_end(&mut self.facts, &id);
                    }
                }
            }
            "content_block_start" => self.previews.start_block(conversation, event),
            "content_block_delta" => self.previews.grow(conversation, event),
            _ => {}
        }
    }
}
