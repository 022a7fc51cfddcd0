//! Implements Anthropic Messages.

use serde_json::{Value, json};

use super::{
    fault::Place,
    play::Piece,
    protocol::{Answer, Protocol, text_of},
    script::{Block, StopReason, Usage},
    select::Turn,
};

/// Anthropic Messages, at `POST /v1/messages`.
pub(crate) struct Anthropic;

impl Protocol for Anthropic {
    fn message_prefix(&self) -> &'static str {
        "msg_tf_"
    }

    fn tool_prefix(&self) -> &'static str {
        "toolu_tf_"
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
        let usage = answer.step.tokens();
        let mut message = message(answer, &[]);
        message["stop_reason"] = Value::Null;
        message["usage"]["output_tokens"] = json!(1);

        let start = json!({ "type": "message_start", "message": message });
        let mut pieces =
            vec![piece(&start, Some(Place::Start)), piece(&json!({ "type": "ping" }), None)];
        for (index, block, tool_id) in answer.blocks() {
            block_pieces(answer, index, block, tool_id, &mut pieces);
        }

        let end = json!({
            "type": "message_delta",
            "delta": {
                "stop_reason": stop_reason(answer.step.stop_reason()),
                "stop_sequence": null,
            },
            "usage": { "output_tokens": usage.output },
        });
        pieces.push(piece(&end, None));
        pieces.push(piece(&json!({ "type": "message_stop" }), None));
        pieces
    }

    fn body(&self, answer: &Answer<'_>) -> Value {
        let content: Vec<Value> = answer
            .blocks()
            .map(|(_, block, tool_id)| match block {
                Block::Text(text) => json!({ "type": "text", "text": text }),
                Block::Thinking { text, signature } => {
                    json!({ "type": "thinking", "thinking": text, "signature": signature })
                }
                Block::RedactedThinking(data) => {
                    json!({ "type": "redacted_thinking", "data": data })
                }
                Block::ToolUse { name, input } => {
                    json!({ "type": "tool_use", "id": tool_id, "name": name, "input": input })
                }
                Block::WrittenToolUse { name, arguments } => {
                    let text = || Value::String(arguments.clone());
                    let input = serde_json::from_str(arguments).unwrap_or_else(|_| text());
                    json!({ "type": "tool_use", "id": tool_id, "name": name, "input": input })
                }
                Block::Item(item) => item.clone(),
            })
            .collect();
        message(answer, &content)
    }

    fn refusal(&self, status: u16, message: &str) -> Value {
        json!({
            "type": "error",
            "error": { "type": error_type(status), "message": message },
        })
    }

    fn error_event(&self, status: u16) -> Vec<u8> {
        event(&self.refusal(status, "the script says so"))
    }
}

/// Returns the answer to `POST /v1/messages/count_tokens`: a rough count, always the same.
pub(crate) fn count_tokens(body: &[u8]) -> Value {
    json!({ "input_tokens": body.len() / 4 })
}

/// Adds the events of one block: its start, its deltas, its end.
fn block_pieces(
    answer: &Answer<'_>,
    index: usize,
    block: &Block,
    tool_id: &str,
    pieces: &mut Vec<Piece>,
) {
    let chunks = |text: &str| answer.step.chunks(text);
    let (start, deltas) = match block {
        Block::Text(text) => {
            (json!({ "type": "text", "text": "" }), deltas("text_delta", "text", chunks(text)))
        }
        Block::Thinking { text, signature } => {
            let mut all = deltas("thinking_delta", "thinking", chunks(text));
            all.push(json!({ "type": "signature_delta", "signature": signature }));
            let start = json!({ "type": "thinking", "thinking": "", "signature": "" });
            (start, all)
        }
        Block::RedactedThinking(data) => {
            (json!({ "type": "redacted_thinking", "data": data }), Vec::new())
        }
        Block::ToolUse { name, .. } | Block::WrittenToolUse { name, .. } => (
            json!({ "type": "tool_use", "id": tool_id, "name": name, "input": {} }),
            deltas("input_json_delta", "partial_json", chunks(&block.arguments())),
        ),
        Block::Item(item) => (item.clone(), Vec::new()),
    };

    let within = |deltas| Some(Place::Within { block: index, deltas });
    pieces.push(piece(
        &json!({ "type": "content_block_start", "index": index, "content_block": start }),
        within(0),
    ));
    for (count, delta) in (1..).zip(deltas) {
        pieces.push(piece(
            &json!({ "type": "content_block_delta", "index": index, "delta": delta }),
            within(count),
        ));
    }
    pieces.push(piece(
        &json!({ "type": "content_block_stop", "index": index }),
        Some(Place::After { block: index }),
    ));
}

fn deltas(kind: &str, key: &str, chunks: Vec<String>) -> Vec<Value> {
    chunks.into_iter().map(|it| json!({ "type": kind, key: it })).collect()
}

fn message(answer: &Answer<'_>, content: &[Value]) -> Value {
    json!({
        "id": answer.message_id,
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": content,
        "stop_reason": stop_reason(answer.step.stop_reason()),
        "stop_sequence": null,
        "usage": usage(answer.step.tokens()),
    })
}

fn usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": usage.cache_write,
    })
}

fn stop_reason(reason: StopReason) -> &'static str {
    match reason {
        StopReason::EndTurn => "end_turn",
        StopReason::ToolUse => "tool_use",
        StopReason::MaxTokens => "max_tokens",
        StopReason::Refusal => "refusal",
    }
}

fn error_type(status: u16) -> &'static str {
    match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    }
}

fn piece(data: &Value, reaches: Option<Place>) -> Piece {
    Piece { bytes: event(data), reaches }
}

/// Returns an event of the stream, which is named for its data's type.
fn event(data: &Value) -> Vec<u8> {
    let name = data["type"].as_str().unwrap_or("message");
    format!("event: {name}\ndata: {data}\n\n").into_bytes()
}
