//! The scripted model implements Anthropic Messages.

use serde_json::{Value, json};
use threadfold_testkit::{
    ModelRequest, PlayedStep, Script, ScriptedModel, Step, StopReason, SubagentTool, Usage,
    ready_scripts,
};

use crate::client::{Response, post};

fn model(script: Script) -> ScriptedModel {
    ScriptedModel::builder().script(script).start().unwrap()
}

fn ask(model: &ScriptedModel, messages: Value) -> Response {
    let body = json!({ "model": "m", "stream": true, "messages": messages });
    post(model, "/v1/messages?beta=true", &body)
}

fn prompt(text: &str) -> Value {
    json!([{ "role": "user", "content": text }])
}

/// Formats an event as one line.
fn line(event: &Value) -> String {
    let kind = event["type"].as_str().unwrap();
    match kind {
        "content_block_start" => format!("{kind} {} {}", event["index"], event["content_block"]),
        "content_block_delta" => format!("{kind} {} {}", event["index"], event["delta"]),
        "content_block_stop" => format!("{kind} {}", event["index"]),
        "message_delta" => format!("{kind} {} {}", event["delta"], event["usage"]),
        _ => kind.to_owned(),
    }
}

fn lines(response: &Response) -> Vec<String> {
    response.events().iter().map(line).collect()
}

#[test]
fn a_stream_has_its_events_in_the_order_of_the_provider() {
    let step = Step::new()
        .thinking("Hm, so.", "c2ln")
        .redacted_thinking("eA==")
        .text("größer")
        .tool_use("Bash", json!({ "command": "ls" }))
        .chunk_chars(5);
    let model = model(Script::new("all").step(step));

    let response = ask(&model, prompt("[[play:all]] go"));

    assert_eq!(
        (response.status, response.header("content-type")),
        (200, Some("text/event-stream"))
    );
    assert!(response.complete);
    assert_eq!(
        lines(&response),
        [
            "message_start",
            "ping",
            r#"content_block_start 0 {"signature":"","thinking":"","type":"thinking"}"#,
            r#"content_block_delta 0 {"thinking":"Hm, s","type":"thinking_delta"}"#,
            r#"content_block_delta 0 {"thinking":"o.","type":"thinking_delta"}"#,
            r#"content_block_delta 0 {"signature":"c2ln","type":"signature_delta"}"#,
            "content_block_stop 0",
            r#"content_block_start 1 {"data":"eA==","type":"redacted_thinking"}"#,
            "content_block_stop 1",
            r#"content_block_start 2 {"text":"","type":"text"}"#,
            r#"content_block_delta 2 {"text":"größe","type":"text_delta"}"#,
            r#"content_block_delta 2 {"text":"r","type":"text_delta"}"#,
            "content_block_stop 2",
            r#"content_block_start 3 {"id":"toolu_tf_000001","input":{},"name":"Bash","type":"tool_use"}"#,
            r#"content_block_delta 3 {"partial_json":"{\"com","type":"input_json_delta"}"#,
            r#"content_block_delta 3 {"partial_json":"mand\"","type":"input_json_delta"}"#,
            r#"content_block_delta 3 {"partial_json":":\"ls\"","type":"input_json_delta"}"#,
            r#"content_block_delta 3 {"partial_json":"}","type":"input_json_delta"}"#,
            "content_block_stop 3",
            r#"message_delta {"stop_reason":"tool_use","stop_sequence":null} {"output_tokens":20}"#,
            "message_stop",
        ]
    );
    assert_eq!(
        response.events()[0]["message"],
        json!({
            "id": "msg_tf_000001",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [],
            "stop_reason": null,
            "stop_sequence": null,
            "usage": {
                "input_tokens": 100,
                "output_tokens": 1,
                "cache_read_input_tokens": 0,
                "cache_creation_input_tokens": 0,
            },
        })
    );
}

#[test]
fn a_request_without_streaming_gets_the_complete_message() {
    let step = Step::new()
        .text("Hello.")
        .tool_use("Read", json!({ "file_path": "a" }))
        .stop(StopReason::MaxTokens)
        .usage(Usage { input: 7, output: 3, cache_read: 2, cache_write: 1 });
    let model = model(Script::new("hello").step(step));

    let body = json!({ "model": "m", "messages": prompt("[[play:hello]]") });
    let response = post(&model, "/v1/messages", &body);

    assert_eq!(
        response.json(),
        json!({
            "id": "msg_tf_000001",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [
                { "type": "text", "text": "Hello." },
                { "type": "tool_use", "id": "toolu_tf_000001", "name": "Read", "input": { "file_path": "a" } },
            ],
            "stop_reason": "max_tokens",
            "stop_sequence": null,
            "usage": {
                "input_tokens": 7,
                "output_tokens": 3,
                "cache_read_input_tokens": 2,
                "cache_creation_input_tokens": 1,
            },
        })
    );
}

