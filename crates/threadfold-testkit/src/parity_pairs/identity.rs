//! Names records and their counterparts by the raw JSON alone, without the code under test.

pub(super) mod codex;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The event of OpenCode 2 that begins a message, or begins it again after a failed attempt.
pub const REPLACED_STEP: &str = "session.step.started";

/// The raw records of one side of a pair.
#[derive(Default)]
pub struct RawSide {
    /// Paths, in one form, and values of each record, by the record's identities.
    fields: BTreeMap<String, BTreeSet<(String, String)>>,
    /// The lines that report each object, with its state there, by identity.
    reports: BTreeMap<String, Vec<(usize, String)>>,
    /// Messages were removed again.
    has_removals: bool,
    /// The messages that were shown while they arrived.
    openings: BTreeSet<String>,
    /// A view of Codex that names none of its items.
    is_unnamed: bool,
    /// The turns and items of Codex that were reported to have ended.
    ended: BTreeSet<String>,
    /// The tools of Codex that calls about subagents are of, by the id of the call.
    agent_tools: BTreeMap<String, String>,
    /// The stream reports the end of a run.
    has_report: bool,
    /// The file that is read.
    file: usize,
    /// The lines with the totals of a session, by file and line: the session, and whether it has any.
    totals: BTreeMap<(usize, usize), (String, bool)>,
    /// The messages that have lines, and whether one of them has the end of the message.
    messages: BTreeMap<String, bool>,
    /// The message that is streaming, in each conversation, as it began.
    streaming: BTreeMap<String, Value>,
    /// The messages whose end each line reports.
    ends: BTreeMap<usize, String>,
    /// The lines that report the end of a message, with the counts that its start has as well.
    repeated_counts: BTreeSet<(usize, String)>,
}

/// Returns the session of a line, by either of its names.
fn session_of(record: &Value) -> String {
    let session = record["session_id"].as_str().or_else(|| record["sessionId"].as_str());
    session.unwrap_or("").to_owned()
}

impl RawSide {
    /// Begins to read a file.
    pub fn begin_file(&mut self, number: usize) {
        self.file = number;
    }

    /// Adds the record on a line.
    pub fn add(&mut self, line: usize, record: &Value) {
        let kind = &record["type"];
        self.has_removals |= kind == "message.removed" || kind == "session.revert.committed";
        let opening = record["event"]["message"]["id"].as_str();
        self.openings.extend(opening.map(str::to_owned));
        self.is_unnamed |= codex::is_unnamed(record);
        self.has_report |= kind == "result";
        self.add_end(line, record);
        if kind == "assistant" {
            let message = &record["message"];
            let id = message["id"].as_str().unwrap_or("").to_owned();
            *self.messages.entry(id).or_default() |= !message["stop_reason"].is_null();
        }
        if let Some(models) = record["modelUsage"].as_object() {
            let totals = (session_of(record), !models.is_empty());
            self.totals.insert((self.file, line), totals);
        }
        self.agent_tools.extend(codex::agent_tool(record));
        for part in parts(record) {
            let mut leaves = Vec::new();
            leaves_of(part.object, "", &mut leaves);
            leaves.extend(codex::duration(part.object));
            if part.kind == "turn/completed" || part.kind.starts_with("item/completed/") {
                self.ended.extend(codex::names(&part));
            }
            for id in &part.ids {
                let reports = self.reports.entry(id.clone()).or_default();
                reports.push((line, part.state()));
                let known = self.fields.entry(id.clone()).or_default();
                known.extend(
                    leaves.iter().map(|(path, value)| (shape(&part.kind, path), value.clone())),
                );
            }
        }
    }

