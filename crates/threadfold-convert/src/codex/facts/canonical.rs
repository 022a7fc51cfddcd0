//! Items in the one form that both the app-server and a rollout can be brought into.

use serde_json::{Map, Value, json};

use crate::codex::wire::{split_words, with_underscores};

/// What is in one view only, or is compared as part of a block.
const LEFT_OUT: [&str; 16] = [
    "aggregatedOutput",
    "formattedOutput",
    "stdout",
    "stderr",
    "receiverAgents",
    "target",
    "reviewOutput",
    "userFacingHint",
    "duration",
    "parsedCmd",
    "summaryText",
    "rawContent",
    "startedAtMs",
    "completedAtMs",
    "changes",
    "agentsStates",
];

/// Returns an item without what only one view has, spelled in one way.
pub(super) fn item(item: &Value) -> Value {
    let Some(fields) = spelled(item) else { return Value::Null };
    let get = |name: &str| fields.get(name).cloned().unwrap_or_default();
    let mut out = Map::new();
    for (name, value) in &fields {
        if !LEFT_OUT.contains(&name.as_str()) {
            out.insert(name.clone(), value.clone());
        }
    }
    let kind = get("type").as_str().map(lower).unwrap_or_default();
    out.insert("type".into(), kind.as_str().into());
    for name in ["source", "status", "tool", "kind"] {
        if let Some(text) = out.get(name).and_then(Value::as_str) {
            let text = with_underscores(text);
            out.insert(name.into(), text.into());
        }
    }
    for name in ["cwd", "path"] {
        if let Some(path) = out.get(name).and_then(Value::as_str) {
            let path = path.strip_prefix("file://").unwrap_or(path).to_owned();
            out.insert(name.into(), path.into());
        }
    }
    if let Some(line) = get("command").as_str() {
        out.insert("command".into(), json!(split_words(line).unwrap_or_default()));
    }
    if let Some(listed) = get("parsedCmd").as_array() {
        out.insert("commandActions".into(), listed.iter().map(action).collect());
    } else if let Some(listed) = get("commandActions").as_array() {
        out.insert("commandActions".into(), listed.iter().map(action).collect());
    }
    // The app-server has the absolute path of a file that a command reads.
    let folder = out.get("cwd").and_then(Value::as_str).unwrap_or("").to_owned();
    for action in out.get_mut("commandActions").and_then(Value::as_array_mut).into_iter().flatten()
    {
        let path = action["path"].as_str().filter(|it| !it.starts_with('/'));
        if let Some(path) = path.filter(|_| action["type"] == "read" && !folder.is_empty()) {
            action["path"] = format!("{folder}/{path}").into();
        }
    }
    let duration = get("duration");
    if let (Some(secs), Some(nanos)) = (duration["secs"].as_u64(), duration["nanos"].as_u64()) {
        out.insert("durationMs".into(), (secs * 1000 + nanos / 1_000_000).into());
    }
    if let Some(changes) = item.get("changes") {
        out.insert("kinds".into(), kinds(changes));
    }
    if let Some(agents) = item.get("agentsStates").or_else(|| item.get("agents_states")) {
        out.insert("agents".into(), states(agents));
    }
    match kind.as_str() {
        "agent_message" => {
            let parts = get("content");
            if let Some(parts) = parts.as_array() {
                let texts: Vec<_> = parts.iter().filter_map(|it| it["text"].as_str()).collect();
                out.remove("content");
                out.insert("text".into(), texts.join("\n").into());
            }
        }
        "reasoning" => {
            if let Some(summary) = fields.get("summaryText") {
                out.insert("summary".into(), summary.clone());
            }
            if let Some(raw) = fields.get("rawContent") {
                out.insert("content".into(), raw.clone());
            }
        }
        "user_message" => {
            out.insert(
                "content".into(),
                get("content").as_array().into_iter().flatten().map(part).collect(),
            );
        }
        "entered_review_mode" => {
            if let Some(hint) = fields.get("userFacingHint") {
                out.insert("review".into(), hint.clone());
            }
        }
        "exited_review_mode" => {
            if let Some(review) = fields.get("reviewOutput") {
                out.insert("review".into(), review_text(review).into());
            }
        }
        "mcp_tool_call" => {
            if let Some(Value::Object(result)) = out.get_mut("result") {
                result.remove("isError");
            }
        }
        _ => {}
    }
    without_null(Value::Object(out))
}

