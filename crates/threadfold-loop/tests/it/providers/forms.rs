//! Forms of answers that the scripted model does not produce.

use serde_json::{Value, json};
use threadfold_core::Json;
use threadfold_loop::Answer;

use super::server::{Reply, Server};
use super::{Kind, ask};

async fn read(kind: Kind, events: &[Value]) -> Answer {
    let body: String = events.iter().map(|it| format!("data: {it}\n\n")).collect();
    let server = Server::start(vec![Reply::body(body)]);
    ask(&*kind.at(&server.address), "{}").await.0.unwrap()
}

/// Returns how an answer with these blocks is sent back.
async fn back(blocks: &[(Value, Vec<Value>)]) -> (Answer, Value) {
    let mut events = vec![json!({ "type": "message_start", "message": { "id": "m1" } })];
    for (index, (start, deltas)) in blocks.iter().enumerate() {
        events
            .push(json!({ "type": "content_block_start", "index": index, "content_block": start }));
        for delta in deltas {
            events.push(json!({ "type": "content_block_delta", "index": index, "delta": delta }));
        }
        events.push(json!({ "type": "content_block_stop", "index": index }));
    }
    events.push(json!({ "type": "message_stop" }));
    let answer = read(Kind::Anthropic, &events).await;
    let back = Kind::Anthropic.dialect().items(std::slice::from_ref(&answer.message));
    let message: Value = serde_json::from_str(back[0].as_str()).unwrap();
    (answer, message["content"].clone())
}

#[tokio::test]
async fn a_call_followed_by_text_keeps_its_position() {
    let (answer, back) = back(&[
        (json!({ "type": "text", "text": "a" }), vec![]),
        (
            json!({ "type": "tool_use", "id": "c1", "name": "Read", "input": {} }),
            vec![json!({ "type": "input_json_delta", "partial_json": "{\"a\":1}" })],
        ),
        (json!({ "type": "text", "text": "b" }), vec![]),
        (json!({ "type": "tool_use", "id": "c2", "name": "Read", "input": {} }), vec![]),
    ])
    .await;
    assert_eq!(
        back,
        json!([
            { "type": "text", "text": "a" },
            { "type": "tool_use", "id": "c1", "name": "Read", "input": { "a": 1 } },
            { "type": "text", "text": "b" },
            { "type": "tool_use", "id": "c2", "name": "Read", "input": {} },
        ])
    );
    let calls: Vec<_> = answer.message.tool_calls.iter().map(|it| it.call_id.as_str()).collect();
    assert_eq!((calls, answer.message.to_text()), (vec!["c1", "c2"], "ab".to_owned()));
}

#[tokio::test]
async fn unknown_fields_are_returned() {
    let blocks = json!([
        { "type": "thinking", "thinking": "hm", "signature": "s", "new": 1 },
        { "type": "text", "text": "cited", "citations": [{ "url": "u" }, { "url": "v" }] },
        { "type": "container_upload", "file_id": "f", "note": "ab" },
        { "type": "tool_use", "id": "c1", "name": "Read", "input": {}, "caller": { "type": "direct" } },
    ]);
    let (answer, back) = back(&[
        (
            json!({ "type": "thinking", "thinking": "", "signature": "", "new": 1 }),
            vec![
                json!({ "type": "thinking_delta", "thinking": "hm" }),
                json!({ "type": "signature_delta", "signature": "s" }),
            ],
        ),
        (
            json!({ "type": "text", "text": "" }),
            vec![
                json!({ "type": "citations_delta", "citation": { "url": "u" } }),
                json!({ "type": "text_delta", "text": "cited" }),
                json!({ "type": "citations_delta", "citation": { "url": "v" } }),
            ],
        ),
        (
            json!({ "type": "container_upload", "file_id": "f", "note": "a" }),
            vec![json!({ "type": "new_delta", "note": "b" })],
        ),
        (blocks[3].clone(), vec![]),
    ])
    .await;
    assert_eq!(back, blocks);
    assert_eq!(answer.message.to_text(), "cited");
}

#[tokio::test]
async fn final_message_fields_are_part_of_the_answer() {
    let answer = read(
        Kind::Anthropic,
        &[
            json!({ "type": "message_start", "message": { "id": "m1", "content": [],
                "stop_reason": null, "usage": { "input_tokens": 5, "output_tokens": 1 } } }),
            json!({ "type": "ping" }),
            json!({ "type": "from_the_future", "index": 9 }),
            json!({ "type": "content_block_start", "index": 0,
                "content_block": { "type": "text", "text": "Hel" } }),
            json!({ "type": "content_block_delta", "index": 0,
                "delta": { "type": "text_delta", "text": "lo" } }),
            json!({ "type": "message_delta", "context_management": { "a": 1 },
                "delta": { "stop_reason": "end_turn", "stop_sequence": null },
                "usage": { "output_tokens": 9, "input_tokens": null } }),
            json!({ "type": "message_stop" }),
        ],
    )
    .await;
    let payload = json!({ "id": "m1", "content": [{ "type": "text", "text": "Hello" }],
        "stop_reason": "end_turn", "stop_sequence": null, "context_management": { "a": 1 },
        "usage": { "input_tokens": 5, "output_tokens": 9 } });
    assert_eq!(answer.payload, Json::of(&payload));
    assert_eq!(answer.usage, Some(Json::of(&payload["usage"])));
}

