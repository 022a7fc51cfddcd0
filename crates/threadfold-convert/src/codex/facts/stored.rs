//! What a rollout has more than once, and must have in the same way: texts as items of the model and
//! as events, calls with their outputs, turns with their last words.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use threadfold_core::Json;

use super::copies::CopiedHistory;
use super::live::{check_outcome, state_end, state_start};
use super::model_order::ModelOrder;
use super::phases::Phases;
use super::places::ItemPlaces;
use super::{canonical, contents, events, kinds, minor, text};
use crate::parity::{Facts, RecordName};

/// How often each text was read as an event, and as an item of the model.
type Copies = BTreeMap<String, [usize; 2]>;

/// The texts and the reasoning of one file.
struct FileCopies {
    said: Copies,
    thought: Copies,
    is_copy: bool,
}

/// What the files had so far.
#[derive(Default)]
pub(super) struct StoredFacts {
    /// Texts by the id of an item, as the agent and as the model has it.
    texts_by_id: BTreeMap<String, [Option<String>; 2]>,
    /// Texts, reasoning and prompts, as events and as items of the model.
    said: Copies,
    thought: Copies,
    /// The file may have copies of the history of another thread.
    is_copy: bool,
    copied_thread: Option<String>,
    /// Texts and reasoning of the files before.
    earlier_files: Vec<FileCopies>,
    /// The last text of the turn.
    last_said: Option<String>,
    prompts: BTreeSet<String>,
    /// What the model received in the role of the user, as messages and as their parts.
    user_texts: BTreeSet<String>,
    has_review_item: bool,
    order: ModelOrder,
    places: ItemPlaces,
    copies: CopiedHistory,
    phases: Phases,
    /// The turn that has not ended.
    open_turn: Option<String>,
    /// The texts of items of a newer version.
    item_texts: BTreeSet<String>,
    /// The last words of turns.
    last_words: Vec<Value>,
    /// The texts of compactions, which repeat their summaries.
    summaries: Vec<String>,
    /// The calls, and those that have no output.
    calls: BTreeSet<String>,
    open_calls: BTreeSet<String>,
    /// The calls whose output or end was read, and that no record made.
    stray_outputs: BTreeSet<String>,
    has_review: bool,
    has_script: bool,
    /// Whether the last turn ended by itself.
    last_turn: Option<bool>,
    /// How many threads the files have, with copies.
    threads: usize,
    /// Files with an event for each call.
    has_all_events: bool,
    /// The thread of the file, and the items of each thread's own file.
    thread: String,
    own_items: BTreeSet<String>,
    /// A review is running in the thread: its items are of another one.
    is_in_review: bool,
    is_in_old_review: bool,
    /// Items of reviews, with their threads.
    foreign_items: Vec<(String, String)>,
    /// What searches of the web look for, by id, as the item has it or the response.
    searches: BTreeMap<String, Value>,
    /// Items as they were read first.
    items: BTreeMap<String, Value>,
    /// The file is of a review, with the turn that has not ended.
    is_review: bool,
    open_review: Option<String>,
    /// The turns that turns are part of.
    roots: BTreeMap<String, Value>,
    /// Beginnings of turns.
    starts: BTreeMap<String, Value>,
}

const EVENT: usize = 0;
const RESPONSE: usize = 1;

fn contradict(facts: &mut Facts, name: (&str, &str), field: &str, values: (&Value, &Value)) {
    let record = RecordName::new(name.0, name.1);
    facts.contradict(&record, field, Json::of(values.0), Json::of(values.1));
}

/// Returns the texts of the parts of a message or of reasoning.
fn texts(parts: &Value) -> Vec<String> {
    let parts = parts.as_array().into_iter().flatten();
    parts.filter_map(|it| it.as_str().or(it["text"].as_str())).map(str::to_owned).collect()
}