#[test]
fn steps_are_counted_from_the_last_directive_and_not_from_tool_results() {
    let model =
        ScriptedModel::builder().scripts(ready_scripts(SubagentTool::Task)).start().unwrap();
    let call = json!([{ "type": "tool_use", "id": "t", "name": "Task", "input": {
        "prompt": "[[play:left]] in a call is not for this conversation",
    } }]);
    let result = json!([{ "type": "tool_result", "tool_use_id": "t", "content": [
        { "type": "text", "text": "[[play:right]] in a result is no directive" },
    ] }]);

    ask(
        &model,
        json!([
            { "role": "user", "content": "[[play:nested]]" },
            { "role": "assistant", "content": call },
            { "role": "user", "content": result },
        ]),
    );
    ask(
        &model,
        json!([
            { "role": "user", "content": "[[play:nested]]" },
            { "role": "assistant", "content": "started" },
            { "role": "user", "content": [{ "type": "text", "text": "[[play:outer]] now" }] },
        ]),
    );

    let played: Vec<_> = model.requests().into_iter().map(|it| it.played).collect();
    let play =
        |script: &str, step| Some(PlayedStep { script: script.to_owned(), step, attempt: 1 });
    assert_eq!(played, [play("nested", 1), play("outer", 0)]);
}

#[test]
fn a_subagent_is_started_with_the_tool_of_the_agents_version() {
    for (tool, name) in [(SubagentTool::Agent, "Agent"), (SubagentTool::Task, "Task")] {
        let model = ScriptedModel::builder().scripts(ready_scripts(tool)).start().unwrap();
        let response = ask(&model, prompt("[[play:subagent]]"));
        let starts = |it: &&Value| it["content_block"]["name"] == name;
        assert_eq!(response.events().iter().filter(starts).count(), 1);
    }
}

#[test]
fn ids_are_never_reused() {
    let step = Step::new().tool_use("Bash", json!({}));
    let model = model(Script::new("again").step(step));

    let ids: Vec<_> = (0..2)
        .map(|_| ask(&model, prompt("[[play:again]]")).events())
        .map(|events| {
            let message = events[0]["message"]["id"].clone();
            (message, events[2]["content_block"]["id"].clone())
        })
        .collect();

    assert_eq!(
        ids,
        [
            (json!("msg_tf_000001"), json!("toolu_tf_000001")),
            (json!("msg_tf_000002"), json!("toolu_tf_000002")),
        ]
    );
}

#[test]
fn an_unscripted_request_gets_a_plain_answer() {
    let model = model(Script::new("short").step(Step::new().text("Hi.")));
    let text = |response: &Response| -> String {
        let events = response.events();
        events.iter().filter_map(|it| it["delta"]["text"].as_str()).collect()
    };

    let title = ask(&model, prompt("Find a title."));
    let over = ask(
        &model,
        json!([
            { "role": "user", "content": "[[play:short]]" },
            { "role": "assistant", "content": "Hi." },
            { "role": "user", "content": "And now?" },
        ]),
    );
    let unknown = ask(&model, prompt("[[play:nothing]]"));
    let count = post(&model, "/v1/messages/count_tokens", &json!({ "messages": [] }));
    let path = post(&model, "/v1/other", &json!({}));

    assert_eq!(text(&title), "Noted.");
    assert_eq!(text(&over), "The script `short` is over.");
    assert_eq!(
        (unknown.status, unknown.json()["error"]["message"].clone()),
        (400, json!("there is no script `nothing`"))
    );
    assert_eq!((count.status, count.json()), (200, json!({ "input_tokens": 3 })));
    assert_eq!(
        (path.status, path.json()["error"]["type"].clone()),
        (404, json!("not_found_error"))
    );
}

#[test]
fn a_request_without_tools_is_not_played_where_tools_are_required() {
    let model = ScriptedModel::builder()
        .script(Script::new("hello").step(Step::new().text("Hello.")))
        .require_tools()
        .start()
        .unwrap();

    ask(&model, prompt("A title for: [[play:hello]]"));
    let with_tools = json!({
        "stream": true,
        "tools": [{ "name": "Bash" }],
        "messages": prompt("[[play:hello]]"),
    });
    post(&model, "/v1/messages", &with_tools);

    let played = |it: &ModelRequest| it.played.is_some();
    let requests = model.requests();
    assert_eq!(requests.iter().map(played).collect::<Vec<_>>(), [false, true]);
    assert_eq!(requests[1].json(), with_tools);
}
