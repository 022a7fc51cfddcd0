//! What the app-server reports more than once, and must report in the same way: an item when it
//! begins, as it grows and when it ends; a turn when it begins and when it ends.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use threadfold_core::Json;

use super::{canonical, contents, kinds, minor, text};
use crate::parity::{Facts, RecordName};

/// What an item has from its beginning on, if a call is all that it is.
const STABLE: [&str; 12] = [
    "type",
    "id",
    "command",
    "cwd",
    "processId",
    "source",
    "commandActions",
    "tool",
    "server",
    "prompt",
    "senderThreadId",
    "path",
];

/// What an item has from its beginning on, beside [`STABLE`], if it is there at all.
const REPEATED: [&str; 8] =
    ["agentPath", "agentThreadId", "arguments", "clientId", "content", "kind", "kinds", "review"];

/// What the messages of the app-server reported so far.
#[derive(Default)]
pub(super) struct Live {
    /// The beginning of each item.
    started: BTreeMap<String, Value>,
    /// Each item that ended, as it was reported.
    ended: BTreeMap<String, Value>,
    /// The beginning of each turn.
    turns: BTreeMap<String, Value>,
    /// Turns in which a review ran: their beginning is not always reported.
    reviews: BTreeSet<String>,
    /// Threads in which a turn began.
    threads: BTreeSet<String>,
    is_in_review: bool,
    /// Commands that began in a turn, with their threads and turns.
    commands: BTreeMap<String, (String, String)>,
    /// Items that began in a review.
    hidden: BTreeSet<String>,
    /// The version of the first thread.
    version: u32,
    /// What was streamed of an item: by method, item and part.
    deltas: BTreeMap<(String, String, u64), String>,
    /// How many parts of its reasoning an item began.
    parts: BTreeMap<String, u64>,
    /// How often each turn is mentioned.
    mentioned_turns: BTreeMap<String, u32>,
}

fn contradict(facts: &mut Facts, name: (&str, &str), field: &str, values: (&Value, &Value)) {
    let record = RecordName::new(name.0, name.1);
    facts.contradict(&record, field, Json::of(values.0), Json::of(values.1));
}

