//! What calls returned to the model: the file has it as a text, and items have what it is made of.
//!
//! A command is compared inside the file, where its item has the id of the call. Other calls are
//! compared by what they do, because `codex exec` prints no ids: the n-th call of a tool with its
//! arguments, the n-th patch of some files, the n-th wait for some threads.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use threadfold_core::Json;

use super::{canonical, contents, text};
use crate::codex::outputs::ModelOutput;
use crate::codex::wire::with_underscores;
use crate::parity::{Facts, RecordName};

/// What stands in an output in the place of its middle.
const CUT: &str = " truncated…";

/// What a patch that was applied returns before the list of its files.
const APPLIED: &str = "Success. Updated the following files:";

/// The calls of one side so far.
#[derive(Default)]
pub(super) struct Outputs {
    /// How many items, and how many outputs, each name has had.
    counts: BTreeMap<(Form, String), usize>,
    /// The calls of the file, by id.
    calls: BTreeMap<String, Call>,
    /// The commands of the file, by id: what they wrote, and their exit code.
    commands: BTreeMap<String, (String, Option<i64>)>,
    /// What calls of the file returned.
    returned: Vec<(String, Value)>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    Item,
    Output,
}

/// A call whose output is compared.
#[derive(Clone)]
struct Call {
    kind: &'static str,
    name: String,
}

impl Outputs {
    /// Reads an item that ended, of any view.
    pub(super) fn read_item(&mut self, facts: &mut Facts, item: &Value) {
        if let Some((call, value)) = of_item(item) {
            self.state(facts, Form::Item, &call, &value);
        }
    }

    /// Reads an item of a file that ended.
    pub(super) fn read_stored_item(&mut self, facts: &mut Facts, item: &Value) {
        self.read_item(facts, item);
        if text(item, "type") == Some("CommandExecution")
            && let (Some(id), Some(output)) = (text(item, "id"), text(item, "aggregated_output"))
        {
            let code = item["exit_code"].as_i64();
            self.commands.insert(id.to_owned(), (output.to_owned(), code));
        }
    }

    /// Reads a call of the model.
    pub(super) fn read_call(&mut self, payload: &Value) {
        if let (Some(id), Some(call)) = (text(payload, "call_id"), of_call(payload)) {
            self.calls.insert(id.to_owned(), call);
        }
    }

    /// Reads what a call returned to the model.
    pub(super) fn read_output(&mut self, facts: &mut Facts, payload: &Value) {
        let (Some(id), Some(output)) = (text(payload, "call_id"), payload.get("output")) else {
            return;
        };
        self.returned.push((id.to_owned(), output.clone()));
        let Some(call) = self.calls.get(id).cloned() else { return };
        if let Some(value) = returned(call.kind, output) {
            self.state(facts, Form::Output, &call, &value);
        }
    }

    fn state(&mut self, facts: &mut Facts, form: Form, call: &Call, value: &Value) {
        let name = format!("{} {}", call.kind, call.name);
        let count = self.counts.entry((form, name)).or_default();
        *count += 1;
        let record = RecordName::new(call.kind, &format!("{} ({count})", call.name));
        // One value, so that a part that is missing is a difference.
        facts.agree(&record, "value", &Value::from(value.to_string()));
    }

    /// Compares what commands returned with what they wrote.
    pub(super) fn finish(self, facts: &mut Facts) {
        for (id, output) in self.returned {
            let Some((written, code)) = self.commands.get(&id) else { continue };
            let raw = Json::of(&output);
            let told = ModelOutput::read(raw.raw());
            let Some(body) = told.body.filter(|_| !told.is_aborted && !told.is_running) else {
                continue;
            };
            let is_right = is_shortened(&body, written)
                && (told.exit_code.is_none() || told.exit_code == *code);
            if !is_right {
                let record = RecordName::new("call", &id);
                let written = json!({"output": written, "exitCode": code});
                facts.contradict(&record, "output", Json::of(&output), Json::of(&written));
            }
        }
    }
}

