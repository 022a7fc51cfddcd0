//! Implements OpenAI Chat Completions.
//!
//! Thinking is sent as `reasoning_content`, like several compatible providers do; signatures and
//! redacted thinking do not exist in this format and are omitted.

use serde_json::{Value, json};

use super::{
    fault::Place,
    play::Piece,
    protocol::{Answer, Protocol, text_of},
    script::{Block, StopReason, Usage},
    select::Turn,
};

/// OpenAI Chat Completions, at `POST /v1/chat/completions`.
pub(crate) struct OpenAi;

impl Protocol for OpenAi {
    fn message_prefix(&self) -> &'static str {
        "chatcmpl_tf_"
    }

    fn tool_prefix(&self) -> &'static str {
        "call_tf_"
    }

    fn turns(&self, request: &Value) -> Vec<Turn> {
        let messages = request["messages"].as_array();
        messages
            .into_iter()
            .flatten()
            .map(|message| match message["role"].as_str() {
                Some("assistant") => Turn::Assistant,
                Some("user") => Turn::User(text_of(&message["content"])),
                _ => Turn::Other,
            })
            .collect()
    }

    fn pieces(&self, answer: &Answer<'_>) -> Vec<Piece> {
        let role = json!({ "role": "assistant", "content": "" });
        let mut pieces = vec![piece(&chunk(answer, role, None), Some(Place::Start))];

        let mut calls = 0;
        for (index, block, tool_id) in answer.blocks() {
            let deltas = deltas(answer, block, tool_id, calls);
            calls += usize::from(block.is_call());

            let count = deltas.len();
            for (number, delta) in (1..).zip(deltas) {
                // The format has no event for the end of a block; its last delta is the end.
                let place = if number == count {
                    Place::After { block: index }
                } else {
                    Place::Within { block: index, deltas: number }
                };
                pieces.push(piece(&chunk(answer, delta, None), Some(place)));
            }
        }

        let reason = finish_reason(answer.step.stop_reason());
        pieces.push(piece(&chunk(answer, json!({}), Some(reason)), None));
        if answer.request["stream_options"]["include_usage"] == true {
            let mut last = chunk(answer, json!({}), None);
            last["choices"] = json!([]);
            last["usage"] = usage(answer.step.tokens());
            pieces.push(piece(&last, None));
        }
        pieces.push(Piece { bytes: b"data: [DONE]\n\n".to_vec(), reaches: None });
        pieces
    }

    fn body(&self, answer: &Answer<'_>) -> Value {
        let mut text = String::new();
        let mut reasoning = String::new();
        let mut calls = Vec::new();
        for (_, block, tool_id) in answer.blocks() {
            match block {
                Block::Text(it) => text.push_str(it),
                Block::Thinking { text, .. } => reasoning.push_str(text),
                Block::RedactedThinking(_) | Block::Item(_) => {}
                Block::ToolUse { name, .. } | Block::WrittenToolUse { name, .. } => {
                    calls.push(json!({
                        "id": tool_id,
                        "type": "function",
                        "function": { "name": name, "arguments": block.arguments() },
                    }))
                }
            }
        }

        let mut message = json!({ "role": "assistant", "content": text });
        if !reasoning.is_empty() {
            message["reasoning_content"] = json!(reasoning);
        }
        if !calls.is_empty() {
            message["tool_calls"] = json!(calls);
        }
        json!({
            "id": answer.message_id,
            "object": "chat.completion",
            "created": 0,
            "model": answer.model,
            "choices": [{
                "index": 0,
                "message": message,
                "finish_reason": finish_reason(answer.step.stop_reason()),
            }],
            "usage": usage(answer.step.tokens()),
        })
    }

    fn refusal(&self, status: u16, message: &str) -> Value {
        let kind = match status {
            400..=428 => "invalid_request_error",
            429 => "rate_limit_error",
            _ => "server_error",
        };
        json!({ "error": { "message": message, "type": kind, "param": null, "code": null } })
    }

    fn error_event(&self, status: u16) -> Vec<u8> {
        event(&self.refusal(status, "the script says so"))
    }
}

/// Returns the deltas of a block; `calls` is the number of tool calls before it.
///
/// The first delta of a tool call has its name without arguments.
fn deltas(answer: &Answer<'_>, block: &Block, tool_id: &str, calls: usize) -> Vec<Value> {
    let under = |key: &str, text: &str| -> Vec<Value> {
        let chunks = answer.step.chunks(text);
        chunks.into_iter().map(|it| json!({ key: it })).collect()
    };
    match block {
        Block::Text(text) => under("content", text),
        Block::Thinking { text, .. } => under("reasoning_content", text),
        Block::RedactedThinking(_) | Block::Item(_) => Vec::new(),
        Block::ToolUse { name, .. } | Block::WrittenToolUse { name, .. } => {
            let mut all = vec![json!({ "tool_calls": [{
                "index": calls,
                "id": tool_id,
                "type": "function",
                "function": { "name": name, "arguments": "" },
            }] })];
            let arguments = answer.step.chunks(&block.arguments());
            all.extend(arguments.into_iter().map(
                |it| json!({ "tool_calls": [{ "index": calls, "function": { "arguments": it } }] }),
            ));
            all
        }
    }
}

fn chunk(answer: &Answer<'_>, delta: Value, finish_reason: Option<&str>) -> Value {
    json!({
        "id": answer.message_id,
        "object": "chat.completion.chunk",
        "created": 0,
        "model": answer.model,
        "choices": [{ "index": 0, "delta": delta, "finish_reason": finish_reason }],
    })
}

fn usage(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": { "cached_tokens": usage.cache_read },
    })
}

fn finish_reason(reason: StopReason) -> &'static str {
    match reason {
        StopReason::EndTurn => "stop",
        StopReason::ToolUse => "tool_calls",
        StopReason::MaxTokens => "length",
        StopReason::Refusal => "content_filter",
    }
}

fn piece(data: &Value, place: Option<Place>) -> Piece {
    Piece { bytes: event(data), reaches: place }
}

fn event(data: &Value) -> Vec<u8> {
    format!("data: {data}\n\n").into_bytes()
}