    /// Adds the start or the end of a message that is streaming.
    fn add_end(&mut self, line: usize, record: &Value) {
        let (event, caller) = (&record["event"], record["parent_tool_use_id"].to_string());
        if event["type"] == "message_start" {
            self.streaming.insert(caller, event["message"].clone());
        } else if let (true, Some(message)) =
            (event["type"] == "message_delta", self.streaming.get(&caller))
        {
            self.ends.extend(message["id"].as_str().map(|id| (line, id.to_owned())));
            let again = event["usage"].as_object().into_iter().flatten();
            let again = again.filter(|(name, value)| message["usage"].get(name) == Some(value));
            let paths = again.map(|(name, _)| (line, format!("event.usage.{name}")));
            self.repeated_counts.extend(paths);
        }
    }

    /// Returns whether a line reports the end of a message with a count that the message's start has as
    /// well.
    pub fn is_repeated_count(&self, line: usize, path: &str) -> bool {
        self.repeated_counts.contains(&(line, path.to_owned()))
    }

    /// Returns whether a field is a total that a later line of the same file replaces, for the same
    /// session. The cost is not among them: on every line it is the sum over the models.
    pub fn is_earlier_total(&self, (file, line): (usize, usize), path: &str) -> bool {
        let is_total = path.starts_with("modelUsage.") && !path.ends_with(".costUSD");
        let Some((session, _)) = self.totals.get(&(file, line)).filter(|_| is_total) else {
            return false;
        };
        let mut later = self.totals.range((file, line + 1)..(file + 1, 0));
        later.any(|(_, (other, has_totals))| other == session && *has_totals)
    }

    /// Returns whether a line of this stream reports the end of a message of which the files have no
    /// line, so that nothing beside the stream shows how it ended.
    pub fn is_end_of_lost(&self, line: usize, files: &Self) -> bool {
        self.ends.get(&line).is_some_and(|message| !files.messages.contains_key(message))
    }

    /// Returns whether a line of this stream reports the end of a message of which the files have only
    /// lines that were written before its end.
    pub fn is_end_of_unended(&self, line: usize, files: &Self) -> bool {
        let is_ended = self.ends.get(&line).and_then(|message| files.messages.get(message));
        is_ended == Some(&false)
    }

    /// Returns whether the end of a run was reported.
    pub fn has_report(&self) -> bool {
        self.has_report
    }

    /// Returns whether the record with one of these identities has this value at this path, which is
    /// that of a record of this kind.
    pub fn carries(&self, ids: &[String], (kind, path): (&str, &str), value: &Value) -> bool {
        let wanted = (shape(kind, path), value.to_string());
        ids.iter().any(|id| self.fields.get(id).is_some_and(|it| it.contains(&wanted)))
    }

    /// Returns whether this line of a stream is of a message that arrived as a whole, while others
    /// were shown as they arrived.
    pub fn is_whole(&self, part: &RawPart<'_>) -> bool {
        let message = part.object["message"]["id"].as_str().unwrap_or("");
        part.kind == "assistant" && !self.openings.is_empty() && !self.openings.contains(message)
    }

    /// Returns the further names under which known gaps may name a record of the files beside this
    /// stream: of one that a view without names cannot report by its id, and of the end of a turn or an
    /// item that the stream did not report.
    pub fn kinds_beside(&self, part: &RawPart<'_>) -> Vec<String> {
        let names = codex::names(part);
        let exec = (self.is_unnamed && !self.has(&names)).then(|| format!("exec/{}", part.kind));
        let is_end = matches!(&*part.kind, "event_msg/task_complete" | "event_msg/turn_aborted")
            || part.kind.starts_with("item/");
        let is_reported = names.iter().any(|id| self.ended.contains(id));
        let is_unreported = is_end && !self.is_unnamed && self.has(&names) && !is_reported;
        let unreported = is_unreported.then(|| format!("unreported/{}", part.kind));
        exec.into_iter().chain(unreported).collect()
    }

    /// Returns the name under which known gaps name the output of a call about subagents, whose tool
    /// other records of these files have. Rows about all outputs are not about it.
    pub fn kind_of_output(&self, part: &RawPart<'_>) -> Option<String> {
        let call = part.object["payload"]["call_id"].as_str()?;
        let is_output =
            part.kind == "response_item/function_call_output" && codex::is_answer(part.object);
        let tool = self.agent_tools.get(call).filter(|_| is_output)?;
        Some(format!("{tool}/{}", part.kind))
    }