/// Returns whether a text is another one, whole or without its middle.
fn is_shortened(body: &str, whole: &str) -> bool {
    let (body, whole) = (body.trim(), whole.trim());
    if body == whole {
        return true;
    }
    // The middle is replaced by `…N chars truncated…`; a long output may have it as well.
    let Some((before, after)) = body.split_once(CUT) else { return false };
    let before = before.rsplit_once('…').map_or("", |(before, _)| before).trim_end();
    let (begins, ends) = (whole.starts_with(before), whole.ends_with(after.trim_start()));
    (begins && ends) || whole.contains(CUT)
}

/// Returns the call that an item is about, and what it returned.
fn of_item(item: &Value) -> Option<(Call, Value)> {
    let kind = with_underscores(text(item, "type")?);
    let get = |names: [&str; 2]| names.iter().find_map(|it| item.get(*it));
    let is_complete = text(item, "status") == Some("completed");
    match kind.as_str() {
        "mcp_tool_call" => {
            let tool = [&item["server"], &item["tool"]].map(|it| it.as_str().unwrap_or(""));
            let name = contents::server_call_name(tool, &item["arguments"]);
            let result = item.get("result").filter(|it| it["content"].is_array())?;
            let structured = ["structuredContent", "structured_content"];
            let structured = structured.iter().find_map(|it| result.get(*it));
            let value = match structured.filter(|it| !it.is_null()) {
                Some(structured) => structured.clone(),
                None => texts(&result["content"]),
            };
            Some((Call { kind: "server_output", name }, value))
        }
        "file_change" if is_complete => {
            let changes = changes(&item["changes"])?;
            Some((Call { kind: "patch_output", name: changes.join(" ") }, json!(changes)))
        }
        "collab_agent_tool_call" | "collab_tool_call" if is_complete => {
            let tool = with_underscores(text(item, "tool")?);
            let ids = get(["receiverThreadIds", "receiver_thread_ids"])?;
            let name = threads([ids]);
            let agents = get(["agentsStates", "agents_states"])?;
            let states = canonical::states(agents);
            // Nobody has ended before the time was over.
            let states = states.as_object().filter(|it| !it.is_empty())?;
            match tool.as_str() {
                "wait" => Some((Call { kind: "wait_output", name }, json!(ended(states)))),
                "close_agent" => {
                    let state = states.values().next().cloned()?;
                    Some((Call { kind: "close_output", name }, state))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// Returns the agents that have ended, with their last words.
fn ended(states: &serde_json::Map<String, Value>) -> BTreeMap<&String, &Value> {
    let is_open = |state: &Value| {
        matches!(state[0].as_str(), Some("running" | "pending_init" | "in_progress"))
    };
    states.iter().filter(|(_, state)| !is_open(state)).collect()
}

/// Returns the call that a record of the model makes, if what it returns is compared.
fn of_call(payload: &Value) -> Option<Call> {
    let name = text(payload, "name").unwrap_or("");
    let arguments: Value =
        text(payload, "arguments").and_then(|it| serde_json::from_str(it).ok()).unwrap_or_default();
    if let Some((server, tool)) = contents::server_tool(name, text(payload, "namespace")) {
        let name = contents::server_call_name([server, tool], &arguments);
        return Some(Call { kind: "server_output", name });
    }
    let ids = ["id", "ids", "target", "targets"].map(|it| &arguments[it]);
    match name {
        "wait" | "wait_agent" => Some(Call { kind: "wait_output", name: threads(ids) }),
        "close_agent" => Some(Call { kind: "close_output", name: threads(ids) }),
        _ => {
            let inner =
                arguments.as_object().into_iter().flatten().filter_map(|(_, it)| it.as_str());
            let patch = inner.chain(text(payload, "input")).find_map(patched)?;
            Some(Call { kind: "patch_output", name: patch.join(" ") })
        }
    }
}

/// Returns what a call returned, in the form that its item has.
fn returned(kind: &str, output: &Value) -> Option<Value> {
    let raw = Json::of(output);
    let body = ModelOutput::read(raw.raw()).body.map(|it| it.into_owned());
    if body.as_ref().is_some_and(|it| it.contains(CUT)) {
        return None;
    }
    let parsed = || body.as_deref().and_then(|it| serde_json::from_str::<Value>(it).ok());
    match kind {
        "server_output" => match (output, parsed()) {
            // The first part is what the harness says about the call.
            (Value::Array(parts), _) => Some(texts(&Value::from(parts.get(1..)?.to_vec()))),
            (_, Some(Value::Array(parts))) => Some(texts(&Value::from(parts))),
            (_, Some(value)) => Some(value),
            (_, None) => Some(json!(body?)),
        },
        "wait_output" => {
            let value = parsed()?;
            let states = canonical::states(&value["status"]);
            let states = states.as_object().filter(|it| !it.is_empty())?;
            Some(json!(ended(states)))
        }
        "close_output" => {
            let value = parsed()?;
            let state = ["status", "previous_status"].iter().find_map(|it| value.get(*it))?;
            Some(canonical::state(state))
        }
        "patch_output" => {
            let body = body?;
            // A patch that a command applies has the lines of both.
            let body = Json::string(&body);
            let body = ModelOutput::read(body.raw()).body.map(|it| it.into_owned())?;
            let listed = body.trim().strip_prefix(APPLIED)?;
            let mut lines: Vec<String> = listed.trim().lines().map(listed_file).collect();
            lines.sort();
            Some(json!(lines))
        }
        _ => None,
    }
}

/// Returns the texts of the parts of a result.
fn texts(parts: &Value) -> Value {
    let parts = parts.as_array().into_iter().flatten();
    parts.filter_map(|it| it["text"].as_str()).map(Value::from).collect()
}

/// Returns the names of threads, in one order.
fn threads<'a>(lists: impl IntoIterator<Item = &'a Value>) -> String {
    let mut names: Vec<&str> = Vec::new();
    for list in lists {
        names.extend(list.as_str());
        names.extend(list.as_array().into_iter().flatten().filter_map(Value::as_str));
    }
    names.sort_unstable();
    names.dedup();
    names.join(" ")
}

/// Returns a line of the list of files that a patch changed, without the folder.
fn listed_file(line: &str) -> String {
    let (kind, path) = line.split_once(' ').unwrap_or(("", line));
    format!("{kind} {}", path.rsplit('/').next().unwrap_or(path))
}

/// Returns the files that a patch changes; nothing if it moves one, which has two names.
fn changes(changes: &Value) -> Option<Vec<String>> {
    let letter = |kind: &str| match kind {
        "add" => Some("A"),
        "update" => Some("M"),
        "delete" => Some("D"),
        _ => None,
    };
    let file = |path: &str, kind: &Value| -> Option<String> {
        let kind = kind.as_str().map_or_else(|| kind["type"].as_str(), Some)?;
        Some(listed_file(&format!("{} {path}", letter(kind)?)))
    };
    let is_moved = |kind: &Value| kind.get("move_path").is_some_and(|it| !it.is_null());
    let mut files: Vec<String> = match changes {
        Value::Object(files) => {
            let all = files.iter().filter(|(_, it)| !is_moved(it));
            all.map(|(path, it)| file(path, it)).collect::<Option<_>>()?
        }
        Value::Array(list) => {
            let all = list.iter().filter(|it| !is_moved(&it["kind"]));
            all.map(|it| file(text(it, "path")?, &it["kind"])).collect::<Option<_>>()?
        }
        _ => return None,
    };
    let total =
        changes.as_object().map_or_else(|| changes.as_array().map_or(0, Vec::len), |it| it.len());
    files.sort();
    (files.len() == total && total > 0).then_some(files)
}

/// Returns the files that the text of a patch changes; nothing if it moves one.
fn patched(patch: &str) -> Option<Vec<String>> {
    let mut files = Vec::new();
    for line in patch.lines().filter_map(|it| it.strip_prefix("*** ")) {
        if line.starts_with("Move to: ") {
            return None;
        }
        for (mark, kind) in [("Add File: ", "A"), ("Update File: ", "M"), ("Delete File: ", "D")] {
            if let Some(path) = line.strip_prefix(mark) {
                files.push(listed_file(&format!("{kind} {path}")));
            }
        }
    }
    files.sort();
    (!files.is_empty()).then_some(files)
}
