//! States what Codex's records say, field by field.

mod canonical;
mod collaboration;
mod contents;
mod copies;
mod events;
mod kinds;
mod live;
mod mentions;
mod model_order;
mod outputs;
mod phases;
mod places;
mod printed;
mod stored;
mod unlisted;
mod usage;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use threadfold_core::Json;

use collaboration::Collaboration;
use live::Live;
use mentions::Mentions;
use outputs::Outputs;
use printed::PrintedFacts;
use stored::StoredFacts;
use unlisted::UnlistedCalls;

use crate::codex::wire::with_underscores;
use crate::parity::{FactReader, Facts, RecordName};
use crate::record::{FeedKind, FeedLine};

/// The tool that runs a script of the model, whose calls have ids of their own.
const SCRIPT: &str = "exec";

pub(super) use collaboration::call_of;

/// Returns a reader of facts.
pub(super) fn reader() -> Box<dyn FactReader> {
    Box::<Reader>::default()
}

#[derive(Default)]
struct Reader {
    facts: Facts,
    /// Calls that have no output yet: those of one response of the model.
    together: BTreeSet<String>,
    /// The turns that have not ended, by thread.
    open_turns: BTreeMap<String, String>,
    /// The main thread.
    thread: String,
    mentions: Mentions,
    /// The next ordinal of the file.
    ordinal: Option<u64>,
    /// When each item began that has not ended.
    starts: BTreeMap<String, Value>,
    /// The totals of tokens of each thread.
    totals: BTreeMap<String, Vec<Value>>,
    /// A review is running: live views name another thread and turn than the file does.
    is_in_review: bool,
    /// The file is of a review.
    is_review: bool,
    /// The file has a review, as older versions write it.
    has_review: bool,
    live: Live,
    printed: PrintedFacts,
    outputs: Outputs,
    collaboration: Collaboration,
    stored: StoredFacts,
    unlisted: UnlistedCalls,
    /// The turn of the file that runs.
    stored_turn: String,
    /// The stream has lines of `codex exec`.
    has_printed: bool,
    is_reading_file: bool,
    /// The first thread that the app-server announced.
    first_thread: Option<String>,
    /// The thread whose history the file copies.
    copied_thread: Option<String>,
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
                self.is_reading_file = true;
                self.check_ordinal(&record);
                self.read_stored(subagent, &record);
            }
        }
    }

    fn finish(mut self: Box<Self>) -> Facts {
        self.note_parallel();
        self.facts.has_ended = self.open_turns.is_empty();
        std::mem::take(&mut self.mentions).finish(&mut self.facts);
        std::mem::take(&mut self.live).finish(&mut self.facts);
        std::mem::take(&mut self.printed).finish(&mut self.facts);
        std::mem::take(&mut self.outputs).finish(&mut self.facts);
        std::mem::take(&mut self.collaboration).finish(&mut self.facts);
        // What was stored in a turn that was cut off need not be reported.
        if !self.is_reading_file {
            for (thread, turn) in std::mem::take(&mut self.open_turns) {
                for (kind, id) in [("reported_usage", &thread), ("item_turn", &turn)] {
                    self.facts.remove(&RecordName::new(kind, id));
                }
            }
        }
        let version = minor(self.facts.version.as_deref());
        std::mem::take(&mut self.stored).finish(&mut self.facts, version);
        if self.has_printed {
            self.facts.remove(&RecordName::new("view", "app-server alone"));
        }
        self.facts
    }
}

/// Returns the second number of a version; 0 if there is none.
fn minor(version: Option<&str>) -> u32 {
    let number = version.and_then(|it| it.split('.').nth(1)?.parse().ok());
    number.unwrap_or(0)
}

fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name)?.as_str()
}