    /// Returns whether messages were removed again.
    pub fn has_removals(&self) -> bool {
        self.has_removals
    }

    /// Returns whether an object was reported.
    pub fn has(&self, ids: &[String]) -> bool {
        ids.iter().any(|id| self.reports.contains_key(id))
    }

    /// Returns whether an item of Codex was reported to begin, and not to end.
    pub fn is_open(&self, ids: &[String]) -> bool {
        self.has(ids) && !self.reports_of(ids).any(|(_, kind)| kind.contains("completed"))
    }

    /// Returns whether an object was reported again after this line.
    pub fn is_reported_after(&self, ids: &[String], line: usize) -> bool {
        self.reports_of(ids).any(|(reported, _)| *reported > line)
    }

    /// Returns whether another line reports an object in the state that it has in this line.
    pub fn is_repeated(&self, ids: &[String], line: usize) -> bool {
        let states: BTreeSet<_> =
            self.reports_of(ids).filter(|(at, _)| *at == line).map(|(_, state)| state).collect();
        self.reports_of(ids).any(|(at, state)| *at != line && states.contains(state))
    }

    fn reports_of(&self, ids: &[String]) -> impl Iterator<Item = &(usize, String)> {
        ids.iter().filter_map(|id| self.reports.get(id)).flatten()
    }
}

/// A part of a raw record that has a kind and identities of its own.
pub struct RawPart<'a> {
    /// The kind of record, as known gaps name it.
    pub kind: String,
    /// What identifies it on both sides; nothing if only one side has such records.
    pub ids: Vec<String>,
    /// The message that an event changes, if only the message is stored.
    pub message: Option<String>,
    /// Where it is in the record.
    pub at: Vec<Step>,
    /// The part.
    pub object: &'a Value,
}

impl RawPart<'_> {
    /// Returns the names under which known gaps may name it: those of its variants, and its kind.
    pub fn gap_kinds(&self) -> Vec<String> {
        let is_subagent = self.object["parent_tool_use_id"].is_string()
            || self.object["isSidechain"] == Value::Bool(true);
        // Beside the message, which the agent wrote itself, its line is like others.
        let kind = self.kind.strip_prefix("synthetic/").unwrap_or(&self.kind);
        let variant = is_subagent.then(|| format!("subagent/{kind}"));
        let own = (kind != self.kind).then(|| self.kind.clone());
        variant.into_iter().chain(own).chain([kind.to_owned()]).collect()
    }

    /// Returns what the record reports, apart from its place in a file: a compaction writes lines
    /// again, below other parents.
    fn state(&self) -> String {
        if codex::is_record(self.object) {
            return self.kind.clone();
        }
        match self.object.get("message") {
            Some(message) => format!("{} {message}", self.object["uuid"]),
            None => self.object.to_string(),
        }
    }
}

/// A step of a path into JSON.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// A field of an object.
    Field(String),
    /// An element of a list.
    Element(usize),
}

