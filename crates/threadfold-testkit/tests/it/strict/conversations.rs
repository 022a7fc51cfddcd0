//! Loops that use the strict provider: returned items are verified.

use serde_json::{Value, json};
use threadfold_testkit::strict::{Endpoint, StrictServer};

use super::client::Client;

fn ask(client: &mut Client, endpoint: Endpoint, body: &Value) -> (u16, Value) {
    let (status, told) = client.post(endpoint, body.to_string().as_bytes());
    (status, serde_json::from_str(&told).unwrap())
}

fn refused(client: &mut Client, endpoint: Endpoint, body: &Value) -> String {
    let (status, told) = ask(client, endpoint, body);
    assert_eq!(status, 400, "{told}");
    told["error"]["message"].as_str().unwrap().split(':').next().unwrap().to_owned()
}

#[test]
fn thinking_is_sent_back_unchanged_after_an_unchanged_prefix() {
    let server = StrictServer::start().unwrap();
    let client = &mut Client::connect(&server);
    let mut request = json!({
        "model": "m", "max_tokens": 9, "thinking": { "type": "enabled", "budget_tokens": 1024 },
        "tools": [{ "name": "Read", "input_schema": { "type": "object" } }],
        "messages": [{ "role": "user", "content": "look" }],
    });
    let (status, answer) = ask(client, Endpoint::Messages, &request);
    assert_eq!(status, 200);
    let content = answer["content"].clone();
    let result = |block: &Value| json!({ "type": "tool_result", "tool_use_id": block["id"], "content": "found" });
    let calls = content.as_array().unwrap().iter().filter(|it| it["type"] == "tool_use");
    let results: Vec<_> = calls.map(result).collect();
    assert_eq!(results.len(), 2);
    let messages = request["messages"].as_array_mut().unwrap();
    messages.push(json!({ "role": "assistant", "content": content }));
    messages.push(json!({ "role": "user", "content": results }));
    assert_eq!(ask(client, Endpoint::Messages, &request).0, 200);

    let mut altered = request.clone();
    altered["messages"][1]["content"][0]["thinking"] = json!("Other.");
    assert_eq!(refused(client, Endpoint::Messages, &altered), "A5");
    let mut unsigned = request.clone();
    unsigned["messages"][1]["content"][0]["signature"] = json!("forged");
    assert_eq!(refused(client, Endpoint::Messages, &unsigned), "A5");
    let mut dropped = request.clone();
    dropped["messages"][1]["content"].as_array_mut().unwrap().remove(0);
    assert_eq!(refused(client, Endpoint::Messages, &dropped), "A5");
    for (field, value) in [("system", json!("new")), ("tools", json!([]))] {
        let mut moved = request.clone();
        moved[field] = value;
        assert_eq!(refused(client, Endpoint::Messages, &moved), "A6");
    }

    dropped["messages"].as_array_mut().unwrap().push(json!({ "role": "user", "content": "more" }));
    let status = ask(client, Endpoint::Messages, &dropped).0;
    assert_eq!(status, 200, "the cycle of tools is over");
}