impl Reader {
    fn read_streamed(&mut self, record: &Value) {
        let message = record.get("msg").unwrap_or(record);
        // A record without a type is a message of the app-server.
        if text(record, "type").is_some() {
            self.has_printed = true;
            self.printed.read(&mut self.facts, record);
            self.unlisted.read_printed(&mut self.facts, record);
            if text(record, "type") == Some("item.completed") {
                self.outputs.read_item(&mut self.facts, &record["item"]);
                self.collaboration.read_item(&mut self.facts, &self.thread, &record["item"]);
            }
            self.read_printed(record);
            return;
        }
        let method = text(message, "method").unwrap_or("");
        self.state_view();
        if method.starts_with("turn/") {
            self.facts.remove(&RecordName::new("last_turn", ""));
        }
        // After a resume, the tokens are those of a turn that may be gone.
        if method != "thread/tokenUsage/updated" {
            self.mentions.read(message);
        }
        // The turn inside a review is only announced.
        if self.is_in_review && method == "turn/started" {
            self.mentions.read(message);
        }
        if text(record, "dir") == Some("client") {
            return;
        }
        self.live.read(&mut self.facts, message);
        self.unlisted.read_sent(&mut self.facts, method, &message["params"]);
        self.read_sent(method, &message["params"]);
    }

    /// States which views a side can be compared with.
    fn state_view(&mut self) {
        for name in ["app-server", "app-server alone"] {
            let view = RecordName::new("view", name);
            self.facts.set(&view, "name", &Value::from(name));
        }
    }

    /// Reads a line of `codex exec`.
    fn read_printed(&mut self, record: &Value) {
        match text(record, "type").unwrap_or("") {
            "turn.started" => {
                self.state_last_turn(false);
                self.open_turns.insert(String::new(), String::new());
            }
            "turn.completed" => {
                self.state_last_turn(true);
                self.open_turns.remove("");
                let thread = self.thread.clone();
                self.state_usage(&thread, &record["usage"]);
                self.state_total(&record["usage"], None);
            }
            "turn.failed" => {
                self.state_last_turn(true);
                self.open_turns.remove("");
            }
            "thread.started" => {
                self.thread = text(record, "thread_id").unwrap_or("").to_owned();
                let thread = self.thread.clone();
                self.state_session(&thread);
            }
            _ => {}
        }
        contents::state_forms(&mut self.facts);
    }

    /// States whether the last turn that `codex exec` printed has ended.
    fn state_last_turn(&mut self, ended: bool) {
        let record = RecordName::new("last_turn", "");
        self.facts.set(&record, "ended", &Value::Bool(ended));
    }