/// Returns an object with its names in camel case, and what is inside as it is.
fn spelled(item: &Value) -> Option<Map<String, Value>> {
    let fields = item.as_object()?.iter();
    Some(fields.map(|(name, value)| (camel(name), camel_inside(name, value))).collect())
}

pub(super) fn camel_inside(name: &str, value: &Value) -> Value {
    match value {
        // What a model or a server wrote.
        Value::Object(_) if name == "arguments" => value.clone(),
        Value::Object(fields) => Value::Object(
            fields.iter().map(|(name, it)| (camel(name), camel_inside(name, it))).collect(),
        ),
        Value::Array(list) => list.iter().map(|it| camel_inside(name, it)).collect(),
        other => other.clone(),
    }
}

pub(super) fn camel(name: &str) -> String {
    crate::parity::normalize(name)
}

/// Returns a type in small letters with underscores; files begin it with a capital.
fn lower(kind: &str) -> String {
    let mut letters = kind.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_lowercase).collect();
    with_underscores(&format!("{first}{}", letters.as_str()))
}

/// Returns what a command does, as live views list it.
fn action(action: &Value) -> Value {
    let Value::Object(mut fields) = action.clone() else { return action.clone() };
    if let Some(command) = fields.remove("cmd") {
        fields.insert("command".into(), command);
    }
    if let Some(kind) = fields.get("type").and_then(Value::as_str).map(with_underscores) {
        fields.insert("type".into(), kind.into());
    }
    without_null(Value::Object(fields))
}

fn part(part: &Value) -> Value {
    let mut part = part.clone();
    if let Some(kind) = part["type"].as_str().map(with_underscores) {
        part["type"] = kind.into();
    }
    without_null(part)
}

/// Returns how a patch changes each file.
fn kinds(changes: &Value) -> Value {
    let kind = |kind: &Value| json!([kind["type"], kind["move_path"]]);
    match changes {
        Value::Object(files) => {
            Value::Object(files.iter().map(|(path, it)| (path.clone(), kind(it))).collect())
        }
        Value::Array(list) => {
            let path = |it: &Value| it["path"].as_str().unwrap_or("").to_owned();
            Value::Object(list.iter().map(|it| (path(it), kind(&it["kind"]))).collect())
        }
        other => other.clone(),
    }
}

/// Returns the state of a subagent: a word and what the subagent said last.
pub(super) fn state(agent: &Value) -> Value {
    match agent {
        Value::Object(fields) if fields.contains_key("status") => {
            let status = fields["status"].as_str().map(with_underscores);
            json!([status, fields.get("message")])
        }
        Value::Object(fields) => {
            let only = fields.iter().next();
            only.map_or(Value::Null, |(status, message)| json!([status, message]))
        }
        status => json!([status, null]),
    }
}

/// Returns the states of subagents, by id.
pub(super) fn states(agents: &Value) -> Value {
    let Value::Object(agents) = agents else { return agents.clone() };
    Value::Object(agents.iter().map(|(id, agent)| (id.clone(), state(agent))).collect())
}

/// Returns the text that live views make of the findings of a review.
pub(super) fn review_text(review: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let mut parts = vec![text(&review["overallExplanation"])];
    let findings: Vec<&Value> = review["findings"].as_array().into_iter().flatten().collect();
    match findings.len() {
        0 => {}
        1 => parts.push("Review comment:".to_owned()),
        _ => parts.push("Full review comments:".to_owned()),
    }
    for finding in findings {
        let place = &finding["codeLocation"];
        let lines = &place["lineRange"];
        let body: Vec<String> =
            text(&finding["body"]).lines().map(|line| format!("  {line}")).collect();
        parts.push(format!(
            "- {} — {}:{}-{}\n{}",
            text(&finding["title"]),
            text(&place["absoluteFilePath"]),
            lines["start"],
            lines["end"],
            body.join("\n")
        ));
    }
    parts.join("\n\n")
}

/// Returns a value without the fields that have none, at any depth.
pub(super) fn without_null(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(_, it)| !it.is_null());
            Value::Object(kept.map(|(name, it)| (name, without_null(it))).collect())
        }
        Value::Array(list) => list.into_iter().map(without_null).collect(),
        other => other,
    }
}