impl StoredFacts {
    /// Reads a line of a main file, or of the file of a subagent.
    pub(super) fn read(&mut self, facts: &mut Facts, record: &Value, subagent: Option<&str>) {
        let payload = &record["payload"];
        let (kind, detail) =
            (text(record, "type").unwrap_or(""), text(payload, "type").unwrap_or(""));
        if !kinds::is_stored(kind, detail) {
            contradict(facts, ("record", ""), "type", (&record["type"], &payload["type"]));
        }
        self.places.read(facts, record);
        self.copies.read(record, subagent);
        if subagent.is_none() {
            match detail {
                "task_started" => self.last_turn = Some(false),
                // The first version stores no other record of a turn.
                "turn_aborted" => self.last_turn = self.last_turn.map(|_| false),
                "task_complete" => self.last_turn = Some(true),
                _ => {}
            }
        }
        match kind {
            "session_meta" => {
                self.threads += 1;
                self.order.check(facts);
                self.open_turn = None;
                self.begin_file(payload);
                self.is_review = payload["source"]["subagent"] == "review";
                self.thread = text(payload, "id").unwrap_or("").to_owned();
                contents::state(facts, "thread_id", text(payload, "id").unwrap_or(""));
            }
            "response_item" => self.read_response(facts, detail, payload),
            "event_msg" => self.read_event(facts, detail, payload),
            "compacted" => self.summaries.extend(text(payload, "message").map(str::to_owned)),
            _ => {}
        }
    }

    /// Compares what a search looks for with the other record of the same search.
    fn compare_search(&mut self, facts: &mut Facts, id: Option<&str>, action: &Value) {
        let Some(id) = id else { return };
        match self.searches.get(id) {
            Some(known) if known != action => {
                contradict(facts, ("web_search_call", id), "action", (known, action));
            }
            Some(_) => {}
            None => {
                self.searches.insert(id.to_owned(), action.clone());
            }
        }
    }

    fn read_response(&mut self, facts: &mut Facts, detail: &str, payload: &Value) {
        // A response is stored when it is complete.
        if payload.get("status").is_some_and(|it| it != "completed") {
            contradict(facts, ("response_item", ""), "status", (&payload["status"], &Value::Null));
        }
        let id = text(payload, "id").filter(|it| !it.is_empty());
        match detail {
            "message" => {
                let words = texts(&payload["content"]).concat();
                match text(payload, "role").unwrap_or("") {
                    "assistant" => {
                        self.note_text(id, RESPONSE, words.clone());
                        check_types(facts, &payload["content"], "output_text");
                        self.order.respond("said", &words);
                        self.last_said = Some(words.clone());
                        contents::state_phase(facts, &words, payload);
                        self.phases.read_response(&words, payload);
                        self.said.entry(words).or_default()[RESPONSE] += 1;
                        state_id(facts, id);
                        if let Some(id) = id {
                            let phase = RecordName::new("response_phase", id);
                            facts.set(&phase, "phase", &payload["phase"]);
                        }
                    }
                    "user" => {
                        self.user_texts.extend(texts(&payload["content"]));
                        self.user_texts.insert(words);
                    }
                    "developer" | "system" => {}
                    _ => contradict(facts, ("message", ""), "role", (payload, &Value::Null)),
                }
            }
            "reasoning" => {
                // Reasoning without a summary has an empty one.
                if !payload["summary"].is_array() {
                    let values = (&payload["summary"], &Value::Null);
                    contradict(facts, ("reasoning", id.unwrap_or("")), "summary", values);
                }
                check_types(facts, &payload["summary"], "summary_text");
                self.note_text(id, RESPONSE, reasoning(&payload["summary"], &payload["content"]));
                let parts =
                    texts(&payload["summary"]).into_iter().chain(texts(&payload["content"]));
                for part in parts {
                    self.order.respond("thought", &part);
                    self.thought.entry(part).or_default()[RESPONSE] += 1;
                }
                state_id(facts, id);
            }
            "web_search_call" => {
                contents::state_search(facts, &payload["action"]);
                self.order.respond("search", &payload["action"].to_string());
                self.compare_search(facts, id, &payload["action"]);
            }
            _ => {}
        }
        let Some(call) = text(payload, "call_id") else {
            if detail.ends_with("_call_output")
                || matches!(detail, "function_call" | "custom_tool_call")
            {
                contradict(facts, ("call", ""), "call_id", (&Value::Null, payload));
            }
            return;
        };
        if detail.ends_with("_output") {
            contents::state_output(facts, &payload["output"]);
            let is_newer = facts.history.as_deref() == Some("paginated");
            let is_aborted =
                text(payload, "output").is_some_and(|it| it.contains("aborted by user"));
            if is_newer && is_aborted {
                contents::state(facts, "aborted_call", call);
            }
            self.open_calls.remove(call);
            if !self.calls.contains(call) {
                self.stray_outputs.insert(call.to_owned());
            }
        } else {
            contents::state_call(facts, payload);
            self.order.respond("call", call);
            self.has_script |= text(payload, "input").is_some_and(|it| it.contains("tools."));
            if self.stray_outputs.contains(call) {
                contradict(facts, ("call", call), "order", (&payload["call_id"], &Value::Null));
            }
            self.calls.insert(call.to_owned());
            self.open_calls.insert(call.to_owned());
        }
    }