#[tokio::test]
async fn missing_or_wrong_call_indexes_are_tolerated() {
    let chunk = |calls: Value| json!({ "choices": [{ "delta": { "tool_calls": calls } }] });
    let end = json!({ "choices": [{ "delta": {}, "finish_reason": "tool_calls" }] });
    let call = |id: &str, arguments: &str| json!({ "index": 0, "id": id, "function": { "name": "Read", "arguments": arguments } });
    let named = |events: Vec<Value>| async move {
        let answer = read(Kind::Chat, &events).await;
        let calls = answer.message.tool_calls.into_iter();
        calls.map(|it| format!("{} {} {}", it.call_id, it.name, it.arguments)).collect::<Vec<_>>()
    };
    // All have the same index, and each arrives complete.
    let same = vec![chunk(json!([call("a", "{}"), call("b", "{\"x\":1}")])), end.clone()];
    assert_eq!(named(same).await, ["a Read {}", "b Read {\"x\":1}"]);
    // The id and the name are repeated with each chunk.
    let again =
        vec![chunk(json!([call("a", "{\"x\"")])), chunk(json!([call("a", ":1}")])), end.clone()];
    assert_eq!(named(again).await, ["a Read {\"x\":1}"]);
    // Neither indexes nor ids.
    let bare = json!({ "function": { "name": "Read", "arguments": "{" } });
    let rest = json!({ "function": { "arguments": "}" } });
    let none = vec![chunk(json!([bare])), chunk(json!([rest])), end];
    assert_eq!(named(none).await, ["call__0 Read {}"]);
}

#[tokio::test]
async fn a_completion_keeps_additional_fields() {
    let answer = read(
        Kind::Chat,
        &[
            json!({ "id": "x", "object": "chat.completion.chunk", "created": 3, "choices": [] }),
            json!({ "id": "x", "choices": [{ "index": 0, "delta": {
                "role": "assistant", "reasoning": "hm", "audio": { "id": "a" } } }] }),
            json!({ "id": "x", "choices": [{ "index": 1, "delta": { "content": "other" } }] }),
            json!({ "id": "x", "choices": [{ "index": 0, "delta": { "content": "hi" },
                "finish_reason": "stop", "native_finish_reason": "STOP" }] }),
            json!({ "id": "x", "choices": [], "usage": { "prompt_tokens": 1 } }),
        ],
    )
    .await;
    let payload = json!({
        "id": "x", "object": "chat.completion", "created": 3,
        "choices": [{ "index": 0, "finish_reason": "stop", "native_finish_reason": "STOP",
            "message": { "role": "assistant", "reasoning": "hm", "content": "hi",
                "audio": { "id": "a" } } }],
        "usage": { "prompt_tokens": 1 },
    });
    assert_eq!(answer.payload, Json::of(&payload));
    assert_eq!(answer.message.to_text(), "hi");
}

#[tokio::test]
async fn a_call_is_returned_with_its_servers_signature() {
    let mark = json!({ "google": { "thought_signature": "s1" } });
    let marked = json!({ "index": 0, "id": "c1", "type": "function", "extra_content": mark,
        "function": { "name": "Read", "arguments": "" } });
    let plain = json!({ "index": 1, "id": "c2", "type": "function",
        "function": { "name": "Read", "arguments": "{}" } });
    let answer = read(
        Kind::Chat,
        &[
            json!({ "choices": [{ "delta": { "tool_calls": [marked, plain] } }] }),
            json!({ "choices": [{ "delta": {}, "finish_reason": "tool_calls" }] }),
        ],
    )
    .await;
    let back = Kind::Chat.dialect().items(std::slice::from_ref(&answer.message));
    let back: Value = serde_json::from_str(back[0].as_str()).unwrap();
    let call = |id: &str| {
        json!({ "id": id, "type": "function",
            "function": { "name": "Read", "arguments": "{}" } })
    };
    let mut first = call("c1");
    first["extra_content"] = mark;
    assert_eq!(back["tool_calls"], json!([first, call("c2")]));
    let elsewhere = Kind::Anthropic.dialect().items(std::slice::from_ref(&answer.message));
    assert!(!elsewhere[0].as_str().contains("thought_signature"));
}

#[tokio::test]
async fn items_are_taken_from_their_done_event() {
    let reasoning = |encrypted: &str| json!({ "type": "reasoning", "id": "rs", "summary": [], "encrypted_content": encrypted });
    let message = json!({ "type": "message", "id": "msg", "role": "assistant", "phase": "final",
        "content": [{ "type": "output_text", "text": "a", "annotations": [{ "x": 1 }] },
            { "type": "refusal", "refusal": "b" }] });
    let answer = read(
        Kind::Responses,
        &[
            json!({ "type": "response.created", "response": { "id": "r1" } }),
            json!({ "type": "response.output_item.added", "output_index": 0, "item": reasoning("early") }),
            json!({ "type": "response.output_item.done", "output_index": 1, "item": message }),
            json!({ "type": "response.output_item.done", "output_index": 0, "item": reasoning("late") }),
            json!({ "type": "response.completed", "response": { "id": "r1", "status": "completed",
                "output": [reasoning(""), message] } }),
        ],
    )
    .await;
    let back = Kind::Responses.dialect().items(std::slice::from_ref(&answer.message));
    assert_eq!(back, [Json::of(&reasoning("late")), Json::of(&message)]);
    assert_eq!(answer.message.to_text(), "ab");
}