impl Live {
    /// Reads a message of the server.
    pub(super) fn read(&mut self, facts: &mut Facts, message: &Value) {
        let Some(method) = text(message, "method") else { return };
        let params = &message["params"];
        if !kinds::is_sent(method) {
            contradict(facts, ("message", ""), "method", (&message["method"], &Value::Null));
        }
        check_place(facts, method, params);
        let is_count = method == "thread/tokenUsage/updated";
        let turns = [text(params, "turnId").filter(|_| !is_count), text(&params["turn"], "id")];
        for turn in turns.into_iter().flatten() {
            *self.mentioned_turns.entry(turn.to_owned()).or_default() += 1;
        }
        // A question names the call that it is about.
        let is_delta = message.get("id").is_none();
        if let Some(item) = text(params, "itemId").filter(|_| is_delta)
            && !self.started.contains_key(item)
            && self.threads.contains(text(params, "threadId").unwrap_or(""))
        {
            contradict(facts, ("item", item), "start", (&params["itemId"], &Value::Null));
        }
        match method {
            "item/started" => {
                let id = text(&params["item"], "id").unwrap_or("").to_owned();
                if text(&params["item"], "type") == Some("enteredReviewMode") {
                    self.reviews.extend(text(params, "turnId").map(str::to_owned));
                }
                if text(&params["item"], "type") == Some("commandExecution") {
                    let place = ["threadId", "turnId"].map(|it| text(params, it).unwrap_or(""));
                    let [thread, turn] = place.map(str::to_owned);
                    self.commands.insert(id.clone(), (thread, turn));
                }
                if self.is_in_review {
                    self.hidden.insert(id.clone());
                }
                check_start(facts, &id, params);
                check_collaboration(facts, &id, params);
                self.threads.extend(text(params, "threadId").map(str::to_owned));
                self.started.insert(id, params.clone());
            }
            "item/completed" => self.end_item(facts, params),
            "item/reasoning/summaryPartAdded" => self.begin_part(facts, params),
            "thread/started" => {
                let thread = &params["thread"];
                let id = text(thread, "id").unwrap_or("");
                self.version = minor(text(thread, "cliVersion"));
                // A file is named after its thread.
                let is_file = |path: &str| {
                    path.contains(id) && (path.ends_with(".jsonl") || path.ends_with(".zst"))
                };
                let is_named = text(thread, "path").is_none_or(is_file);
                if id.is_empty() || !is_named || thread.get("path").is_none() {
                    contradict(facts, ("thread", id), "path", (&thread["path"], &thread["id"]));
                }
            }
            "turn/started" => {
                // A turn that was killed has not ended, and turns of older versions have its name again.
                let thread = text(params, "threadId").unwrap_or("");
                self.commands.retain(|_, (it, _)| it != thread);
                self.threads.insert(thread.to_owned());
                let has_view = params["turn"].get("itemsView").is_some();
                if self.version >= 147 && !has_view {
                    contradict(facts, ("turn", ""), "itemsView", (&Value::Null, params));
                }
                let id = text(&params["turn"], "id").unwrap_or("").to_owned();
                self.turns.insert(id, params["turn"].clone());
                self.check_turn(facts, &params["turn"], "inProgress");
            }
            "turn/completed" => {
                let status = text(&params["turn"], "status").unwrap_or("").to_owned();
                self.check_turn(facts, &params["turn"], &status);
                self.end_turn(facts, &params["turn"]);
                if status == "completed" {
                    self.check_calls(facts, text(&params["turn"], "id").unwrap_or(""));
                }
            }
            _ => {}
        }
        let is_part = method.ends_with("elta") && method.starts_with("item/");
        if is_part && (text(params, "itemId").is_none() || text(params, "delta").is_none()) {
            contradict(facts, ("message", method), "delta", (&Value::Null, params));
        }
        if let (Some(item), Some(delta)) = (text(params, "itemId"), text(params, "delta")) {
            let number =
                ["summaryIndex", "contentIndex"].iter().find_map(|it| params[*it].as_u64());
            let key = (method.to_owned(), item.to_owned(), number.unwrap_or(0));
            *self.deltas.entry(key).or_default() += delta;
            if method.starts_with("item/reasoning/") && number.is_none() {
                contradict(facts, ("item", item), "index", (&Value::Null, &params["delta"]));
            }
        }
    }

    /// States what began and never ended, so that it can be compared with how the file ends it.
    pub(super) fn finish(self, facts: &mut Facts) {
        for (id, params) in self.started.iter().filter(|(id, _)| !self.ended.contains_key(*id)) {
            state_start(facts, id, params, params.get("startedAtMs"));
            match text(&params["item"], "type").unwrap_or("") {
                "commandExecution" => {
                    for kind in ["aborted_call", "late_item"] {
                        contents::state(facts, kind, id);
                    }
                }
                // A review begins texts that it does not report.
                "agentMessage" | "reasoning" | "userMessage" | "subAgentActivity"
                    if !self.hidden.contains(id) =>
                {
                    state_end(facts, id, false);
                }
                _ => {}
            }
        }
        // Longer names are checked with those of threads.
        let is_single = |(id, times): &(&String, &u32)| **times == 1 && id.len() <= 20;
        for (turn, _) in self.mentioned_turns.iter().filter(is_single) {
            contradict(facts, ("turn", turn), "id", (&turn.as_str().into(), &Value::Null));
        }
    }

    /// Returns the version that the server named; 0 if it named none.
    pub(super) fn version(&self) -> u32 {
        self.version
    }

    /// Returns whether the beginning of a turn was reported.
    pub(super) fn has_begun(&self, turn: &str) -> bool {
        self.turns.contains_key(turn)
    }

    /// Returns whether a review ran in a turn.
    pub(super) fn is_review(&self, turn: &str) -> bool {
        self.reviews.contains(turn)
    }

    fn begin_part(&mut self, facts: &mut Facts, params: &Value) {
        let item = text(params, "itemId").unwrap_or("");
        let parts = self.parts.entry(item.to_owned()).or_default();
        if params["summaryIndex"].as_u64() != Some(*parts) {
            let expected = Value::from(*parts);
            contradict(facts, ("item", item), "part", (&expected, &params["summaryIndex"]));
        }
        *parts += 1;
    }