    fn read_event(&mut self, facts: &mut Facts, detail: &str, payload: &Value) {
        match detail {
            "agent_message" => {
                let words = text(payload, "message").unwrap_or("").to_owned();
                contents::state_spoken(facts, &words, payload);
                if self.is_hidden(facts) {
                    return;
                }
                self.order.report("said", &words);
                self.phases.read_event(&words, payload);
                self.last_said = Some(words.clone());
                self.said.entry(words).or_default()[EVENT] += 1;
            }
            "agent_reasoning" | "agent_reasoning_raw_content" => {
                let words = text(payload, "text").unwrap_or("").to_owned();
                if self.is_hidden(facts) {
                    return;
                }
                self.order.report("thought", &words);
                self.thought.entry(words).or_default()[EVENT] += 1;
            }
            "user_message" => {
                let has_images = ["images", "local_images"]
                    .iter()
                    .any(|it| payload[*it].as_array().is_some_and(|it| !it.is_empty()));
                let prompt = text(payload, "message").filter(|it| !it.is_empty() || !has_images);
                if !self.is_hidden(facts) {
                    self.prompts.extend(prompt.map(str::to_owned));
                }
            }
            "entered_review_mode" => (self.has_review, self.is_in_old_review) = (true, true),
            "exited_review_mode" => {
                self.is_in_old_review = false;
                state_review(facts, &payload["review_output"]);
            }
            "task_started" => {
                let id = text(payload, "turn_id").unwrap_or("").to_owned();
                // The turn before was killed.
                self.open_calls.clear();
                self.open_turn = Some(id.clone());
                self.last_said = None;
                if !payload["started_at"].is_number() {
                    contradict(facts, ("turn", &id), "started_at", (&Value::Null, payload));
                }
                let attributed = payload["turn_attribution"].get("root_turn_id");
                if attributed.is_some_and(|it| *it != payload["root_turn_id"]) {
                    contradict(facts, ("turn", &id), "root_turn_id", (payload, &Value::Null));
                }
                if self.is_review {
                    self.open_review = Some(id.clone());
                }
                self.roots.insert(id.clone(), payload["root_turn_id"].clone());
                self.starts.insert(id, payload["started_at"].clone());
            }
            "task_complete" => {
                self.open_review = self.open_review.take().filter(|_| !self.is_review);
                self.close_turn(facts, payload);
                // Every call has an output before its turn ends; the first version may lose one.
                let has_ended =
                    payload["error"].is_null() && payload["last_agent_message"].is_string();
                if has_ended && minor(facts.version.as_deref()) >= 128 && !self.is_review {
                    for call in std::mem::take(&mut self.open_calls) {
                        contradict(facts, ("call", &call), "output", (&Value::Null, payload));
                    }
                }
                self.end_turn(facts, payload);
                self.compare_start(facts, "turn_end", payload);
            }
            "turn_aborted" => {
                self.open_calls.clear();
                self.close_turn(facts, payload);
                self.open_review = self.open_review.take().filter(|_| !self.is_review);
                self.compare_start(facts, "turn_abort", payload);
            }
            "item_completed" => {
                let item = &payload["item"];
                let id = text(item, "id").unwrap_or("");
                match text(item, "type").unwrap_or("") {
                    "AgentMessage" => {
                        check_types(facts, &item["content"], "Text");
                        let words = texts(&item["content"]).concat();
                        self.order.report("said", &words);
                        self.last_said = Some(words.clone());
                        self.note_text(Some(id), EVENT, words.clone());
                        self.phases.read_item(id, item);
                        self.item_texts.insert(words);
                    }
                    "Reasoning" => {
                        let words = reasoning(&item["summary_text"], &item["raw_content"]);
                        self.note_text(Some(id), EVENT, words);
                        let raw = texts(&item["raw_content"]);
                        for part in texts(&item["summary_text"]).into_iter().chain(raw) {
                            self.order.report("thought", &part);
                        }
                    }
                    "UserMessage" => self.prompts.extend(texts(&item["content"])),
                    "EnteredReviewMode" => self.has_review_item = true,
                    "ExitedReviewMode" => state_review(facts, &item["review_output"]),
                    "WebSearch" => self.compare_search(facts, Some(id), &item["action"]),
                    _ => {}
                }
                self.check_copies(facts, id, payload);
                check_outcome(facts, id, item);
                contents::state_stored_item(facts, item);
                state_start(facts, id, payload, payload.get("started_at_ms"));
                match text(item, "type").unwrap_or("") {
                    "CommandExecution" => contents::state(facts, "late_item", id),
                    "AgentMessage" | "Reasoning" | "UserMessage" | "SubAgentActivity" => {
                        state_end(facts, id, true)
                    }
                    _ => {}
                }
                let forms =
                    [("McpToolCall", "server_texts"), ("CollabAgentToolCall", "agent_states")];
                for (_, form) in forms.iter().filter(|(kind, _)| item["type"] == *kind) {
                    contents::state(facts, "form", form);
                }
            }
            _ => {
                self.has_all_events |= events::is_of_any_call(detail);
                let ended = text(payload, "call_id").filter(|_| detail.ends_with("_end"));
                self.stray_outputs
                    .extend(ended.filter(|it| !self.calls.contains(*it)).map(str::to_owned));
                events::state_stored(facts, detail, payload);
                contents::state_stored_item(facts, payload);
            }
        }
    }

