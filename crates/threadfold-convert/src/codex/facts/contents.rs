//! States calls by what they contain: `codex exec` and the file have no common name for them.

use serde_json::Value;
use threadfold_core::Json;

use super::text;
use crate::codex::wire::{split_words, with_underscores};
use crate::parity::{Facts, RecordName};

/// States that a side has something: kinds that `known_gaps.rs` pairs must be on the other side, too.
pub(super) fn state(facts: &mut Facts, kind: &str, content: &str) {
    let record = RecordName::new(kind, content);
    facts.set(&record, "is", &Value::Bool(true));
}

/// States that a thread of a stream has something; the files may lack the thread.
pub(super) fn state_in(facts: &mut Facts, kind: &str, content: &str, thread: &str) {
    state(facts, kind, content);
    facts.places.insert(RecordName::new(kind, content), thread.to_owned());
}

/// States that a stream has what files have in some forms only.
pub(super) fn state_forms(facts: &mut Facts) {
    for form in FORMS {
        state(facts, "form", form);
    }
}

/// States how a text was spoken, where older files have that in an event.
pub(super) fn state_spoken(facts: &mut Facts, words: &str, message: &Value) {
    let record = RecordName::new("spoken", words);
    let citation = ["memoryCitation", "memory_citation"].iter().find_map(|it| message.get(*it));
    for (name, value) in [("phase", message.get("phase")), ("memoryCitation", citation)] {
        if let Some(value) = value {
            facts.set(&record, name, value);
        }
    }
}

/// States in which phase a text was spoken, as items of the model have it.
pub(super) fn state_phase(facts: &mut Facts, words: &str, message: &Value) {
    if let Some(phase) = message.get("phase") {
        facts.set(&RecordName::new("spoken_phase", words), "phase", phase);
    }
}

/// What not all files have, because of their version or how they were written.
pub(super) const FORMS: [&str; 8] = [
    "agent_states",
    "commands",
    "events_of_all_calls",
    "events_of_some_calls",
    "reasoning_counts",
    "response_ids",
    "server_texts",
    "written_counts",
];

/// States what an item of `codex exec` contains.
pub(super) fn state_printed(facts: &mut Facts, item: &Value, thread: &str) {
    match text(item, "type").unwrap_or("") {
        "command_execution" => {
            let words = text(item, "command").and_then(split_words).unwrap_or_default();
            state(facts, "command", words.last().map_or("", String::as_str));
        }
        "file_change" => {
            for change in item["changes"].as_array().into_iter().flatten() {
                let path = text(change, "path").unwrap_or("");
                state_change(facts, text(change, "kind").unwrap_or(""), path);
            }
        }
        "mcp_tool_call" => {
            let tool = [&item["server"], &item["tool"]].map(|it| it.as_str().unwrap_or(""));
            state_server_call(facts, tool, &item["arguments"]);
            state_texts(facts, &item["result"]["content"]);
        }
        "collab_tool_call" => {
            for name in ["receiver_thread_ids", "prompt", "agents_states"] {
                if item.get(name).is_none() {
                    let record = RecordName::new("line", "");
                    facts.contradict(&record, name, Json::of(&()), Json::of(item));
                }
            }
            if text(item, "sender_thread_id") != Some(thread) {
                state(facts, "thread_id", text(item, "sender_thread_id").unwrap_or(""));
            }
            for receiver in item["receiver_thread_ids"].as_array().into_iter().flatten() {
                state(facts, "thread_id", receiver.as_str().unwrap_or(""));
            }
            if let Some(prompt) = item.get("prompt").filter(|it| !it.is_null()) {
                state(facts, "agent_prompt", prompt.as_str().unwrap_or(""));
            }
            for (id, agent) in item["agents_states"].as_object().into_iter().flatten() {
                state(facts, "thread_id", id);
                state_agent(facts, id, text(agent, "status"), &agent["message"]);
            }
        }
        "web_search" => {
            // No text of a search has this form.
            state(facts, "search", text(item, "query").unwrap_or("(no query)"));
        }
        _ => {}
    }
}

