//! Events of older files that stand for items: they have what live views report of the call.

use serde_json::{Map, Value};

use super::{canonical, text};
use crate::parity::{Facts, RecordName};

/// An event, the kind of item that it stands for, and what both have.
const EVENTS: [(&str, &str, &[&str]); 6] = [
    (
        "exec_command_end",
        "commandExecution",
        &[
            "command",
            "commandActions",
            "cwd",
            "processId",
            "source",
            "status",
            "exitCode",
            "turnId",
        ],
    ),
    ("patch_apply_end", "fileChange", &["status", "turnId"]),
    ("mcp_tool_call_end", "mcpToolCall", &["server", "tool", "arguments", "readOnlyHint"]),
    (
        "collab_agent_spawn_end",
        "collabAgentToolCall",
        &["model", "prompt", "reasoningEffort", "senderThreadId"],
    ),
    ("collab_waiting_end", "collabAgentToolCall", &["senderThreadId"]),
    ("view_image_tool_call", "imageView", &["path"]),
];

/// Returns whether files that have such an event have one for every call.
pub(super) fn is_of_any_call(event: &str) -> bool {
    let is_common = matches!(event, "patch_apply_end" | "mcp_tool_call_end");
    !is_common && EVENTS.iter().any(|(name, _, _)| *name == event)
}

/// States what an item of a stream has, as its event would.
pub(super) fn state_streamed(facts: &mut Facts, params: &Value) {
    let (item, thread) = (&params["item"], text(params, "threadId").unwrap_or(""));
    let tool = text(item, "tool").unwrap_or("");
    for (event, kind, fields) in EVENTS {
        let is_tool = match event {
            "collab_agent_spawn_end" => tool == "spawnAgent",
            "collab_waiting_end" => tool == "wait",
            _ => true,
        };
        if text(item, "type") == Some(kind) && is_tool {
            let id = text(item, "id").unwrap_or("");
            let mut item = canonical::item(item);
            item["turnId"] = params["turnId"].clone();
            state(facts, event, id, &item, fields);
            facts.places.insert(RecordName::new(event, id), thread.to_owned());
        }
    }
}

/// States what an event of a file has.
pub(super) fn state_stored(facts: &mut Facts, event: &str, payload: &Value) {
    let Some((_, kind, fields)) = EVENTS.into_iter().find(|(name, _, _)| *name == event) else {
        return;
    };
    let mut item = payload.as_object().cloned().unwrap_or_default();
    item.extend(payload["invocation"].as_object().cloned().unwrap_or_default());
    item.insert("type".to_owned(), kind.into());
    let id = text(payload, "call_id").unwrap_or("");
    let mut item = canonical::item(&Value::Object(item));
    item["turnId"] = payload["turn_id"].clone();
    state(facts, event, id, &item, fields);
}

fn state(facts: &mut Facts, event: &str, id: &str, item: &Value, fields: &[&str]) {
    let record = RecordName::new(event, id);
    let mut found = Map::new();
    for name in fields {
        if let Some(value) = item.get(*name) {
            found.insert((*name).to_owned(), value.clone());
        }
    }
    facts.set(&record, "", &Value::Object(found));
}