    /// Checks that copies of an item are equal: a review is in two files.
    fn check_copies(&mut self, facts: &mut Facts, id: &str, payload: &Value) {
        match self.items.get(id) {
            Some(known) if known == payload => {}
            Some(known) => contradict(facts, ("item", id), "copy", (known, payload)),
            None => {
                self.items.insert(id.to_owned(), payload.clone());
            }
        }
        match text(&payload["item"], "type").unwrap_or("") {
            "EnteredReviewMode" => self.is_in_review = true,
            "ExitedReviewMode" => self.is_in_review = false,
            _ => {}
        }
        let thread = text(payload, "thread_id").unwrap_or("");
        match self.is_in_review && thread != self.thread {
            true => self.foreign_items.push((id.to_owned(), thread.to_owned())),
            false => {
                self.own_items.insert(id.to_owned());
            }
        }
    }

    /// Returns whether an event is a copy of one in the file of a review that is not read: older ones
    /// do not name the thread that asked.
    fn is_hidden(&self, facts: &Facts) -> bool {
        self.is_in_old_review && minor(facts.version.as_deref()) < 147
    }

    /// Notes the text of an item, as the agent or as the model has it.
    fn note_text(&mut self, id: Option<&str>, form: usize, words: String) {
        if let Some(id) = id {
            self.texts_by_id.entry(id.to_owned()).or_default()[form] = Some(words);
        }
    }

    /// Begins a file.
    fn begin_file(&mut self, meta: &Value) {
        let (said, thought) = (std::mem::take(&mut self.said), std::mem::take(&mut self.thought));
        // The history that a fork copies begins with the record of the other thread.
        let is_history =
            self.copied_thread.is_some() && self.copied_thread.as_deref() == text(meta, "id");
        self.copied_thread = text(meta, "forked_from_id").map(str::to_owned);
        let is_copy = is_history || self.copied_thread.is_some();
        let is_copy = std::mem::replace(&mut self.is_copy, is_copy);
        self.earlier_files.push(FileCopies { said, thought, is_copy });
    }

    fn has_any_review(&self) -> bool {
        self.has_review || self.has_review_item || self.is_review
    }

    /// Checks that the turn that ends is the one that runs.
    fn close_turn(&mut self, facts: &mut Facts, payload: &Value) {
        let (open, id) = (self.open_turn.take(), text(payload, "turn_id"));
        // A review is a turn inside the one that asks for it.
        if let (Some(open), Some(id), false) = (open, id, self.has_any_review())
            && open != id
        {
            contradict(facts, ("turn", id), "end", (&open.as_str().into(), &id.into()));
        }
    }