/// States what an item of the app-server contains, where older files have no item.
pub(super) fn state_streamed(facts: &mut Facts, item: &Value, thread: &str) {
    match text(item, "type").unwrap_or("") {
        "fileChange" => {
            for change in item["changes"].as_array().into_iter().flatten() {
                let path = text(change, "path").unwrap_or("");
                let kind = text(&change["kind"], "type").unwrap_or("");
                state_in(facts, "change", &change_name(kind, path), thread);
                if !change["kind"]["move_path"].is_null() {
                    let target = &change["kind"]["move_path"];
                    state_in(facts, "move", &move_name(path, target), thread);
                    state(facts, "stored_move", &move_name(path, target));
                }
            }
        }
        "mcpToolCall" => {
            let name = server_call_name(
                [&item["server"], &item["tool"]].map(|it| it.as_str().unwrap_or("")),
                &item["arguments"],
            );
            state_in(facts, "server_call", &name, thread);
        }
        "collabAgentToolCall" => {
            if let Some(prompt) = item.get("prompt").filter(|it| !it.is_null()) {
                state_in(facts, "agent_prompt", prompt.as_str().unwrap_or(""), thread);
            }
            for receiver in item["receiverThreadIds"].as_array().into_iter().flatten() {
                state_in(facts, "thread_id", receiver.as_str().unwrap_or(""), thread);
            }
        }
        "exitedReviewMode" => {
            state_in(facts, "review", text(item, "review").unwrap_or(""), thread);
        }
        _ => {}
    }
}

fn change_name(kind: &str, path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    format!("{kind} {file}")
}

fn move_name(path: &str, target: &Value) -> String {
    let file = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    format!("{} {}", file(path), file(target.as_str().unwrap_or("")))
}

/// States the state of a subagent that a call returned.
fn state_agent(facts: &mut Facts, id: &str, status: Option<&str>, message: &Value) {
    let status = with_underscores(status.unwrap_or(""));
    // Files have of a subagent that has not ended that it has not.
    let message = message.as_str().unwrap_or("");
    state(facts, "agent_state", &format!("{id} {status} {message}"));
}

fn state_change(facts: &mut Facts, kind: &str, path: &str) {
    state(facts, "change", &change_name(kind, path));
}

fn state_server_call(facts: &mut Facts, tool: [&str; 2], arguments: &Value) {
    state(facts, "server_call", &server_call_name(tool, arguments));
}

pub(super) fn server_call_name(tool: [&str; 2], arguments: &Value) -> String {
    // Models know a tool by letters and digits.
    let [server, tool] = tool.map(|it| it.replace(|it: char| !it.is_ascii_alphanumeric(), "_"));
    format!("{server} {tool} {arguments}")
}

/// States what a search looks for: words, a page or a text in it.
pub(super) fn state_search(facts: &mut Facts, action: &Value) {
    let texts = action.as_object().into_iter().flatten();
    for text in texts.filter_map(|(_, it)| it.as_str()) {
        state(facts, "search", text);
    }
    // A page that is opened was not searched for.
    if action.get("query").is_none() {
        state(facts, "search", "");
    }
    for query in action["queries"].as_array().into_iter().flatten() {
        state(facts, "search", query.as_str().unwrap_or(""));
    }
}

fn state_texts(facts: &mut Facts, parts: &Value) {
    for part in parts.as_array().into_iter().flatten() {
        state(facts, "server_text", &format!("{} {}", part["type"], part["text"]));
    }
}

/// States what an item of a rollout contains, or an event of an older one.
pub(super) fn state_stored_item(facts: &mut Facts, item: &Value) {
    match text(item, "type").unwrap_or("") {
        "CommandExecution" | "exec_command_end" => {
            let words = item["command"].as_array();
            let script = words.and_then(|it| it.last()?.as_str());
            state(facts, "command", script.unwrap_or(""));
        }
        "FileChange" | "patch_apply_end" => {
            for (path, change) in item["changes"].as_object().into_iter().flatten() {
                state_change(facts, text(change, "type").unwrap_or(""), path);
                if !change["move_path"].is_null() {
                    state(facts, "move", &move_name(path, &change["move_path"]));
                    state(facts, "stored_move", &move_name(path, &change["move_path"]));
                }
            }
        }
        "McpToolCall" => {
            let tool = [&item["server"], &item["tool"]].map(|it| it.as_str().unwrap_or(""));
            state_server_call(facts, tool, &item["arguments"]);
            state_texts(facts, &item["result"]["content"]);
        }
        "mcp_tool_call_end" => {
            let call = &item["invocation"];
            let tool = [&call["server"], &call["tool"]].map(|it| it.as_str().unwrap_or(""));
            state_server_call(facts, tool, &call["arguments"]);
            state_texts(facts, &item["result"]["Ok"]["content"]);
        }
        "CollabAgentToolCall" => {
            if let Some(prompt) = text(item, "prompt") {
                state(facts, "agent_prompt", prompt);
            }
            for receiver in item["receiver_thread_ids"].as_array().into_iter().flatten() {
                state(facts, "thread_id", receiver.as_str().unwrap_or(""));
            }
        }
        "WebSearch" | "web_search_end" => {
            state(facts, "search", text(item, "query").unwrap_or(""));
        }
        _ => {}
    }
    for states in ["agents_states", "statuses", "agent_statuses", "status"] {
        for (id, agent) in item[states].as_object().into_iter().flatten() {
            state_stored_agent(facts, id, agent);
        }
    }
}