    /// Checks that an item ends as what began, and that it is what was streamed of it.
    fn end_item(&mut self, facts: &mut Facts, params: &Value) {
        let item = &params["item"];
        let id = text(item, "id").unwrap_or("");
        let Some(start) = self.started.get(id) else {
            // Who joins a turn that is running has not seen its items begin.
            if self.threads.contains(text(params, "threadId").unwrap_or("")) {
                contradict(facts, ("item", id), "start", (&Value::Null, item));
            }
            return;
        };
        let (begun, ended) = (canonical::item(&start["item"]), canonical::item(item));
        let has_process = begun.get("processId").is_some();
        for name in STABLE {
            // A command that waits for a permission has no process yet.
            let has_begun = !has_process && ended.get("processId").is_some();
            let is_open = matches!(name, "processId" | "source") && has_begun;
            let value = begun.get(name).filter(|_| !is_open);
            if let Some(value) = value.filter(|it| ended.get(name) != Some(*it)) {
                contradict(facts, ("item", id), name, (value, &ended[name]));
            }
        }
        let is_value = |it: &&Value| match it {
            Value::String(text) => !text.is_empty(),
            Value::Array(list) => !list.is_empty(),
            Value::Object(fields) => !fields.is_empty(),
            other => !other.is_null(),
        };
        for name in REPEATED {
            let value = begun.get(name).filter(is_value);
            if let Some(value) = value.filter(|it| ended.get(name) != Some(*it)) {
                contradict(facts, ("item", id), name, (value, &ended[name]));
            }
        }
        self.check_times(facts, id, params);
        check_outcome(facts, id, item);
        check_command(facts, id, item);
        check_collaboration(facts, id, params);
        self.check_streamed(facts, id, item);
        if matches!(
            text(item, "type"),
            Some("agentMessage" | "reasoning" | "userMessage" | "subAgentActivity")
        ) {
            state_end(facts, id, true);
        }
        match text(item, "type").unwrap_or("") {
            "enteredReviewMode" => self.is_in_review = true,
            "exitedReviewMode" => self.is_in_review = false,
            _ => {}
        }
        self.ended.insert(id.to_owned(), item.clone());
    }

    /// Checks that the times inside an item are those of its messages.
    fn check_times(&self, facts: &mut Facts, id: &str, params: &Value) {
        let item = &params["item"];
        let start = &self.started[id];
        let pairs = [
            ("startedAtMs", &start["startedAtMs"], &item["startedAtMs"]),
            ("completedAtMs", &params["completedAtMs"], &item["completedAtMs"]),
        ];
        let has_times = pairs.iter().any(|(name, _, _)| item.get(*name).is_some());
        for (name, outside, inside) in pairs {
            if has_times && outside != inside {
                contradict(facts, ("item", id), name, (outside, inside));
            }
        }
        let has_both = [&start["startedAtMs"], &params["completedAtMs"]].map(Value::is_number);
        if has_both[0] != has_both[1] {
            let times = (&start["startedAtMs"], &params["completedAtMs"]);
            contradict(facts, ("item", id), "times", times);
        }
    }

    /// Checks that an item is what was streamed of it.
    fn check_streamed(&mut self, facts: &mut Facts, id: &str, item: &Value) {
        let streamed = |method: &str, part: u64| {
            let key = (format!("item/{method}"), id.to_owned(), part);
            self.deltas.get(&key).map(String::as_str)
        };
        let mut wrong: Vec<(&str, Value, Value)> = Vec::new();
        match text(item, "type").unwrap_or("") {
            kind @ ("agentMessage" | "plan") => {
                let whole = text(item, "text").unwrap_or("");
                let begun = text(&self.started[id]["item"], "text").unwrap_or("");
                let found = streamed(&format!("{kind}/delta"), 0);
                if found.unwrap_or(if begun == whole { whole } else { "" }) != whole {
                    wrong.push(("text", found.into(), whole.into()));
                }
            }
            "reasoning" => {
                for (name, method) in
                    [("summary", "reasoning/summaryTextDelta"), ("content", "reasoning/textDelta")]
                {
                    let parts = item[name].as_array().into_iter().flatten();
                    for (number, part) in (0..).zip(parts) {
                        let found = streamed(method, number).unwrap_or("");
                        if part.as_str() != Some(found) {
                            wrong.push((name, found.into(), part.clone()));
                        }
                    }
                }
                let parts = self.parts.get(id).copied().unwrap_or(0);
                let summary = item["summary"].as_array().map_or(0, |it| it.len() as u64);
                if parts != summary {
                    wrong.push(("parts", parts.into(), summary.into()));
                }
            }
            "commandExecution" => {
                let output = text(item, "aggregatedOutput").unwrap_or("");
                let found = streamed("commandExecution/outputDelta", 0).unwrap_or("");
                if !output.contains(found) {
                    wrong.push(("output", found.into(), output.into()));
                }
            }
            _ => {}
        }
        for (field, first, second) in wrong {
            contradict(facts, ("item", id), field, (&first, &second));
        }
    }

