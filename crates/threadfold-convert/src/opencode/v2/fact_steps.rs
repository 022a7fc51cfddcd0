//! Rebuilds the messages of the model from the events of its steps.

use serde_json::{Value, json};

use super::facts::{EventFacts, FactEvent, without_null};

/// Reads an event of a step.
pub(super) fn read(facts: &mut EventFacts, kind: &str, event: &FactEvent<'_>) {
    let data = event.data;
    let Some(id) = data["assistantMessageID"].as_str() else { return };
    if kind == "step.started" {
        // A folder without version control has no snapshots.
        let snapshot = data["snapshot"].as_str().map(|start| json!({"start": start}));
        let object = json!({"type": "assistant", "agent": data["agent"], "model": data["model"],
            "content": [], "snapshot": snapshot, "time": {"created": data["started"]}});
        facts.close_step(id, event);
        return facts.create(id, event, object);
    }
    if matches!(kind, "step.ended" | "step.failed") {
        facts.open_steps.remove(event.session);
    }
    let key = |kind: &str| format!("{id} {kind} {}", data["ordinal"]);
    match kind {
        "text.delta" | "reasoning.delta" => {
            let kind = kind.trim_end_matches(".delta");
            let delta = data["delta"].as_str().unwrap_or("");
            facts.deltas.entry(key(kind)).or_default().push_str(delta);
            return;
        }
        "text.ended" | "reasoning.ended" => {
            let kind = kind.trim_end_matches(".ended");
            let text = data["text"].as_str().unwrap_or("").to_owned();
            facts.end_text(&key(kind), (id, "content"), &text);
        }
        _ => {}
    }
    let Some(message) = facts.messages.get_mut(id) else { return };
    let mut wrong: Vec<(&str, Value, Value)> = Vec::new();
    if message.session != event.session {
        wrong.push(("sessionID", message.session.as_str().into(), event.session.into()));
    }
    wrong.extend(disagreement(&message.object, kind, event));
    change(&mut message.object, kind, event);
    let named = wrong
        .into_iter()
        .map(|(field, first, second)| (id.to_owned(), field.to_owned(), first, second));
    facts.contradictions.extend(named);
}

/// Returns the fields in which an event contradicts an earlier one, where nothing of it is stored.
fn disagreement(
    message: &Value,
    kind: &str,
    event: &FactEvent<'_>,
) -> Option<(&'static str, Value, Value)> {
    let data = event.data;
    let items = message["content"].as_array()?;
    match kind {
        "text.started" | "reasoning.started" => {
            let kind = kind.trim_end_matches(".started");
            let expected = items.iter().filter(|item| item["type"] == kind).count();
            let differs = data["ordinal"] != expected;
            differs.then(|| ("ordinal", expected.into(), data["ordinal"].clone()))
        }
        "tool.success" | "tool.failed" => {
            let call = items.iter().rfind(|it| it["type"] == "tool" && it["id"] == data["id"])?;
            let differs = !call["time"]["ran"].is_null() && call["executed"] != data["executed"];
            differs.then(|| ("executed", call["executed"].clone(), data["executed"].clone()))
        }
        _ => None,
    }
}

/// Sets a field, unless the event lacks it.
fn set(object: &mut Value, field: &str, value: &Value) {
    if !value.is_null() {
        object[field] = value.clone();
    }
}

fn change(message: &mut Value, kind: &str, event: &FactEvent<'_>) {
    let (data, created) = (event.data, event.created);
    match kind {
        "step.streamed" => message["time"]["streamed"] = created.clone(),
        "step.ended" | "step.failed" => {
            message["time"]["completed"] = created.clone();
            for field in ["finish", "rawFinish", "cost", "tokens", "error"] {
                set(message, field, &data[field]);
            }
            if kind == "step.failed" {
                message["finish"] = "error".into();
            }
            for (field, value) in [("end", &data["snapshot"]), ("files", &data["files"])] {
                if !value.is_null() {
                    message["snapshot"][field] = value.clone();
                }
            }
        }
        "retry.scheduled" => {
            let (attempt, at, error) = (&data["attempt"], &data["at"], &data["error"]);
            message["retry"] = json!({"attempt": attempt, "at": at, "error": error});
        }
        "text.started" => {
            push(message, json!({"type": "text", "text": "", "state": data["state"]}));
        }
        "reasoning.started" => {
            let time = json!({"created": created});
            push(
                message,
                json!({"type": "reasoning", "text": "", "state": data["state"], "time": time}),
            );
        }
        "text.ended" | "reasoning.ended" => {
            let kind = kind.trim_end_matches(".ended");
            let Some(ordinal) = data["ordinal"].as_u64() else { return };
            let items = message["content"].as_array_mut().into_iter().flatten();
            let mut same = items.filter(|item| item["type"] == kind);
            if let Some(item) = same.nth(ordinal as usize) {
                set(item, "text", &data["text"]);
                set(item, "state", &data["state"]);
                if kind == "reasoning" {
                    item["time"]["completed"] = created.clone();
                }
            }
        }
        "tool.input.started" => {
            push(
                message,
                json!({"type": "tool", "id": data["id"], "name": data["name"],
                    "state": {"status": "streaming", "input": ""}, "time": {"created": created}}),
            );
        }
        _ => {
            let items = message["content"].as_array_mut().into_iter().flatten();
            let mut calls = items.filter(|it| it["type"] == "tool" && it["id"] == data["id"]);
            if let Some(call) = calls.next_back() {
                change_call(call, kind, event);
            }
        }
    }
}

fn push(message: &mut Value, item: Value) {
    if let Some(items) = message["content"].as_array_mut() {
        items.push(without_null(item));
    }
}

fn change_call(call: &mut Value, kind: &str, event: &FactEvent<'_>) {
    let (data, created) = (event.data, event.created);
    let input = match &call["state"]["input"] {
        input @ Value::Object(_) => input.clone(),
        // The input was cut off before the call began.
        _ => json!({}),
    };
    match kind {
        "tool.input.ended" => call["state"]["input"] = data["text"].clone(),
        "tool.called" => {
            call["state"] = json!({"status": "running", "input": data["input"], "metadata": {}});
            call["time"]["ran"] = created.clone();
            set(call, "executed", &data["executed"]);
            set(call, "providerState", &data["state"]);
        }
        "tool.success" | "tool.failed" => {
            let status = if kind == "tool.success" { "completed" } else { "error" };
            let state = json!({"status": status, "input": input, "content": data["content"],
                "error": data["error"], "metadata": data["metadata"]});
            call["state"] = without_null(state);
            call["time"]["completed"] = created.clone();
            set(call, "executed", &data["executed"]);
            set(call, "providerResultState", &data["state"]);
        }
        _ => {}
    }
}