/// Emits a subagent's status as stored: a word, optionally with its last text.
fn state_stored_agent(facts: &mut Facts, id: &str, agent: &Value) {
    match agent {
        Value::String(status) => state_agent(facts, id, Some(status), &Value::Null),
        Value::Object(fields) => {
            for (status, message) in fields {
                state_agent(facts, id, Some(status), message);
            }
        }
        _ => {}
    }
}

/// States what the arguments of a call contain.
pub(super) fn state_call(facts: &mut Facts, call: &Value) {
    let name = text(call, "name").unwrap_or("");
    let arguments: Value =
        text(call, "arguments").and_then(|it| serde_json::from_str(it).ok()).unwrap_or_default();
    for script in ["cmd", "command"] {
        let last = arguments[script].as_array().and_then(|it| it.last()?.as_str());
        if let Some(script) = arguments[script].as_str().or(last) {
            state(facts, "command", script);
        }
    }
    for prompt in ["message", "prompt"] {
        if let Some(prompt) = arguments[prompt].as_str() {
            state(facts, "agent_prompt", prompt);
        }
    }
    let items = arguments["items"].as_array().into_iter().flatten();
    let texts: Vec<&str> = items.filter_map(|it| text(it, "text")).collect();
    if !texts.is_empty() {
        state(facts, "agent_prompt", &texts.join("\n"));
    }
    for names in ["id", "ids", "target", "targets"] {
        let list = arguments[names].as_array().into_iter().flatten();
        for id in list.chain([&arguments[names]]).filter_map(Value::as_str) {
            state(facts, "thread_id", id);
        }
    }
    if let Some((server, tool)) = server_tool(name, text(call, "namespace")) {
        state_server_call(facts, [server, tool], &arguments);
    }
    let input = text(call, "input").unwrap_or("");
    let inner = arguments.as_object().into_iter().flatten().filter_map(|(_, it)| it.as_str());
    // A patch may also be the text of a command.
    inner.chain([input]).for_each(|it| state_patch(facts, it));
    if name != "apply_patch" {
        // A script of the model: what it runs is one of its texts.
        literals(input).iter().for_each(|it| state(facts, "command", it));
    }
}

/// States the files that a patch changes.
fn state_patch(facts: &mut Facts, patch: &str) {
    let mut moved = "";
    for line in patch.lines().filter_map(|it| it.strip_prefix("*** ")) {
        if let Some(target) = line.strip_prefix("Move to: ") {
            state(facts, "move", &move_name(moved, &target.into()));
        }
        let kinds =
            [("Add File: ", "add"), ("Update File: ", "update"), ("Delete File: ", "delete")];
        for (mark, kind) in kinds {
            if let Some(path) = line.strip_prefix(mark) {
                state_change(facts, kind, path);
                moved = path;
            }
        }
    }
}

/// Returns the server and the tool that a call names.
pub(super) fn server_tool<'a>(
    name: &'a str,
    namespace: Option<&'a str>,
) -> Option<(&'a str, &'a str)> {
    match namespace {
        Some(namespace) => Some((namespace.strip_prefix("mcp__")?.trim_end_matches('_'), name)),
        None => name.strip_prefix("mcp__")?.split_once("__"),
    }
}

/// States what the output of a call contains.
pub(super) fn state_output(facts: &mut Facts, output: &Value) {
    let texts: Vec<&str> = match output {
        Value::String(text) => vec![text],
        Value::Array(parts) => parts.iter().filter_map(|it| text(it, "text")).collect(),
        _ => Vec::new(),
    };
    for text in texts {
        let object = text.find('{').and_then(|at| serde_json::from_str::<Value>(&text[at..]).ok());
        if let Some(object) = object {
            if let Some(id) = object["agent_id"].as_str() {
                state(facts, "thread_id", id);
            }
            state_stored_item(facts, &object);
        }
    }
}

/// Returns the literal texts of a script.
fn literals(script: &str) -> Vec<String> {
    let (mut found, mut letters) = (Vec::new(), script.chars());
    while let Some(quote) = letters.next() {
        if !matches!(quote, '"' | '\'' | '`') {
            continue;
        }
        let mut literal = String::new();
        while let Some(letter) = letters.next() {
            match letter {
                '\\' => match letters.next() {
                    Some('n') => literal.push('\n'),
                    Some('t') => literal.push('\t'),
                    Some(escaped) => literal.push(escaped),
                    None => break,
                },
                _ if letter == quote => break,
                _ => literal.push(letter),
            }
        }
        found.push(literal);
    }
    found
}
