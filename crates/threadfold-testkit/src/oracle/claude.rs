//! What the records of Claude Code contain.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::shown::ShownContent;
use super::{ExpectedContent, Piece, spelling};
use crate::sessions_on_disk::SessionOnDisk;

/// The records of the harness that have words of their own; others show a fixed text or nothing.
const SILENT: [&str; 7] = [
    "compact_boundary",
    "microcompact_boundary",
    "api_error",
    "turn_duration",
    "stop_hook_summary",
    "away_summary",
    "bridge_status",
];

/// Returns what the files or the stream of a session contain.
pub(super) fn expected(session: &SessionOnDisk, shown: &ShownContent) -> ExpectedContent {
    let files: Vec<(&str, Vec<Value>)> = session
        .files
        .iter()
        .filter(|(path, _)| path.ends_with(".jsonl"))
        .map(|(path, bytes)| (path.as_str(), records(bytes)))
        .collect();
    let agent_calls = agent_calls(files.iter().flat_map(|(_, records)| records));
    let notified = notified_results(files.iter().flat_map(|(_, records)| records));
    let (expected, is_stream) = (ExpectedContent::default(), session.is_stream);
    let mut reader = Reader { shown, expected, is_stream, notified };
    for (path, records) in &files {
        let name = path.rsplit('/').next().unwrap_or(path).trim_end_matches(".jsonl");
        let agent = name.strip_prefix("agent-").filter(|_| path != &session.name.as_str());
        reader.file(agent, records, &agent_calls);
    }
    reader.expected
}

/// Returns the records of a file, also those of a line that holds more than one or a broken one.
pub(super) fn records(bytes: &[u8]) -> Vec<Value> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if let Ok(Value::Array(list)) = serde_json::from_slice(bytes) {
        return list;
    }
    let mut found = Vec::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        match serde_json::from_slice::<Value>(line) {
            Ok(record) => found.push(record),
            Err(_) => found.extend(salvage(line)),
        }
    }
    found.retain(Value::is_object);
    found
}

/// Returns the whole records on a broken line.
fn salvage(line: &[u8]) -> Vec<Value> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = line[at..].iter().position(|byte| *byte == b'{').map(|it| at + it) {
        let mut values = serde_json::Deserializer::from_slice(&line[start..]).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) if value["type"].is_string() => {
                at = start + values.byte_offset();
                found.push(value);
            }
            _ => at = start + 1,
        }
    }
    found
}

/// Returns the ids of the calls that start subagents, and which of them only confirm a launch.
fn agent_calls<'a>(records: impl Iterator<Item = &'a Value>) -> BTreeSet<String> {
    let blocks = records.filter_map(|it| it["message"]["content"].as_array()).flatten();
    // A message to an agent that has finished runs it again.
    let is_agent =
        |block: &&Value| matches!(block["name"].as_str(), Some("Task" | "Agent" | "SendMessage"));
    let calls = blocks.filter(|block| block["type"] == "tool_use").filter(is_agent);
    calls.filter_map(|block| block["id"].as_str().map(str::to_owned)).collect()
}

/// Returns what notifications report as the result of a call: a subagent that a message runs again
/// ends long after the call's own result.
fn notified_results<'a>(
    records: impl Iterator<Item = &'a Value>,
) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for record in records {
        let content = match &record["message"]["content"] {
            Value::Null => &record["content"],
            content => content,
        };
        let texts = [plain(content, 0), plain(&record["attachment"]["prompt"], 0)];
        for text in texts.iter().filter(|text| text.contains("<task-notification>")) {
            let inside = |tag: &str| {
                let (_, rest) = text.split_once(&format!("<{tag}>"))?;
                Some(rest.split_once(&format!("</{tag}>"))?.0)
            };
            if let (Some(call), Some(result)) = (inside("tool-use-id"), inside("result")) {
                found.entry(call.to_owned()).or_default().insert(result.to_owned());
            }
        }
    }
    found
}

struct Reader<'a> {
    shown: &'a ShownContent,
    expected: ExpectedContent,
    is_stream: bool,
    /// The results that notifications report, by call.
    notified: BTreeMap<String, BTreeSet<String>>,
}

/// What is known about the records of one file before a record.
#[derive(Default)]
struct Earlier {
    /// The conversation of each line of a subagent in the main file, by its `uuid`.
    sides: BTreeMap<String, String>,
    /// The record where each message was first.
    messages: BTreeMap<String, usize>,
    /// The latest record of each `uuid`.
    latest: BTreeMap<String, usize>,
}