    /// Checks that the commands of a review have ended; some versions do not report that of all.
    fn check_calls(&self, facts: &mut Facts, turn: &str) {
        // A process may outlive its turn, but not a review.
        if !self.is_review(turn) || (110..140).contains(&self.version) {
            return;
        }
        let open = self.commands.iter().filter(|(_, (_, it))| it == turn);
        for (id, _) in open.filter(|(id, _)| !self.ended.contains_key(*id)) {
            contradict(facts, ("item", id), "end", (&id.as_str().into(), &Value::Null));
        }
    }

    /// Checks that a turn has the status that its error implies, and repeats items as they are.
    fn check_turn(&self, facts: &mut Facts, turn: &Value, status: &str) {
        let id = text(turn, "id").unwrap_or("");
        let is_known = matches!(status, "inProgress" | "completed" | "failed" | "interrupted");
        let has_failed = turn.get("error").is_some_and(|it| !it.is_null());
        if !is_known || text(turn, "status") != Some(status) || has_failed != (status == "failed") {
            contradict(facts, ("turn", id), "status", (&turn["status"], &turn["error"]));
        }
        let Some(items) = turn["items"].as_array() else {
            contradict(facts, ("turn", id), "items", (&turn["items"], &Value::Null));
            return;
        };
        if let Some(wrong) = items.iter().find(|it| text(it, "id").is_none()) {
            contradict(facts, ("turn", id), "items", (wrong, &Value::Null));
        }
        // A review begins with a prompt that is not reported again.
        for item in items.iter().filter(|_| status != "inProgress") {
            let known = text(item, "id").and_then(|id| self.ended.get(id));
            if known != Some(item) {
                contradict(facts, ("turn", id), "items", (known.unwrap_or(&Value::Null), item));
            }
        }
        let view = if items.is_empty() { "notLoaded" } else { "summary" };
        if text(turn, "itemsView").is_some_and(|it| it != view) {
            contradict(facts, ("turn", id), "itemsView", (&view.into(), &turn["itemsView"]));
        }
    }

    /// Checks that a turn ends as it began.
    fn end_turn(&self, facts: &mut Facts, turn: &Value) {
        let id = text(turn, "id").unwrap_or("");
        let Some(start) = self.turns.get(id) else {
            if self.mentioned_turns.get(id).is_none_or(|times| *times == 1) {
                contradict(facts, ("turn", id), "start", (&Value::Null, turn));
            }
            return;
        };
        if start.get("startedAt") != turn.get("startedAt") {
            let times = (&start["startedAt"], &turn["startedAt"]);
            contradict(facts, ("turn", id), "startedAt", times);
        }
        if start.get("itemsView").is_some() != turn.get("itemsView").is_some() {
            let views = (&start["itemsView"], &turn["itemsView"]);
            contradict(facts, ("turn", id), "itemsView", views);
        }
    }
}

/// Checks that a message about an item or a turn names its thread and its turn.
fn check_place(facts: &mut Facts, method: &str, params: &Value) {
    let is_about = |prefixes: &[&str]| prefixes.iter().any(|it| method.starts_with(it));
    let is_thread = is_about(&["item/", "turn/", "thread/"]) && method != "thread/started";
    let is_turn =
        is_about(&["item/", "turn/diff", "turn/plan", "thread/tokenUsage", "thread/comp"]);
    let is_error = method == "error";
    for (name, is_expected) in
        [("threadId", is_thread || is_error), ("turnId", is_turn || is_error)]
    {
        if is_expected && !params[name].is_string() {
            contradict(facts, ("message", method), name, (&Value::Null, params));
        }
    }
}