/// Returns the parts of a record: the record itself, or the objects that it carries.
pub fn parts(record: &Value) -> Vec<RawPart<'_>> {
    let field = |name: &str| Step::Field(name.to_owned());
    if let Some(part) = codex::part(record) {
        return vec![part];
    }
    if let Some(messages) = record.get("messages").and_then(Value::as_array) {
        let info = &record["info"];
        let mut all = vec![opencode(session_kind(info), info, vec![field("info")])];
        for (number, message) in messages.iter().enumerate() {
            let at = vec![field("messages"), Step::Element(number)];
            match message.get("info") {
                Some(_) => all.extend(exchange(message, &at)),
                // Version 2: a message is one object.
                None => all.push(opencode("message", message, at)),
            }
        }
        return all;
    }
    let is_newer = record.get("aggregate_id").is_none() && record.get("properties").is_none();
    if let (Some(kind), Some(data), true) = (record["type"].as_str(), record.get("data"), is_newer)
    {
        // A step that begins again replaces what its message had.
        let step = data["assistantMessageID"].as_str().filter(|_| kind == REPLACED_STEP);
        let ids = step.map(|id| format!("step {id}")).into_iter().collect();
        let message = data["assistantMessageID"].as_str().map(|id| format!("message {id}"));
        let (kind, at) = (kind.to_owned(), Vec::new());
        return vec![RawPart { kind, ids, message, at, object: record }];
    }
    if record.get("parts").is_some() {
        return exchange(record, &[]);
    }
    if let Some(list) = record.as_array() {
        let each = |(number, message)| exchange(message, &[Step::Element(number)]);
        return list.iter().enumerate().flat_map(each).collect();
    }
    if record.get("projectID").is_some() {
        return vec![opencode(session_kind(record), record, Vec::new())];
    }
    if let Some(about) = record.get("properties") {
        let kind = record["type"].as_str().unwrap_or("");
        return vec![event(kind, record, about, "properties")];
    }
    if record.get("aggregate_id").is_some() {
        // The log of events appends a version to the type.
        let kind = record["type"].as_str().unwrap_or("");
        let kind = kind.trim_end_matches(|it: char| it.is_ascii_digit() || it == '.');
        return vec![event(kind, record, &record["data"], "data")];
    }
    if let (Some(table), Some(row)) = (record["table"].as_str(), record.get("row")) {
        return vec![database_row(table, row)];
    }
    vec![claude(record)]
}

/// Returns the object that an event is about, or the event itself.
fn event<'a>(kind: &str, record: &'a Value, about: &'a Value, below: &str) -> RawPart<'a> {
    let at = |name: &str| [below, name].map(|step| Step::Field(step.to_owned())).to_vec();
    match kind {
        "session.created" | "session.updated" => opencode("session", &about["info"], at("info")),
        "message.updated" => opencode("message", &about["info"], at("info")),
        "message.part.updated" => opencode("part", &about["part"], at("part")),
        _ => {
            // Events of the newer protocol have one id on the bus and in the log.
            let id = record["id"].as_str().filter(|_| kind.starts_with("session.next."));
            let ids = id.map(|id| format!("event {id}")).into_iter().collect();
            RawPart { kind: kind.to_owned(), ids, message: None, at: vec![], object: record }
        }
    }
}

/// Returns a row of the database: a message or a part is in it as JSON, beside columns.
fn database_row<'a>(table: &str, row: &'a Value) -> RawPart<'a> {
    let ids = row["id"].as_str().map(|id| format!("{table} {id}")).into_iter().collect();
    let at = vec![Step::Field("row".to_owned())];
    RawPart { kind: format!("row/{table}"), ids, message: None, at, object: row }
}

fn exchange<'a>(message: &'a Value, at: &[Step]) -> Vec<RawPart<'a>> {
    let below = |steps: Vec<Step>| [at.to_vec(), steps].concat();
    let info = below(vec![Step::Field("info".to_owned())]);
    let mut all = vec![opencode("message", &message["info"], info)];
    for (number, part) in message["parts"].as_array().into_iter().flatten().enumerate() {
        let steps = vec![Step::Field("parts".to_owned()), Step::Element(number)];
        all.push(opencode("part", part, below(steps)));
    }
    all
}

/// Returns the kind of a session object: those of OpenCode 2 have a location.
fn session_kind(session: &Value) -> &'static str {
    if session.get("location").is_some() { "v2/session" } else { "session" }
}

fn opencode<'a>(kind: &str, object: &'a Value, at: Vec<Step>) -> RawPart<'a> {
    let ids = object["id"].as_str().map(|id| format!("{kind} {id}")).into_iter().collect();
    RawPart { kind: kind.to_owned(), ids, message: None, at, object }
}