impl Reader<'_> {
    fn file(&mut self, agent: Option<&str>, records: &[Value], agent_calls: &BTreeSet<String>) {
        let mut earlier = Earlier::default();
        for (at, record) in records.iter().enumerate() {
            if let Some(uuid) = record["uuid"].as_str().filter(|_| !self.is_stream) {
                earlier.latest.insert(uuid.to_owned(), at);
            }
        }
        let conversation = |reader: &Self, earlier: &mut Earlier, record: &Value| match agent {
            Some(agent) => reader.shown.conversation(agent),
            None => reader.conversation(earlier, record),
        };
        for (at, record) in records.iter().enumerate() {
            let place = conversation(self, &mut earlier, record);
            let uuid = record["uuid"].as_str().unwrap_or("");
            let is_last = earlier.latest.get(uuid).is_none_or(|latest| *latest == at);
            for id in [&record["uuid"], &record["attachment"]["source_uuid"]] {
                if let Some(id) = id.as_str() {
                    self.expected.persons.insert((place.clone(), id.to_owned()));
                }
            }
            match record["type"].as_str() {
                Some("attachment") => self.queued(&place, record),
                Some("assistant") => {
                    let name = message_name(record);
                    earlier.messages.entry(name).or_insert(at);
                    self.assistant(&place, record, is_last, agent_calls);
                }
                Some("user") => {
                    self.results(&place, record, is_last, agent_calls);
                    let may_repeat = repeats(&earlier, &records[at + 1..], at);
                    self.user(&place, record, is_last && !may_repeat);
                }
                Some("system") if !self.is_stream => self.system(&place, record),
                _ => {}
            }
        }
    }

    fn conversation(&self, earlier: &mut Earlier, record: &Value) -> String {
        let call = record["parent_tool_use_id"].as_str().filter(|_| self.is_stream);
        if let Some(call) = call {
            let agent = record["agent_id"].as_str().unwrap_or(call);
            return self.shown.conversation(agent);
        }
        if record["isSidechain"] != true {
            return "main".to_owned();
        }
        let uuid = record["uuid"].as_str().unwrap_or("");
        let above = record["parentUuid"].as_str().and_then(|it| earlier.sides.get(it)).cloned();
        // The first line of a subagent shows where the others belong.
        let place = above.unwrap_or_else(|| {
            let places = self.shown.places(uuid);
            let outside = places.iter().find(|it| *it != "main").cloned();
            outside.unwrap_or_else(|| match record["agentId"].as_str() {
                Some(agent) => self.shown.conversation(agent),
                None => self.shown.conversation(uuid),
            })
        });
        earlier.sides.insert(uuid.to_owned(), place.clone());
        place
    }

    fn add(&mut self, is_last: bool, piece: Piece) {
        if is_last { self.expected.add(piece) } else { self.expected.allow(piece) }
    }

    fn assistant(
        &mut self,
        place: &str,
        record: &Value,
        is_last: bool,
        agent_calls: &BTreeSet<String>,
    ) {
        let message = message_name(record);
        let piece = |kind, name: &str, words: String| Piece {
            conversation: place.to_owned(),
            kind,
            name: name.to_owned(),
            words,
        };
        let content = &record["message"]["content"];
        // The stream reports the output of a command as a message that no model gave.
        let uuid = record["uuid"].as_str().unwrap_or("");
        let output = plain(content, 0);
        let shown = self.shown.texts.get(&(place.to_owned(), uuid.to_owned()));
        if record["message"]["model"] == "<synthetic>" && shown == Some(&output.trim().to_owned()) {
            self.expected.matched += 1;
            return;
        }
        if let Some(text) = content.as_str() {
            self.add(is_last, piece("text", &message, text.to_owned()));
        }
        for (index, block) in content.as_array().into_iter().flatten().enumerate() {
            let text = |key: &str| block[key].as_str().unwrap_or("").to_owned();
            let id = text("id");
            match block["type"].as_str().unwrap_or("") {
                "text" => self.add(is_last, piece("text", &message, text("text"))),
                "thinking" => {
                    let words = format!("{}\0{}", text("thinking"), text("signature"));
                    self.add(is_last, piece("thinking", &message, words));
                }
                "redacted_thinking" => {
                    self.add(is_last, piece("redacted", &message, text("data")));
                }
                "tool_use" | "server_tool_use" | "mcp_tool_use" => {
                    let id = if id.is_empty() { format!("{message}:{index}") } else { id };
                    let words = format!("{} {}", text("name"), spelling(&block["input"]));
                    let call = piece("call", &id, words);
                    let input = &block["input"];
                    let prompt = input["prompt"].as_str().or(input["message"].as_str());
                    if agent_calls.contains(&id) && !self.shown.pieces.contains_key(&call) {
                        if text("name") == "SendMessage" {
                            self.rerun(piece("agent-result", &id, String::new()), is_last);
                        }
                        let prompt = prompt.unwrap_or("").to_owned();
                        self.add(is_last, piece("agent-call", &id, prompt));
                    } else {
                        self.add(is_last, call);
                    }
                }
                kind if kind.ends_with("tool_result") => {
                    self.result(place, record, block, is_last, agent_calls);
                }
                _ => {}
            }
        }
    }

    /// Adds the output of a subagent that a message ran again, if a notification reports it.
    fn rerun(&mut self, piece: Piece, is_last: bool) {
        match self.notified.get(&piece.name).filter(|results| results.len() == 1) {
            Some(results) => {
                let words = results.iter().next().cloned().unwrap_or_default();
                self.add(is_last, Piece { words, ..piece });
            }
            None => {
                self.expected.free.insert((piece.kind, piece.name));
            }
        }
    }

    fn results(
        &mut self,
        place: &str,
        record: &Value,
        is_last: bool,
        agent_calls: &BTreeSet<String>,
    ) {
        for block in record["message"]["content"].as_array().into_iter().flatten() {
            if block["type"] == "tool_result" {
                self.result(place, record, block, is_last, agent_calls);
            }
        }
    }

    fn result(
        &mut self,
        place: &str,
        record: &Value,
        block: &Value,
        is_last: bool,
        agent_calls: &BTreeSet<String>,
    ) {
        let Some(call) = block["tool_use_id"].as_str().filter(|it| !it.is_empty()) else { return };
        let piece = |kind, words: String| Piece {
            conversation: place.to_owned(),
            kind,
            name: call.to_owned(),
            words,
        };
        if !agent_calls.contains(call) || self.shown.results.contains(call) {
            let is_error = block["is_error"].as_bool().unwrap_or(false);
            let words = format!("{is_error} {}", spelling(&block["content"]));
            return self.add(is_last, piece("result", words));
        }
        let structured = match &record["toolUseResult"] {
            Value::Null => &record["tool_use_result"],
            structured => structured,
        };
        // A subagent's own calls have no structured result.
        let is_launch = structured["isAsync"] == true
            || structured["status"] == "async_launched"
            || plain(&block["content"], 0).starts_with("Async agent launched successfully");
        if is_launch {
            self.expected.free.insert(("agent-result", call.to_owned()));
            return;
        }
        let notes = structured["harnessNoteCount"].as_u64().unwrap_or(0) as usize;
        let words = match &structured["content"] {
            Value::Null => plain(&block["content"], 0),
            content => plain(content, notes),
        };
        self.add(is_last, piece("agent-result", words));
    }

    /// Adds the words of a user's line, which may be shown as several blocks.
    fn user(&mut self, place: &str, record: &Value, is_needed: bool) {
        let content = &record["message"]["content"];
        let blocks = content.as_array().cloned().unwrap_or_default();
        let mut words = content.as_str().unwrap_or("").to_owned();
        let uuid = record["uuid"].as_str().unwrap_or("");
        for block in &blocks {
            match block {
                Value::String(text) => words.push_str(text),
                block if block["type"] == "text" => {
                    words.push_str(block["text"].as_str().unwrap_or(""));
                }
                _ => {}
            }
            let source = &block["source"];
            let join = || {
                ["media_type", "data", "url"]
                    .map(|key| source[key].as_str().unwrap_or(""))
                    .join(" ")
            };
            let kind = match block["type"].as_str() {
                Some("image") => "image",
                Some("document") => "file",
                _ => continue,
            };
            let (conversation, name) = (place.to_owned(), uuid.to_owned());
            self.add(is_needed, Piece { conversation, kind, name, words: join() });
        }
        if uuid.is_empty() || words.is_empty() {
            return;
        }
        self.expect_words_or_output(place, uuid, &words, is_needed);
    }

    /// Adds a prompt that was queued; a user's line may contain it as well.
    fn queued(&mut self, place: &str, record: &Value) {
        let attached = &record["attachment"];
        let mode = attached["commandMode"].as_str();
        if attached["type"] != "queued_command" || mode.is_some_and(|it| it != "prompt") {
            return;
        }
        let prompt = &attached["prompt"];
        let mut words = prompt.as_str().unwrap_or("").to_owned();
        for block in prompt.as_array().into_iter().flatten() {
            words.push_str(block["text"].as_str().unwrap_or(""));
        }
        let is_here = |(key, text): (&(String, String), &String)| key.0 == place && *text == words;
        let is_harness = words.starts_with('<') || words.starts_with("[SYSTEM");
        if words.is_empty() || is_harness || self.shown.texts.iter().any(is_here) {
            return;
        }
        let name = record["uuid"].as_str().unwrap_or("").to_owned();
        self.expected.add(Piece { conversation: place.to_owned(), kind: "user", name, words });
    }

    fn system(&mut self, place: &str, record: &Value) {
        let subtype = record["subtype"].as_str().unwrap_or("");
        let (Some(uuid), Some(words)) = (record["uuid"].as_str(), record["content"].as_str())
        else {
            return;
        };
        if !SILENT.contains(&subtype) && !words.is_empty() {
            self.expect_words_or_output(place, uuid, words, true);
        }
    }

    /// Adds the difference between the words of a record and those of its blocks, if there is one.
    /// Expects words of the harness. The output of a command may be shown without its tags and the
    /// white space around it.
    fn expect_words_or_output(&mut self, place: &str, uuid: &str, words: &str, is_needed: bool) {
        let output = words.strip_prefix("<local-command-stdout>");
        let output = output.and_then(|it| it.strip_suffix("</local-command-stdout>"));
        match output.map(str::trim) {
            Some(output) if !self.is_shown(place, uuid, words) => {
                let output = if output.is_empty() { "(no content)" } else { output };
                self.expect_words(place, uuid, output, is_needed);
            }
            _ => self.expect_words(place, uuid, words, is_needed),
        }
    }

    fn expect_words(&mut self, place: &str, uuid: &str, words: &str, is_needed: bool) {
        let is_shown = self.is_shown(place, uuid, words);
        if is_shown {
            self.expected.matched += 1;
        }
        if is_shown || !is_needed {
            return;
        }
        let (conversation, name) = (place.to_owned(), uuid.to_owned());
        self.expected.add(Piece { conversation, kind: "user", name, words: words.to_owned() });
    }

    /// Returns whether the state shows exactly these words under this name, in one block or more.
    fn is_shown(&self, place: &str, uuid: &str, words: &str) -> bool {
        let key = |id: String| (place.to_owned(), id);
        let numbered = (0..).map(|number| key(format!("{uuid}:{number}")));
        let texts = &self.shown.texts;
        let pieces: Vec<&String> = texts
            .get(&key(uuid.to_owned()))
            .into_iter()
            .chain(numbered.map_while(|key| texts.get(&key)))
            .collect();
        let length: usize = pieces.iter().map(|it| it.len()).sum();
        length == words.len() && pieces.iter().all(|it| contains_all(words, it))
    }
}