/// Checks that a command that ended by itself has an exit code, and one that was declined nothing.
fn check_command(facts: &mut Facts, id: &str, item: &Value) {
    if text(item, "type") != Some("commandExecution") {
        return;
    }
    let has = |name: &str| item.get(name).is_some_and(|it| !it.is_null());
    let is_right = match text(item, "status").unwrap_or("") {
        "completed" => has("exitCode"),
        "declined" => !["exitCode", "processId", "aggregatedOutput"].into_iter().any(has),
        _ => true,
    };
    if !is_right {
        contradict(facts, ("item", id), "outcome", (&item["status"], &item["exitCode"]));
    }
}

/// Checks that the time inside an item that begins is that of its message.
fn check_start(facts: &mut Facts, id: &str, params: &Value) {
    let (outside, inside) = (&params["startedAtMs"], &params["item"]["startedAtMs"]);
    let is_repeated = params["item"].get("completedAtMs").is_some() || inside.is_number();
    if is_repeated && outside != inside {
        contradict(facts, ("item", id), "startedAtMs", (outside, inside));
    }
}

/// Checks a call about subagents: the thread that calls is its own, and only a call that starts or
/// tells a subagent something has a text and a model.
fn check_collaboration(facts: &mut Facts, id: &str, params: &Value) {
    let item = &params["item"];
    if text(item, "type") != Some("collabAgentToolCall") {
        return;
    }
    let tool = text(item, "tool").unwrap_or("");
    let is_null = |name: &str| item.get(name).is_none_or(Value::is_null);
    let has_text = matches!(tool, "spawnAgent" | "sendInput");
    let is_right = text(item, "senderThreadId") == text(params, "threadId")
        && item["receiverThreadIds"].is_array()
        && item["agentsStates"].is_object()
        && (has_text || is_null("prompt"))
        && (tool == "spawnAgent" || (is_null("model") && is_null("reasoningEffort")));
    if !is_right {
        contradict(facts, ("item", id), "call", (item, &params["threadId"]));
    }
}

/// Checks that the status of a call is one of those, and the one that its exit code implies, and that
/// a call that never ran took no time.
pub(super) fn check_outcome(facts: &mut Facts, id: &str, item: &Value) {
    let kind = text(item, "type").unwrap_or("").to_lowercase().replace('_', "");
    let has_status = matches!(
        kind.as_str(),
        "commandexecution"
            | "filechange"
            | "mcptoolcall"
            | "dynamictoolcall"
            | "collabagenttoolcall"
            | "collabtoolcall"
    );
    if !has_status {
        return;
    }
    let status = text(item, "status").unwrap_or("");
    let code = item.get("exitCode").or_else(|| item.get("exit_code")).and_then(Value::as_i64);
    let is_known = matches!(status, "completed" | "failed" | "declined");
    let is_running = matches!(status, "inProgress" | "in_progress");
    let agrees = code.is_none_or(|code| (status == "completed") == (code == 0));
    if !(is_known || is_running && code.is_none()) || !agrees {
        contradict(facts, ("item", id), "status", (&item["status"], &Value::from(code)));
    }
    // A call that was declined never ran.
    if status == "declined" && !item["durationMs"].is_null() {
        contradict(facts, ("item", id), "durationMs", (&item["status"], &item["durationMs"]));
    }
}

/// States whether a text ended.
pub(super) fn state_end(facts: &mut Facts, id: &str, ended: bool) {
    if id.len() > 4 {
        let record = RecordName::new("text", id);
        facts.set(&record, "ended", &Value::Bool(ended));
    }
}

/// States what an item has from its beginning on.
pub(super) fn state_start(facts: &mut Facts, id: &str, params: &Value, time: Option<&Value>) {
    if id.len() < 4 {
        return;
    }
    let record = RecordName::new("start", id);
    let item = canonical::item(&params["item"]);
    let mut stable = Map::new();
    for name in STABLE {
        if let Some(value) = item.get(name) {
            stable.insert(name.to_owned(), value.clone());
        }
    }
    if let Some(time) = time {
        stable.insert("startedAtMs".to_owned(), time.clone());
    }
    facts.set(&record, "", &Value::Object(stable));
}
