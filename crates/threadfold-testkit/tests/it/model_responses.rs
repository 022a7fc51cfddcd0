//! The scripted model implements OpenAI Responses as Codex uses it.

use serde_json::{Value, json};
use threadfold_testkit::{Block, Script, ScriptedModel, Step};

use crate::client::post;

/// Returns the events of the answer to a request with this input.
fn answered(script: Script, input: &Value) -> Vec<Value> {
    let model = ScriptedModel::builder().script(script).start().unwrap();
    let body = json!({ "model": "m", "stream": true, "input": input });
    post(&model, "/v1/responses", &body).events()
}

fn prompt() -> Value {
    let content = json!([{ "type": "input_text", "text": "[[play:x]]" }]);
    json!({ "type": "message", "role": "user", "content": content })
}

/// Returns the types of events with what they add, the first and the last left out.
fn retold(events: &[Value]) -> Vec<String> {
    let inner = &events[1..events.len() - 1];
    let one = |it: &Value| {
        let kind = it["type"].as_str().unwrap().trim_start_matches("response.");
        let fields = ["summary_index", "content_index", "delta"];
        let fields = fields.iter().filter_map(|name| it.get(name)).map(Value::to_string);
        [kind.to_owned()].into_iter().chain(fields).collect::<Vec<_>>().join(" ")
    };
    inner.iter().map(one).collect()
}

#[test]
fn reasoning_is_sent_part_by_part_and_custom_calls_as_text() {
    let part = |text: &str| json!({ "type": "summary_text", "text": text });
    let raw = json!([{ "type": "reasoning_text", "text": "Raw." }]);
    let reasoning = json!({ "type": "reasoning", "summary": [part("One."), part("Two.")],
        "content": raw, "encrypted_content": "b3BhcXVl" });
    let step =
        Step::new().block(Block::Item(reasoning)).custom_tool_use("apply_patch", "*** Begin Patch");
    let events = answered(Script::new("x").step(step), &json!([prompt()]));
    assert_eq!(
        retold(&events),
        [
            "output_item.added",
            "reasoning_summary_part.added 0",
            "reasoning_summary_text.delta 0 \"One.\"",
            "reasoning_summary_part.done 0",
            "reasoning_summary_part.added 1",
            "reasoning_summary_text.delta 1 \"Two.\"",
            "reasoning_summary_part.done 1",
            "reasoning_text.delta 0 \"Raw.\"",
            "output_item.done",
            "output_item.added",
            "custom_tool_call_input.delta \"*** Begin Pa\"",
            "custom_tool_call_input.delta \"tch\"",
            "output_item.done",
        ]
    );
    let items: Vec<_> = events.iter().filter_map(|it| it.get("item")).collect();
    assert_eq!(
        (&items[0]["summary"], &items[0]["encrypted_content"]),
        (&json!([]), &json!("")),
        "an item starts without its text"
    );
    assert_eq!(items[1]["encrypted_content"], "b3BhcXVl");
    assert_eq!(items[2]["input"], "");
    assert_eq!(
        (&items[3]["call_id"], &items[3]["name"]),
        (&json!("call_tf_000001"), &json!("apply_patch"))
    );
}

#[test]
fn a_call_in_a_namespace_can_name_subagents_of_earlier_outputs() {
    let wait = json!({ "targets": "{{agents}}" });
    let script = Script::new("x")
        .step(Step::new().text("I delegate."))
        .step(Step::new().tool_use_in("multi_agent_v1", "wait_agent", &wait));
    let call = json!({ "type": "function_call", "call_id": "c1", "name": "spawn_agent" });
    let output = json!({ "type": "function_call_output", "call_id": "c1",
        "output": "{\"agent_id\":\"a1\",\"nickname\":\"Hubble\"}" });
    let events = answered(script, &json!([prompt(), call, output]));
    let item = &events.iter().rev().find(|it| it.get("item").is_some()).unwrap()["item"];
    assert_eq!(
        (&item["namespace"], &item["name"], &item["arguments"]),
        (&json!("multi_agent_v1"), &json!("wait_agent"), &json!("{\"targets\":[\"a1\"]}"))
    );
}

#[test]
fn outputs_and_announced_tools_are_no_answers_and_mail_is_a_prompt() {
    let script = Script::new("x")
        .step(Step::new().text("The first step."))
        .step(Step::new().text("The second step."));
    let tools = json!({ "type": "additional_tools", "role": "developer", "tools": [] });
    let mail = json!({ "type": "agent_message", "author": "/root", "content": [
        { "type": "input_text", "text": "Payload:" },
        { "type": "encrypted_content", "encrypted_content": "[[play:x]] Do it." }] });
    let call = json!({ "type": "custom_tool_call", "call_id": "c1", "name": "exec" });
    let output = json!({ "type": "custom_tool_call_output", "call_id": "c1", "output": "ok" });
    for (input, words) in [
        (json!([tools, mail]), "The first step."),
        (json!([tools, mail, call, output]), "The second step."),
    ] {
        let events = answered(script.clone(), &input);
        let last = events.last().unwrap();
        assert_eq!(last["response"]["output"][0]["content"][0]["text"], words);
    }
}
