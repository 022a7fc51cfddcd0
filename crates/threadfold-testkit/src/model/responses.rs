//! Implements OpenAI Responses.
//!
//! Thinking is sent as the summary of a reasoning item, and its signature as that item's
//! encrypted content; redacted thinking is a reasoning item without a summary. A call without an
//! id, given as a [`Block::Item`], gets one; so custom tools and namespaces need no blocks of
//! their own.

mod deltas;
mod earlier;

use serde_json::{Value, json};

use super::{
    fault::Place,
    openai::OpenAi,
    play::Piece,
    protocol::{Answer, Protocol, text_of},
    script::{Block, StopReason, Usage},
    select::Turn,
};

/// OpenAI Responses, at `POST /v1/responses`.
pub(crate) struct Responses;

impl Protocol for Responses {
    fn message_prefix(&self) -> &'static str {
        "resp_tf_"
    }

    fn tool_prefix(&self) -> &'static str {
        "call_tf_"
    }

    /// An answer is a sequence of the model's items.
    fn turns(&self, request: &Value) -> Vec<Turn> {
        let mut turns = Vec::new();
        let mut was_models = false;
        for item in request["input"].as_array().into_iter().flatten() {
            let kind = item["type"].as_str().unwrap_or("message");
            let role = item["role"].as_str();
            let is_models = match kind {
                "message" => role == Some("assistant"),
                _ => kind == "reasoning" || kind.ends_with("_call"),
            };
            match role {
                _ if is_models && was_models => {}
                _ if is_models => turns.push(Turn::Assistant),
                Some("user") => turns.push(Turn::User(text_of(&item["content"]))),
                // Mail of another agent is a subagent's prompt.
                _ if kind == "agent_message" => turns.push(Turn::User(mail(&item["content"]))),
                _ => turns.push(Turn::Other),
            }
            was_models = is_models;
        }
        if let Some(prompt) = request["input"].as_str() {
            turns.push(Turn::User(prompt.to_owned()));
        }
        turns
    }

    fn pieces(&self, answer: &Answer<'_>) -> Vec<Piece> {
        let begun = response(answer, "in_progress", &[]);
        let created = json!({ "type": "response.created", "response": begun });
        let mut pieces = vec![piece(&created, Some(Place::Start))];
        for (index, block, tool_id) in answer.blocks() {
            item_pieces(answer, index, block, tool_id, &mut pieces);
        }
        let (kind, status) = match answer.step.stop_reason() {
            StopReason::MaxTokens => ("response.incomplete", "incomplete"),
            _ => ("response.completed", "completed"),
        };
        let whole = response(answer, status, &items(answer));
        pieces.push(piece(&json!({ "type": kind, "response": whole }), None));
        pieces
    }

    fn body(&self, answer: &Answer<'_>) -> Value {
        let status = match answer.step.stop_reason() {
            StopReason::MaxTokens => "incomplete",
            _ => "completed",
        };
        response(answer, status, &items(answer))
    }

    fn refusal(&self, status: u16, message: &str) -> Value {
        OpenAi.refusal(status, message)
    }

    fn error_event(&self, status: u16) -> Vec<u8> {
        let code = match status {
            429 => "rate_limit_exceeded",
            400..=499 => "invalid_prompt",
            _ => "server_error",
        };
        let error = json!({ "code": code, "message": "the script says so" });
        let response = json!({ "status": "failed", "error": error });
        event(&json!({ "type": "response.failed", "response": response }))
    }
}