#[test]
fn reasoning_goes_back_encrypted_with_the_items_that_were_made_with_it() {
    let server = StrictServer::start().unwrap();
    let client = &mut Client::connect(&server);
    let mut request = json!({
        "model": "m", "store": false, "reasoning": { "effort": "low" },
        "include": ["reasoning.encrypted_content"],
        "tools": [{ "type": "function", "name": "Read", "parameters": {} }],
        "input": [{ "type": "message", "role": "user", "content": "look" }],
    });
    let (status, response) = ask(client, Endpoint::Responses, &request);
    assert_eq!(status, 200);
    let output = response["output"].as_array().unwrap();
    assert_eq!(output.len(), 3);
    let input = request["input"].as_array_mut().unwrap();
    input.extend(output.iter().cloned());
    input.extend(output[1..].iter().map(|call| {
        json!({ "type": "function_call_output", "call_id": call["call_id"], "output": "found" })
    }));
    assert_eq!(ask(client, Endpoint::Responses, &request).0, 200);

    let mut nameless = request.clone();
    nameless["input"][2].as_object_mut().unwrap().remove("id");
    assert_eq!(ask(client, Endpoint::Responses, &nameless).0, 200, "a name may be left out");
    let mut shown = request.clone();
    shown["input"][4]["output"] = json!([{ "type": "input_image", "image_url": "data:," }]);
    assert_eq!(ask(client, Endpoint::Responses, &shown).0, 200, "an output may be a picture");
    shown["input"][4]["output"] = json!([{ "type": "image", "image_url": "data:," }]);
    assert_eq!(ask(client, Endpoint::Responses, &shown).0, 400);
    let mut renamed = request.clone();
    renamed["input"][2]["id"] = json!("fc_other");
    assert_eq!(refused(client, Endpoint::Responses, &renamed), "O3");
    let mut without = request.clone();
    without["input"].as_array_mut().unwrap().remove(1);
    assert_eq!(refused(client, Endpoint::Responses, &without), "O3");
    let mut swapped = request.clone();
    swapped["input"].as_array_mut().unwrap().swap(2, 3);
    assert_eq!(refused(client, Endpoint::Responses, &swapped), "O3");
    let mut forged = request.clone();
    forged["input"][1]["encrypted_content"] = json!("forged");
    assert!(matches!(&*refused(client, Endpoint::Responses, &forged), "O3" | "O4"));

    let next = json!({ "model": "m", "previous_response_id": response["id"], "input": "go on" });
    assert_eq!(refused(client, Endpoint::Responses, &next), "O5");
}

#[test]
fn a_stored_response_is_continued_by_its_id() {
    let server = StrictServer::start().unwrap();
    let client = &mut Client::connect(&server);
    let first = json!({
        "model": "m", "input": [{ "role": "user", "content": "look" }],
        "tools": [{ "type": "function", "name": "Read", "parameters": {} }],
    });
    let (_, response) = ask(client, Endpoint::Responses, &first);
    let next = |outputs: Value| json!({ "model": "m", "previous_response_id": response["id"], "input": outputs });
    let output = |at: usize| {
        let call = &response["output"][at]["call_id"];
        json!({ "type": "function_call_output", "call_id": call, "output": "found" })
    };
    let (whole, half) = (next(json!([output(0), output(1)])), next(json!([output(0)])));
    assert_eq!(refused(client, Endpoint::Responses, &half), "O2");
    assert_eq!(ask(client, Endpoint::Responses, &whole).0, 200);
}

#[test]
fn a_stream_ends_as_its_provider_ends_one() {
    let server = StrictServer::start().unwrap();
    let mut client = Client::connect(&server);
    let said = json!([{ "role": "user", "content": "look" }]);
    let requests = [
        (Endpoint::Messages, json!({ "max_tokens": 9, "messages": said }), "message_stop"),
        (Endpoint::ChatCompletions, json!({ "messages": said }), "data: [DONE]"),
        (Endpoint::Responses, json!({ "input": said }), "response.completed"),
    ];
    for (endpoint, mut body, end) in requests {
        body["model"] = json!("m");
        body["stream"] = json!(true);
        let (status, told) = client.post(endpoint, body.to_string().as_bytes());
        let last = told.trim_end().rsplit("\n\n").next().unwrap();
        assert!(status == 200 && last.contains(end), "{told}");
    }
}

#[test]
fn an_invalid_request_is_refused() {
    let server = StrictServer::start().unwrap();
    let mut client = Client::connect(&server);
    for endpoint in Endpoint::ALL {
        assert_eq!(client.post(endpoint, b"{").0, 400);
        assert_eq!(client.post(endpoint, b"\"\xff\"").0, 400);
        let deep = "[".repeat(100_000);
        let (status, told) = client.post(endpoint, deep.as_bytes());
        assert!(status == 400 && told.contains("nested deeper"), "{told}");
        let (_, told) = client.post(endpoint, b"{}");
        assert!(told.contains("shape"), "{told}");
    }
}
