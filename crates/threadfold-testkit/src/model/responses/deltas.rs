//! The events between the start and the end of an item of Responses.

use serde_json::{Value, json};

use crate::model::script::Step;

/// An event within an item.
pub(super) struct ItemEvent {
    pub(super) kind: &'static str,
    pub(super) fields: Value,
    /// It is a delta, and not a frame around deltas.
    pub(super) is_delta: bool,
}

/// Returns an item as it is when it starts: without its text.
pub(super) fn begun(whole: &Value) -> Value {
    let mut begun = whole.clone();
    let texts: &[(&str, Value)] = match whole["type"].as_str() {
        Some("message") => &[("content", json!([]))],
        Some("reasoning") => &[("content", json!([])), ("summary", json!([]))],
        Some("function_call") => &[("arguments", json!(""))],
        Some("custom_tool_call") => &[("input", json!(""))],
        _ => &[],
    };
    for (name, empty) in texts {
        if begun.get(name).is_some() {
            begun[*name] = empty.clone();
        }
    }
    // Encrypted content is sent with the end of an item, not before.
    if begun.get("encrypted_content").is_some() {
        begun["encrypted_content"] = json!("");
    }
    begun
}

/// Returns the events of an item's text; an item of another kind is sent as a whole.
pub(super) fn deltas(whole: &Value, step: &Step) -> Vec<ItemEvent> {
    let chunked = |kind, text: &Value, place: Value| {
        let chunks = step.chunks(text.as_str().unwrap_or_default());
        chunks.into_iter().map(move |chunk| {
            let mut fields = place.clone();
            fields["delta"] = json!(chunk);
            ItemEvent { kind, fields, is_delta: true }
        })
    };
    let mut events = Vec::new();
    match whole["type"].as_str().unwrap_or_default() {
        "message" => {
            for (index, part) in parts(whole, "content") {
                let place = json!({ "content_index": index });
                events.extend(chunked("response.output_text.delta", &part["text"], place));
            }
        }
        "function_call" => {
            let kind = "response.function_call_arguments.delta";
            events.extend(chunked(kind, &whole["arguments"], json!({})));
        }
        "custom_tool_call" => {
            let kind = "response.custom_tool_call_input.delta";
            events.extend(chunked(kind, &whole["input"], json!({})));
        }
        "reasoning" => {
            for (index, part) in parts(whole, "summary") {
                let place = json!({ "summary_index": index });
                let frame = |kind| {
                    let fields = json!({ "summary_index": index, "part": part });
                    ItemEvent { kind, fields, is_delta: false }
                };
                let kind = "response.reasoning_summary_text.delta";
                events.push(frame("response.reasoning_summary_part.added"));
                events.extend(chunked(kind, &part["text"], place));
                events.push(frame("response.reasoning_summary_part.done"));
            }
            for (index, part) in parts(whole, "content") {
                let place = json!({ "content_index": index });
                events.extend(chunked("response.reasoning_text.delta", &part["text"], place));
            }
        }
        _ => {}
    }
    events
}

fn parts<'a>(whole: &'a Value, name: &str) -> impl Iterator<Item = (usize, &'a Value)> {
    whole[name].as_array().into_iter().flatten().enumerate()
}