/// Adds the events of one item: its start, its deltas, its end.
fn item_pieces(
    answer: &Answer<'_>,
    index: usize,
    block: &Block,
    tool_id: &str,
    pieces: &mut Vec<Piece>,
) {
    let whole = item(answer, index, block, tool_id);
    let event = |kind: &str, fields: Value| {
        let mut event = json!({ "type": kind, "output_index": index, "item_id": whole["id"] });
        for (name, value) in fields.as_object().into_iter().flatten() {
            event[name] = value.clone();
        }
        event
    };
    let within = |deltas| Some(Place::Within { block: index, deltas });
    let added = json!({ "item": deltas::begun(&whole) });
    pieces.push(piece(&event("response.output_item.added", added), within(0)));
    let mut count = 0;
    for delta in deltas::deltas(&whole, answer.step) {
        count += usize::from(delta.is_delta);
        let reaches = within(count).filter(|_| delta.is_delta);
        pieces.push(piece(&event(delta.kind, delta.fields), reaches));
    }
    let done = event("response.output_item.done", json!({ "item": whole }));
    pieces.push(piece(&done, Some(Place::After { block: index })));
}

/// Returns the text of a mail, which a real provider would encrypt.
fn mail(content: &Value) -> String {
    let parts = content.as_array().into_iter().flatten();
    let texts = parts.filter_map(|it| it["text"].as_str().or(it["encrypted_content"].as_str()));
    texts.collect::<Vec<_>>().join("\n")
}

fn items(answer: &Answer<'_>) -> Vec<Value> {
    answer.blocks().map(|(index, block, tool_id)| item(answer, index, block, tool_id)).collect()
}

/// Items of different answers must have different ids.
fn item(answer: &Answer<'_>, index: usize, block: &Block, tool_id: &str) -> Value {
    let id = |kind: &str| format!("{kind}_{}_{index}", answer.message_id);
    match block {
        Block::Text(text) => json!({
            "type": "message",
            "id": id("msg"),
            "status": "completed",
            "role": "assistant",
            "content": [{ "type": "output_text", "text": text, "annotations": [], "logprobs": [] }],
        }),
        Block::Thinking { text, signature } => json!({
            "type": "reasoning",
            "id": id("rs"),
            "summary": [{ "type": "summary_text", "text": text }],
            "encrypted_content": signature,
        }),
        Block::RedactedThinking(data) => json!({
            "type": "reasoning",
            "id": id("rs"),
            "summary": [],
            "encrypted_content": data,
        }),
        Block::ToolUse { name, .. } | Block::WrittenToolUse { name, .. } => json!({
            "type": "function_call",
            "id": id("fc"),
            "status": "completed",
            "call_id": tool_id,
            "name": name,
            "arguments": earlier::fill(&block.arguments(), answer.request),
        }),
        Block::Item(given) => {
            let mut item = given.clone();
            let is_call = block.is_call();
            let prefix = if is_call { "fc" } else { "item" };
            if item.get("id").is_none() && item["type"] != "image_generation_call" {
                item["id"] = json!(id(prefix));
            }
            if is_call && item.get("call_id").is_none() {
                item["call_id"] = json!(tool_id);
            }
            if let Some(arguments) = item["arguments"].as_str() {
                item["arguments"] = json!(earlier::fill(arguments, answer.request));
            }
            item
        }
    }
}

fn response(answer: &Answer<'_>, status: &str, output: &[Value]) -> Value {
    let is_over = status != "in_progress";
    let details = match status {
        "incomplete" => json!({ "reason": "max_output_tokens" }),
        _ => Value::Null,
    };
    json!({
        "id": answer.message_id,
        "object": "response",
        "created_at": 0,
        "model": answer.model,
        "status": status,
        "error": null,
        "incomplete_details": details,
        "output": output,
        "usage": if is_over { usage(answer.step.tokens()) } else { Value::Null },
    })
}

fn usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input,
        "input_tokens_details": { "cached_tokens": usage.cache_read },
        "output_tokens": usage.output,
        "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": usage.input + usage.output,
    })
}

fn piece(data: &Value, reaches: Option<Place>) -> Piece {
    Piece { bytes: event(data), reaches }
}

fn event(data: &Value) -> Vec<u8> {
    let name = data["type"].as_str().unwrap_or("message");
    format!("event: {name}\ndata: {data}\n\n").into_bytes()
}