    fn end_turn(&mut self, facts: &mut Facts, payload: &Value) {
        let id = text(payload, "turn_id").unwrap_or("");
        match payload.get("last_agent_message") {
            Some(Value::Null) => {}
            Some(words) => {
                // They are the last text of the turn, which may have tags that the agent reads.
                let said = self.last_said.take().filter(|_| !self.has_any_review());
                let is_said = |it: &String| {
                    let words = words.as_str().unwrap_or("");
                    words == it || is_stripped(words, it) || is_stripped(it, words)
                };
                if let Some(said) = said.filter(|it| !is_said(it)) {
                    let values = (words, &said.as_str().into());
                    contradict(facts, ("turn", id), "last_agent_message", values);
                }
                self.last_words.push(words.clone());
            }
            None => contradict(facts, ("turn", id), "last_agent_message", (&Value::Null, payload)),
        }
    }

    /// Checks that the end of a turn repeats when it began.
    fn compare_start(&self, facts: &mut Facts, kind: &str, payload: &Value) {
        let id = text(payload, "turn_id").unwrap_or("");
        let started = self.starts.get(id).filter(|it| !it.is_null());
        match (started, payload.get("started_at")) {
            (Some(start), Some(repeated)) if start != repeated => {
                contradict(facts, ("turn", id), "started_at", (start, repeated));
            }
            // Not every version repeats it.
            (Some(start), None)
                if minor(facts.version.as_deref()) < 147 && payload["root_turn_id"].is_null() =>
            {
                let record = RecordName::new(kind, id);
                facts.allow(&record, "startedAt", Json::of(start));
            }
            (Some(_), None) => {
                contradict(facts, ("turn", id), "started_at", (&Value::Null, payload));
            }
            _ => {}
        }
        let Some(root) = self.roots.get(id) else { return };
        // Files of some versions name it only when a turn begins.
        let is_repeated = !(148..166).contains(&minor(facts.version.as_deref()));
        if is_repeated && *root != payload["root_turn_id"] {
            contradict(facts, ("turn", id), "root_turn_id", (root, &payload["root_turn_id"]));
        }
    }

