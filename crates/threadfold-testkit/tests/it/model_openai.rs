//! The scripted model implements OpenAI Chat Completions.

use serde_json::{Value, json};
use threadfold_testkit::{Attempts, Fault, Place, Script, ScriptedModel, Step};

use crate::client::{Response, post};

fn model(step: Step) -> ScriptedModel {
    let script = Script::new("x").step(step);
    ScriptedModel::builder().script(script).start().unwrap()
}

fn ask(model: &ScriptedModel, stream: Value) -> Response {
    let body = json!({
        "model": "m",
        "stream": stream,
        "stream_options": { "include_usage": true },
        "messages": [
            { "role": "system", "content": "[[play:y]] is not a prompt" },
            { "role": "user", "content": [{ "type": "text", "text": "[[play:x]]" }] },
        ],
    });
    post(model, "/v1/chat/completions", &body)
}

fn step() -> Step {
    Step::new()
        .thinking("Hm.", "c2ln")
        .text("Hello.")
        .tool_use("bash", json!({ "command": "ls" }))
        .tool_use("read", json!({}))
}

#[test]
fn a_stream_has_its_chunks_in_the_order_of_the_provider() {
    let response = ask(&model(step().chunk_chars(9)), json!(true));

    let lines: Vec<_> = response
        .events()
        .iter()
        .map(|event| match event["choices"].get(0) {
            Some(choice) => format!("{} {}", choice["delta"], choice["finish_reason"]),
            None => event["usage"].to_string(),
        })
        .collect();
    assert_eq!(
        lines,
        [
            r#"{"content":"","role":"assistant"} null"#,
            r#"{"reasoning_content":"Hm."} null"#,
            r#"{"content":"Hello."} null"#,
            r#"{"tool_calls":[{"function":{"arguments":"","name":"bash"},"id":"call_tf_000001","index":0,"type":"function"}]} null"#,
            r#"{"tool_calls":[{"function":{"arguments":"{\"command"},"index":0}]} null"#,
            r#"{"tool_calls":[{"function":{"arguments":"\":\"ls\"}"},"index":0}]} null"#,
            r#"{"tool_calls":[{"function":{"arguments":"","name":"read"},"id":"call_tf_000002","index":1,"type":"function"}]} null"#,
            r#"{"tool_calls":[{"function":{"arguments":"{}"},"index":1}]} null"#,
            r#"{} "tool_calls""#,
            r#"{"completion_tokens":20,"prompt_tokens":100,"prompt_tokens_details":{"cached_tokens":0},"total_tokens":120}"#,
        ]
    );
    assert!(response.body.ends_with("data: [DONE]\n\n"));
    assert!(response.complete);
}

#[test]
fn a_request_without_streaming_gets_the_complete_message() {
    let response = ask(&model(step()), json!(false));
    assert_eq!(
        response.json()["choices"][0],
        json!({
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "Hello.",
                "reasoning_content": "Hm.",
                "tool_calls": [
                    {
                        "id": "call_tf_000001",
                        "type": "function",
                        "function": { "name": "bash", "arguments": "{\"command\":\"ls\"}" },
                    },
                    {
                        "id": "call_tf_000002",
                        "type": "function",
                        "function": { "name": "read", "arguments": "{}" },
                    },
                ],
            },
            "finish_reason": "tool_calls",
        })
    );
}

#[test]
fn faults_are_the_same_over_both_protocols() {
    let place = Place::After { block: 1 };
    let model = model(
        step()
            .fault(Attempts::Only(1), Fault::rate_limit(3))
            .fault(Attempts::Only(2), Fault::cut(place))
            .fault(Attempts::Only(3), Fault::overloaded(place)),
    );

    let refused = ask(&model, json!(true));
    let cut = ask(&model, json!(true));
    let failed = ask(&model, json!(true));

    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("3")));
    let last = cut.events().pop().unwrap();
    assert_eq!(last["choices"][0]["delta"], json!({ "content": "Hello." }));
    assert!(!cut.complete);
    let last = failed.events().pop().unwrap();
    assert_eq!(last["error"]["type"], "server_error");
    assert!(failed.complete);
}
