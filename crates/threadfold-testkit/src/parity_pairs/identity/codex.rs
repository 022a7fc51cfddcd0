//! Names the records of Codex: messages of the app-server, lines of `codex exec`, lines of a rollout.

use serde_json::Value;

use super::{RawPart, Step};

/// Returns a record of Codex: an item or a call has one id in the app-server and in the file, and so
/// does a turn. `codex exec` numbers its items, which are named by their content as well.
///
/// What a recorder puts around a message of the app-server is no part of it.
pub(super) fn part(record: &Value) -> Option<RawPart<'_>> {
    let kind = kind_of(record)?;
    let (message, at) = match record.get("msg") {
        Some(message) => (message, vec![Step::Field("msg".to_owned())]),
        None => (record, Vec::new()),
    };
    let mut ids = named(&kind, message);
    ids.extend(content_of(message));
    Some(RawPart { kind, ids, message: None, at, object: message })
}

fn kind_of(record: &Value) -> Option<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let joined = |kind: &str, detail: Option<String>| match detail {
        Some(detail) => format!("{kind}/{detail}"),
        None => kind.to_owned(),
    };
    let kind = record["type"].as_str().unwrap_or("");
    let payload = &record["payload"];
    let message = record.get("msg").unwrap_or(record);
    Some(if record.get("timestamp").is_some() && payload.is_object() {
        match (kind, text(&payload["type"]).as_deref()) {
            ("event_msg", Some("item_completed")) => joined("item", text(&payload["item"]["type"])),
            ("response_item", Some("message")) => {
                joined("response_item/message", text(&payload["role"]))
            }
            (_, detail) => joined(kind, detail.map(str::to_owned)),
        }
    } else if record["dir"] == "client" {
        let is_empty = message["params"].as_object().is_some_and(serde_json::Map::is_empty);
        let kind = joined("client", text(&message["method"]));
        joined(&kind, is_empty.then(|| "empty".to_owned()))
    } else if let Some(method) = message["method"].as_str() {
        joined(method, text(&message["params"]["item"]["type"]))
    } else if record.get("dir").is_some() {
        // Some requests are only confirmed.
        let is_empty = message["result"].as_object().is_some_and(serde_json::Map::is_empty);
        joined("response", is_empty.then(|| "empty".to_owned()))
    } else if is_unnamed(record) {
        joined(kind, text(&record["item"]["type"]))
    } else if kind == "error" && record["message"].is_string() {
        "error".to_owned()
    } else {
        return None;
    })
}

/// Returns whether this is a line of `codex exec`.
pub(super) fn is_unnamed(record: &Value) -> bool {
    let kind = record["type"].as_str().unwrap_or("");
    ["thread.", "turn.", "item."].iter().any(|it| kind.starts_with(it))
        && record.get("properties").is_none()
        && record.get("data").is_none()
}

/// Returns whether this is a record of Codex, which has a text in several records: those of one kind
/// with one content are copies.
pub(super) fn is_record(object: &Value) -> bool {
    let has = |name: &str| object.get(name).is_some();
    has("params") || (has("payload") && has("timestamp")) || is_unnamed(object)
}

/// Returns how long an item of a file took, as live views report it.
pub(super) fn duration(record: &Value) -> Option<(String, String)> {
    let duration = &record["payload"]["item"]["duration"];
    let (secs, nanos) = (duration["secs"].as_u64()?, duration["nanos"].as_u64()?);
    Some(("payload.item.durationMs".to_owned(), (secs * 1000 + nanos / 1_000_000).to_string()))
}

/// The tools that begin, address and interrupt subagents.
const AGENT_TOOLS: [&str; 6] = [
    "followup_task",
    "interrupt_agent",
    "resume_agent",
    "send_input",
    "send_message",
    "spawn_agent",
];

/// Returns the id and the tool of a call about subagents.
pub(super) fn agent_tool(record: &Value) -> Option<(String, String)> {
    let call = &record["payload"];
    let name = call["name"].as_str().filter(|it| AGENT_TOOLS.contains(it))?;
    Some((call["call_id"].as_str()?.to_owned(), name.to_owned()))
}

/// Returns whether a record has what a call about subagents returned that was carried out: JSON, or
/// nothing.
pub(super) fn is_answer(record: &Value) -> bool {
    let output = record["payload"]["output"].as_str();
    output.is_some_and(|it| {
        it.is_empty() || serde_json::from_str::<Value>(it).is_ok_and(|it| it.is_object())
    })
}