    /// Reads a message of the app-server.
    fn read_sent(&mut self, method: &str, params: &Value) {
        let thread = text(params, "threadId").unwrap_or("").to_owned();
        let turn = text(params, "turnId").unwrap_or("").to_owned();
        match method {
            "turn/started" => {
                let id = text(&params["turn"], "id").unwrap_or("").to_owned();
                self.open_turns.insert(thread, id);
                self.state_turn("turn_start", &params["turn"]);
                self.state_begun(&params["turn"]);
            }
            "turn/completed" => {
                let turn = &params["turn"];
                let open = self.open_turns.remove(&thread).unwrap_or_default();
                let ended = text(turn, "id").unwrap_or("");
                // A review is a turn inside another one.
                if !open.is_empty() && open != ended && !self.live.is_review(ended) {
                    self.contradict("turn", ended, "end", &open.as_str().into(), &turn["id"]);
                }
                let is_aborted = text(turn, "status") == Some("interrupted");
                let kind = if is_aborted { "turn_abort" } else { "turn_end" };
                // That the turn of a review begins is not always reported.
                let id = text(turn, "id").unwrap_or("");
                if self.live.is_review(id) && !self.live.has_begun(id) {
                    let names = ["id", "startedAt", "rootTurnId"];
                    let start = names.iter().map(|it| ((*it).to_owned(), turn[*it].clone()));
                    self.state_turn("turn_start", &Value::Object(start.collect()));
                }
                self.state_turn(kind, turn);
                self.state_begun(turn);
                self.state_outcome(turn, text(turn, "status").unwrap_or(""));
            }
            // It follows the end of a turn; what comes after it was not cut off.
            "thread/status/changed" if text(&params["status"], "type") == Some("idle") => {
                self.open_turns.remove(&thread);
            }
            "thread/started" => {
                let id = text(&params["thread"], "id").map(str::to_owned);
                self.first_thread = self.first_thread.take().or(id);
                self.state_thread(&params["thread"]);
            }
            "item/started" => {
                self.state_start(params);
                let open = self.open_turns.get(&thread).cloned().unwrap_or_default();
                let is_review = self.is_in_review || self.live.is_review(&turn);
                // What begins, begins in the turn that runs.
                if !open.is_empty() && !turn.is_empty() && open != turn && !is_review {
                    let id = text(&params["item"], "id").unwrap_or("").to_owned();
                    self.contradict("item", &id, "turnId", &open.into(), &params["turnId"]);
                }
                if !self.is_in_review && !self.live.is_review(&turn) {
                    contents::state(&mut self.facts, "turn", &turn);
                }
                let id = text(&params["item"], "id").unwrap_or("");
                // A review does not report the end of its texts.
                let kind = text(&params["item"], "type");
                if self.is_in_review && matches!(kind, Some("agentMessage" | "reasoning")) {
                    contents::state_in(&mut self.facts, "response_id", id, &thread);
                }
                contents::state(&mut self.facts, "item_turn", &turn);
                contents::state(&mut self.facts, "item_id", &format!("{turn} {id}"));
            }
            "item/completed" => {
                self.note_review(&params["item"]);
                self.state_item(params);
                let item = &params["item"];
                // The files of subagents have no events of calls.
                if self.first_thread.as_ref().is_none_or(|it| *it == thread) {
                    events::state_streamed(&mut self.facts, params);
                }
                contents::state_streamed(&mut self.facts, item, &thread);
                self.outputs.read_item(&mut self.facts, item);
                self.collaboration.read_item(&mut self.facts, &thread, item);
                if text(item, "type") == Some("agentMessage") {
                    let words = text(item, "text").unwrap_or("");
                    contents::state_spoken(&mut self.facts, words, item);
                    contents::state_phase(&mut self.facts, words, item);
                    let phase = RecordName::new("response_phase", text(item, "id").unwrap_or(""));
                    self.facts.set(&phase, "phase", &item["phase"]);
                }
                if matches!(text(item, "type"), Some("agentMessage" | "reasoning")) {
                    let id = text(item, "id").unwrap_or("");
                    contents::state_in(&mut self.facts, "response_id", id, &thread);
                }
            }
            "thread/tokenUsage/updated" => {
                self.check_total(&thread, &params["tokenUsage"]);
                self.state_usage(&thread, &params["tokenUsage"]["total"]);
                self.state_total(
                    &params["tokenUsage"]["total"],
                    Some((&thread, &params["tokenUsage"])),
                );
            }
            "account/rateLimits/updated" => {
                contents::state(&mut self.facts, "form", "limits");
                self.state_limits(&params["rateLimits"]);
            }
            "error" if params["willRetry"] == Value::Bool(false) => {
                self.state_failure(&turn, &params["error"]);
            }
            _ => {}
        }
        contents::state_forms(&mut self.facts);
    }

    /// States what both sides have of a thread.
    fn state_thread(&mut self, thread: &Value) {
        let record = RecordName::new("thread", text(thread, "id").unwrap_or(""));
        let get = |names: [&str; 2]| {
            names.iter().find_map(|it| thread.get(*it)).filter(|it| !it.is_null())
        };
        let version = get(["cliVersion", "cli_version"]).and_then(Value::as_str).unwrap_or("");
        let minor = minor(Some(version));
        // The app-server reports the commit of a fork, and in the first version of every thread.
        if let Some(git) = get(["gitInfo", "git"]) {
            let id = text(thread, "id").unwrap_or("").to_owned();
            self.state_commit(&id, git);
        }
        // The first version whose app-server reports each of them.
        for (names, since) in [
            (["cliVersion", "cli_version"], 0),
            (["cwd", "cwd"], 0),
            (["modelProvider", "model_provider"], 0),
            (["source", "source"], 0),
            (["forkedFromId", "forked_from_id"], 128),
            (["sessionId", "session_id"], 147),
            (["historyMode", "history_mode"], 147),
            (["parentThreadId", "parent_thread_id"], 147),
            (["originator", "originator"], 157),
        ] {
            if let Some(value) = get(names).filter(|_| minor >= since) {
                self.facts.agree(&record, names[0], value);
            }
        }
    }