    /// Checks what the files have more than once.
    pub(super) fn finish(mut self, facts: &mut Facts, version: u32) {
        if self.threads == 0 {
            return;
        }
        let is_review_unread = self.has_review && version < 147;
        let is_script_unread = self.has_script && version < 157;
        let is_legacy = facts.history.as_deref() == Some("legacy");
        for (form, is_present) in [
            // Older files of a review do not name the thread that asked for it.
            // What a script runs is stored from 0.157 on.
            ("commands", !is_review_unread && !is_script_unread),
            ("events_of_all_calls", self.has_all_events),
            (
                "events_of_some_calls",
                self.has_all_events || is_legacy || (140..157).contains(&version),
            ),
            ("reasoning_counts", version >= 128),
            ("response_ids", version >= 147),
            ("written_counts", version >= 147),
        ] {
            if is_present {
                contents::state(facts, "form", form);
            }
        }
        self.order.check(facts);
        std::mem::take(&mut self.copies).finish(facts);
        std::mem::take(&mut self.phases).finish(facts);
        for call in self.stray_outputs.difference(&self.calls) {
            contradict(facts, ("call", call), "call", (&Value::Null, &call.as_str().into()));
        }
        let is_summary =
            |it: &str| !it.is_empty() && self.summaries.iter().any(|all| all.contains(it));
        let has_tags = |it: &str| it.contains("</");
        let (said, thought) = (std::mem::take(&mut self.said), std::mem::take(&mut self.thought));
        let mut files = std::mem::take(&mut self.earlier_files);
        files.push(FileCopies { said, thought, is_copy: self.is_copy });
        let said = || files.iter().flat_map(|file| file.said.keys());
        let tagged: Vec<&String> = said().filter(|it| has_tags(it)).collect();
        let is_tagged =
            |it: &str| has_tags(it) || tagged.iter().any(|response| is_stripped(it, response));
        let of_files = files.iter().flat_map(|file| {
            [("said", &file.said, file.is_copy), ("thought", &file.thought, file.is_copy)]
        });
        for (kind, copies, is_copy) in of_files {
            if copies.values().all(|it| it[EVENT] == 0) {
                continue;
            }
            for (words, [events, responses]) in copies {
                // The thread that asks for a review has copies of what the review's own file has.
                let has_both = (*events > 0) == (*responses > 0);
                let is_response = |it: &Copies| it.get(words).is_some_and(|it| it[RESPONSE] > 0);
                let in_responses =
                    || files.iter().any(|it| is_response(&it.said) || is_response(&it.thought));
                let is_original = |words: &String| {
                    let mut originals = files.iter().filter(|it| !it.is_copy);
                    originals
                        .any(|it| it.said.contains_key(words) || it.thought.contains_key(words))
                };
                let is_right = match (self.has_review && version >= 147, is_copy) {
                    (true, _) => *events == 0 || in_responses(),
                    (false, false) => events == responses || is_summary(words),
                    // A subagent copies some of the history of its caller.
                    (false, true) => has_both || is_summary(words) || is_original(words),
                };
                if !is_right && !is_tagged(words) {
                    let counts = (&Value::from(*events), &Value::from(*responses));
                    contradict(facts, (kind, ""), words, counts);
                }
            }
        }
        for (id, forms) in &self.texts_by_id {
            let [Some(item), Some(response)] = forms else { continue };
            if item != response && !is_stripped(item, response) {
                let values = (&item.as_str().into(), &response.as_str().into());
                contradict(facts, ("item", id), "text", values);
            }
        }
        // Who asked for a review waits for it.
        if let Some(turn) = self.open_review.filter(|_| self.last_turn == Some(true)) {
            contradict(facts, ("turn", &turn), "end", (&turn.as_str().into(), &Value::Null));
        }
        let alone = |it: &&[Option<String>; 2]| it[EVENT].is_none();
        let responses = self.texts_by_id.values().filter(alone).map(|it| &it[RESPONSE]);
        let responses: BTreeSet<&Option<String>> = responses.collect();
        for (id, forms) in self.texts_by_id.iter().filter(|(_, forms)| forms[RESPONSE].is_none()) {
            // The response is there under another id.
            if responses.contains(&forms[EVENT]) {
                contradict(facts, ("item", id), "id", (&id.as_str().into(), &Value::Null));
            }
        }
        if let Some(ended) = self.last_turn {
            let record = RecordName::new("last_turn", "");
            facts.set(&record, "ended", &Value::Bool(ended));
        }
        for (id, thread) in &self.foreign_items {
            if facts.sessions.contains(thread) && !self.own_items.contains(id) {
                let values = (&Value::from(id.as_str()), &Value::Null);
                contradict(facts, ("item", id), "id", values);
            }
        }
        // What a review is asked to do is part of a longer text.
        let has_review = self.has_review || self.has_review_item;
        let is_asked =
            |it: &String| has_review && self.user_texts.iter().any(|text| text.contains(it));
        for prompt in &self.prompts {
            if !self.user_texts.contains(prompt) && !is_asked(prompt) {
                contradict(facts, ("prompt", ""), "text", (&prompt.as_str().into(), &Value::Null));
            }
        }
        for words in &self.last_words {
            let is_known = words
                .as_str()
                .is_some_and(|it| said().any(|said| said == it) || self.item_texts.contains(it));
            if !is_known {
                contradict(facts, ("turn", ""), "last_agent_message", (words, &Value::Null));
            }
        }
    }
}

/// States the id of what a model said or thought, which live views repeat.
fn state_id(facts: &mut Facts, id: Option<&str>) {
    if let Some(id) = id {
        contents::state(facts, "form", "response_ids");
        contents::state(facts, "response_id", id);
    }
}

/// Returns whether a text is what a model said without the tags that the harness reads: a plan is an
/// item of its own, and citations are no part of the text.
fn is_stripped(item: &str, response: &str) -> bool {
    let mut lines = item.lines().filter(|line| !line.trim().is_empty());
    response.contains("</") && lines.all(|line| response.contains(line.trim()))
}

/// Returns the texts of reasoning: its summary, and the reasoning itself.
fn reasoning(summary: &Value, content: &Value) -> String {
    [texts(summary), texts(content)].concat().join("\n")
}

/// States what a review found, as live views report it.
fn state_review(facts: &mut Facts, review: &Value) {
    let review = canonical::camel_inside("", review);
    contents::state(facts, "review", &canonical::review_text(&review));
}

/// Checks that the parts of a text are texts.
fn check_types(facts: &mut Facts, parts: &Value, expected: &str) {
    for part in parts.as_array().into_iter().flatten() {
        let is_refusal = expected == "output_text" && part["type"] == "refusal";
        if text(part, "type") != Some(expected) && !is_refusal {
            contradict(facts, ("part", ""), "type", (&part["type"], &expected.into()));
        }
    }
}