/// Returns whether every line of `part` is in `words`.
fn contains_all(words: &str, part: &str) -> bool {
    words.contains(part) || part.lines().all(|line| words.contains(line))
}

/// Returns whether a user's line may be repeated history: the next message was read before the
/// record `at`.
fn repeats(earlier: &Earlier, rest: &[Value], at: usize) -> bool {
    let next = rest.iter().find(|record| record["type"] == "assistant");
    let first = next.and_then(|record| earlier.messages.get(&message_name(record)));
    first.is_some_and(|first| *first < at)
}

/// Returns the id of a record's message, or else of the record.
fn message_name(record: &Value) -> String {
    let name = |value: &Value| value.as_str().filter(|it| !it.is_empty()).map(str::to_owned);
    name(&record["message"]["id"]).or_else(|| name(&record["uuid"])).unwrap_or_default()
}

/// Returns content as one text, without the first `notes` blocks.
fn plain(content: &Value, notes: usize) -> String {
    let Some(blocks) = content.as_array() else {
        return content.as_str().map_or_else(|| spelling(content), str::to_owned);
    };
    let blocks = &blocks[notes.min(blocks.len())..];
    let texts: Option<Vec<&str>> = blocks
        .iter()
        .map(|block| (block["type"] == "text").then(|| block["text"].as_str().unwrap_or("")))
        .collect();
    texts.map_or_else(|| spelling(&Value::Array(blocks.to_vec())), |texts| texts.join("\n"))
}