    /// States that a side has a turn.
    fn state_begun(&mut self, turn: &Value) {
        let id = text(turn, "turn_id").or_else(|| text(turn, "id")).unwrap_or("");
        contents::state(&mut self.facts, "begun_turn", id);
    }

    /// States the commit that a thread began with.
    fn state_commit(&mut self, id: &str, git: &Value) {
        let record = RecordName::new("commit", id);
        let get = |names: [&str; 2]| names.iter().find_map(|it| git.get(*it)).cloned();
        for names in [["sha", "commit_hash"], ["branch", "branch"], ["originUrl", "repository_url"]]
        {
            self.facts.set(&record, names[0], &get(names).unwrap_or_default());
        }
    }

    /// States how a turn ended, with its error.
    fn state_outcome(&mut self, turn: &Value, status: &str) {
        let id = text(turn, "turn_id").or_else(|| text(turn, "id")).filter(|it| it.len() > 4);
        let Some(id) = id.map(str::to_owned) else { return };
        if status != "interrupted" {
            let record = RecordName::new("turn_end", &id);
            self.facts.agree(&record, "status", &Value::from(status));
        }
        self.state_failure(&id, &turn["error"]);
    }

    /// States why a turn failed.
    fn state_failure(&mut self, turn: &str, error: &Value) {
        if error.is_null() {
            return;
        }
        let record = RecordName::new("failure", turn);
        self.facts.agree(&record, "message", &error["message"]);
        let kind = error.get("codexErrorInfo").or_else(|| error.get("codex_error_info"));
        // A kind with details is spelled in two ways.
        if let Some(Value::Object(details)) = kind {
            let spelled = details.iter().map(|(name, details)| {
                let details = details.as_object().into_iter().flatten();
                let details = details.map(|(name, value)| (with_underscores(name), value.clone()));
                (with_underscores(name), Value::Object(details.collect()))
            });
            // As one text, so that a missing detail is another value.
            let spelled = Value::Object(spelled.collect()).to_string();
            self.facts.agree(&record, "kind", &Value::from(spelled));
        } else {
            let kind = kind.and_then(Value::as_str).map(with_underscores);
            // The app-server has no word for it, which 0.169 stores.
            let kind = kind.map(|it| match it.as_str() {
                "invalid_prompt" if self.is_reading_file => "other".to_owned(),
                _ => it,
            });
            self.facts.agree(&record, "kind", &Value::from(kind));
        }
        // Files do not have the details.
        if !self.is_reading_file {
            let record = RecordName::new("failure_details", turn);
            self.facts.agree(&record, "details", &error["additionalDetails"]);
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
        self.facts.set(&record, "id", &Value::from(id));
        for (name, stored) in [
            ("startedAt", "started_at"),
            ("completedAt", "completed_at"),
            ("durationMs", "duration_ms"),
            ("rootTurnId", "root_turn_id"),
        ] {
            let value = turn.get(name).or_else(|| turn.get(stored)).filter(|it| !it.is_null());
            // Of these versions only the file names the turn that a turn is part of.
            let is_stored_alone = name == "rootTurnId"
                && self.is_reading_file
                && (148..166).contains(&minor(self.facts.version.as_deref()));
            // Files of these versions do not repeat at the end of a turn when it began; the stream does,
            // which is checked there.
            let is_streamed_alone = name == "startedAt"
                && kind != "turn_start"
                && !self.is_reading_file
                && (1..147).contains(&self.live.version());
            if let Some(value) = value.filter(|_| !is_stored_alone && !is_streamed_alone) {
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

    /// Notes the calls of one response, which ran at the same time.
    fn note_parallel(&mut self) {
        let together = std::mem::take(&mut self.together);
        if together.len() > 1 {
            self.facts.parallel_calls.push(together);
        }
    }

    /// States how a turn ended. Older files do not say that it failed.
    fn state_end(&mut self, payload: &Value) {
        let is_newer = self.facts.history.as_deref() == Some("paginated");
        match payload.get("error").filter(|it| !it.is_null()) {
            Some(_) => self.state_outcome(payload, "failed"),
            None if is_newer => self.state_outcome(payload, "completed"),
            None => {
                let record = RecordName::new("turn_end", text(payload, "turn_id").unwrap_or(""));
                for status in ["completed", "failed"] {
                    self.facts.allow(&record, "status", Json::string(status));
                }
            }
        }
    }

    fn read_stored(&mut self, subagent: Option<&str>, record: &Value) {
        let payload = &record["payload"];
        self.stored.read(&mut self.facts, record, subagent);
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
            self.state_view();
            self.state_thread(payload);
            // The history that a fork copies begins with the record of the other thread.
            if self.copied_thread.as_deref() != text(payload, "id") {
                self.copied_thread = text(payload, "forked_from_id").map(str::to_owned);
            }
            self.is_review = payload["source"]["subagent"] == "review";
            let thread = text(payload, "id").unwrap_or("");
            if self.thread.is_empty() {
                self.thread = thread.to_owned();
                self.state_session(thread);
            }
        }
        let thread = subagent.unwrap_or(&self.thread);
        self.collaboration.read_stored(&mut self.facts, thread, record);
        let passed = &payload["internal_chat_message_metadata_passthrough"];
        let is_context = text(record, "type") == Some("turn_context");
        let turn = text(if is_context { payload } else { passed }, "turn_id");
        if let Some(turn) = turn {
            contents::state(&mut self.facts, "turn", turn);
            self.stored_turn = turn.to_owned();
        }
        let call = text(payload, "call_id").map(str::to_owned);
        match text(payload, "type").unwrap_or("") {
            "function_call" | "custom_tool_call" => {
                self.facts.evidence.has_scripts |= text(payload, "name") == Some(SCRIPT);
                self.outputs.read_call(payload);
                if subagent.is_none() {
                    self.unlisted.read_call(payload);
                }
                self.together.extend(call);
            }
            "function_call_output" | "custom_tool_call_output" => {
                self.outputs.read_output(&mut self.facts, payload);
                self.unlisted.read_output(&mut self.facts, &self.stored_turn, payload);
                self.note_parallel();
            }
            // Live views do not report how the turn of a review ends, or one that ended with its caller.
            "task_complete" if self.is_review => {}
            "turn_aborted" if subagent.is_some() => {}
            "task_started" => {
                self.state_turn("turn_start", payload);
                self.state_begun(payload);
            }
            "turn_aborted" => self.state_turn("turn_abort", payload),
            "task_complete" => {
                self.state_turn("turn_end", payload);
                self.state_begun(payload);
                self.state_end(payload);
            }
            "item_completed" => {
                self.note_review(&payload["item"]);
                self.outputs.read_stored_item(&mut self.facts, &payload["item"]);
                self.state_item(payload);
                for name in ["thread_id", "turn_id"] {
                    if text(payload, name).is_none() {
                        self.contradict("item", "", name, &Value::Null, payload);
                    }
                }
                let turn = text(payload, "turn_id").unwrap_or("");
                contents::state(&mut self.facts, "turn", turn);
                contents::state(&mut self.facts, "item_turn", turn);
                // A command is a block; one that was interrupted early was not reported.
                if text(&payload["item"], "type") != Some("CommandExecution") {
                    let id = text(&payload["item"], "id").unwrap_or("");
                    contents::state(&mut self.facts, "item_id", &format!("{turn} {id}"));
                }
            }
            "token_count" => {
                let thread = subagent.unwrap_or(&self.thread).to_owned();
                self.check_total(&thread, &payload["info"]);
                let info = &payload["info"];
                self.state_usage(&thread, &info["total_token_usage"]);
                self.state_total(&info["total_token_usage"], Some((&thread, info)));
                contents::state(&mut self.facts, "form", "limits");
                self.state_limits(&payload["rate_limits"]);
            }
            _ => {}
        }
    }
}