/// Returns the names of a record, without its content.
pub(super) fn names(part: &RawPart<'_>) -> Vec<String> {
    named(&part.kind, part.object)
}

fn named(kind: &str, message: &Value) -> Vec<String> {
    let id = |name: &str, value: &Value| {
        value.as_str().filter(|it| it.len() > 4).map(|it| format!("{name} {it}"))
    };
    let (params, payload) = (&message["params"], &message["payload"]);
    let is_turn = kind.contains("task_") || kind.starts_with("turn/") || kind.contains("_aborted");
    let ids = [
        id("item", &params["item"]["id"]),
        id("item", &payload["item"]["id"]),
        id("item", &payload["call_id"]),
        id("item", &payload["id"]).filter(|_| kind.starts_with("response_item/")),
        id("exec", &message["item"]["id"]),
        id("turn", &params["turn"]["id"]),
        id("turn", &payload["turn_id"]).filter(|_| is_turn),
    ];
    ids.into_iter().flatten().collect()
}

/// Returns the texts and thoughts that a record has, each of which a rollout has in several records.
pub(in crate::parity_pairs) fn texts_of(record: &Value) -> Vec<String> {
    let payload = &record["payload"];
    let item = if payload["item"].is_object() { &payload["item"] } else { payload };
    let parts = |value: &Value| -> Vec<String> {
        let parts = value.as_array().into_iter().flatten();
        parts.filter_map(|it| it.as_str().or(it["text"].as_str())).map(str::to_owned).collect()
    };
    let text = |value: &Value| value.as_str().map(str::to_owned).into_iter().collect();
    let (kind, found): (&str, Vec<String>) = match item["type"].as_str().unwrap_or("") {
        "agent_message" => ("said", text(&item["message"])),
        "AgentMessage" => ("said", vec![parts(&item["content"]).concat()]),
        "message" if item["role"] == "assistant" => {
            ("said", vec![parts(&item["content"]).concat()])
        }
        "user_message" => ("asked", text(&item["message"])),
        "UserMessage" => ("asked", parts(&item["content"])),
        "message" if item["role"] == "user" => ("asked", parts(&item["content"])),
        "agent_reasoning" | "agent_reasoning_raw_content" => ("thought", text(&item["text"])),
        "Reasoning" => {
            ("thought", [parts(&item["summary_text"]), parts(&item["raw_content"])].concat())
        }
        "reasoning" => ("thought", [parts(&item["summary"]), parts(&item["content"])].concat()),
        _ => ("", Vec::new()),
    };
    found.into_iter().map(|text| format!("{kind} {text}")).collect()
}

/// Returns what a text or a command is found by, where one view has no id for it.
fn content_of(message: &Value) -> Option<String> {
    let payload = &message["payload"];
    let items = [&message["params"]["item"], &payload["item"], &message["item"], payload];
    let item = items.into_iter().find(|it| it["type"].is_string())?;
    let joined = |value: &Value, separator: &str| {
        let part = |part: &Value| part.as_str().or(part["text"].as_str()).map(str::to_owned);
        let parts: Option<Vec<String>> = value.as_array()?.iter().map(part).collect();
        parts.map(|it| it.join(separator))
    };
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match item["type"].as_str()? {
        "agentMessage" | "AgentMessage" | "agent_message" => text(&item["text"])
            .or_else(|| text(&item["message"]))
            .or_else(|| joined(&item["content"], ""))
            .map(|it| format!("said {it}")),
        "message" if item["role"] == "assistant" => {
            joined(&item["content"], "").map(|it| format!("said {it}"))
        }
        "reasoning" | "Reasoning" => text(&item["text"])
            .or_else(|| joined(&item["summary"], "\n"))
            .or_else(|| joined(&item["summary_text"], "\n"))
            .map(|it| format!("thought {it}")),
        "commandExecution" | "CommandExecution" | "command_execution" => {
            let list = item["command"].as_array().and_then(|it| it.last()?.as_str());
            let line = item["command"].as_str().map(|it| {
                let script = it.split_once(" -lc ").map_or(it, |(_, script)| script);
                script.trim_matches(['\'', '"'])
            });
            list.or(line).map(|it| format!("ran {it}"))
        }
        _ => None,
    }
}