fn claude(record: &Value) -> RawPart<'_> {
    let kind = record["type"].as_str().unwrap_or("");
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let mut ids: Vec<String> = Vec::new();
    let content = record["message"]["content"].as_array();
    let result = content
        .and_then(|blocks| blocks.iter().find(|block| block["type"] == "tool_result"))
        .and_then(|block| text(&block["tool_use_id"]));
    let kind = match kind {
        "assistant" => {
            // A line is named by its blocks: not every version gives it one `uuid` on both sides,
            // and one side may lack some lines of a message.
            let message = record["message"]["id"].as_str().unwrap_or("");
            let blocks = content.into_iter().flatten();
            ids.extend(blocks.map(|block| format!("block {message} {}", block_name(block))));
            let is_synthetic = record["message"]["model"] == "<synthetic>";
            if is_synthetic { "synthetic/assistant" } else { "assistant" }.to_owned()
        }
        "user" => match result {
            Some(call) => {
                ids.push(format!("result {call}"));
                "tool_result".to_owned()
            }
            None => {
                ids.extend(text(&record["uuid"]).map(|uuid| format!("line {uuid}")));
                "user".to_owned()
            }
        },
        "" if record.get("agentType").is_some() => "meta".to_owned(),
        other => {
            let event = &record["event"]["type"];
            let attached = &record["attachment"]["type"];
            let detail = [&record["subtype"], attached, &record["operation"], event];
            match detail.into_iter().find_map(Value::as_str) {
                Some(detail) => format!("{other}/{detail}"),
                None => other.to_owned(),
            }
        }
    };
    if kind == "system/compact_boundary" {
        ids.extend(text(&record["uuid"]).map(|uuid| format!("line {uuid}")));
    }
    RawPart { kind, ids, message: None, at: Vec::new(), object: record }
}

/// Returns what distinguishes a content block from the others of its message.
fn block_name(block: &Value) -> String {
    let named = ["id", "text", "thinking", "data"].map(|name| block[name].as_str());
    let name = named.into_iter().flatten().next().unwrap_or("");
    format!("{} {name}", block["type"])
}

/// Returns a path in one form: without numbers of elements, in camel case, and with a text as
/// content like a list of one text.
fn shape(kind: &str, path: &str) -> String {
    // What a provider says of an item is not what an agent says of it.
    if kind.starts_with("response_item/") && path == "payload.status" {
        return "response.status".to_owned();
    }
    let mut out = String::new();
    let (mut skip, mut upper) = (false, false);
    for letter in path.chars() {
        match letter {
            '[' => skip = true,
            ']' => skip = false,
            _ if skip => {}
            '_' if !out.is_empty() && !out.ends_with('.') => upper = true,
            _ if upper => {
                out.extend(letter.to_uppercase());
                upper = false;
            }
            _ => out.push(letter),
        }
    }
    // What an event is about has another name in the log, and an object is inside its row there.
    let own = ["properties.", "data."].iter().find_map(|it| out.strip_prefix(it)).unwrap_or(&out);
    // So are the items and turns of Codex.
    let codex = ["params.", "payload."].iter().find_map(|it| own.strip_prefix(it));
    let own = codex.map_or(own, |it| {
        let inner = ["item.", "turn."].iter().find_map(|name| it.strip_prefix(name));
        // An item of the app-server repeats the times of its message.
        inner.filter(|it| !it.ends_with("edAtMs")).unwrap_or(it)
    });
    match own {
        "message.content" => "message.content.text",
        "aborted" => "isAbortedMidStream",
        "sessionId" => "sessionID",
        "messageId" => "messageID",
        _ => own,
    }
    .to_owned()
}

/// Collects the values inside a value, with their paths.
pub fn leaves_of(value: &Value, path: &str, leaves: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                let dot = if path.is_empty() { "" } else { "." };
                leaves_of(value, &format!("{path}{dot}{name}"), leaves);
            }
        }
        Value::Array(elements) if !elements.is_empty() => {
            for (number, value) in elements.iter().enumerate() {
                leaves_of(value, &format!("{path}[{number}]"), leaves);
            }
        }
        leaf => leaves.push((path.to_owned(), leaf.to_string())),
    }
}
