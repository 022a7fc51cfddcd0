//! A strict provider's answers to accepted requests: short, but complete.
//!
//! For a prompt with tools it answers with a text and calls the first tool twice; for anything
//! else it answers with one line. It thinks first if requested.

use serde_json::{Value, json};

use crate::model::{
    Step,
    anthropic::Anthropic,
    openai::OpenAi,
    protocol::{Answer, Protocol},
};

use super::{Endpoint, ResponseStorage, StrictProvider};

/// An answer in its wire format.
pub(super) enum WireAnswer {
    Whole(Vec<u8>),
    /// The events of a stream.
    Events(Vec<Vec<u8>>),
}

impl StrictProvider {
    /// Answers a valid request, and records the answer.
    pub(super) fn tell(&self, endpoint: Endpoint, body: &[u8], number: u64) -> WireAnswer {
        let request: Value = serde_json::from_slice(body).unwrap_or_default();
        match endpoint {
            Endpoint::Messages => {
                let told = played(&Anthropic, &request, number);
                self.gave_message(body, told.body.to_string().as_bytes());
                told.over_wire(&request)
            }
            Endpoint::ChatCompletions => played(&OpenAi, &request, number).over_wire(&request),
            Endpoint::Responses => {
                let keeping = match request["store"] == false {
                    true => ResponseStorage::NotStored,
                    false => ResponseStorage::Stored,
                };
                let told = response(&request, number);
                self.gave_response(told.body.to_string().as_bytes(), keeping);
                told.over_wire(&request)
            }
        }
    }
}

/// An answer as a body and as events.
struct AnswerForms {
    body: Value,
    events: Vec<Vec<u8>>,
}

impl AnswerForms {
    fn over_wire(self, request: &Value) -> WireAnswer {
        match request["stream"] == true {
            true => WireAnswer::Events(self.events),
            false => WireAnswer::Whole(self.body.to_string().into_bytes()),
        }
    }
}

fn played(protocol: &impl Protocol, request: &Value, number: u64) -> AnswerForms {
    let mut step = Step::new();
    if request["thinking"].is_object() {
        step = step.thinking(format!("Thought {number}."), format!("sig{number}"));
    }
    step = match tool(request) {
        Some(name) => step
            .text("I look.")
            .tool_use(name, json!({ "path": "notes" }))
            .tool_use(name, json!({ "path": "é 😀" })),
        None => step.text("Done."),
    };
    let answer = Answer {
        step: &step,
        message_id: format!("{}{number}", protocol.message_prefix()),
        model: request["model"].as_str().unwrap_or("strict"),
        tool_ids: (0..step.blocks().len())
            .map(|place| format!("{}{number}_{place}", protocol.tool_prefix()))
            .collect(),
        request,
    };
    let events = protocol.pieces(&answer).into_iter().map(|piece| piece.bytes).collect();
    AnswerForms { body: protocol.body(&answer), events }
}

/// Returns the first tool, unless the last message is a tool result.
fn tool(request: &Value) -> Option<&str> {
    let list = if request["messages"].is_array() { "messages" } else { "input" };
    let last = request[list].as_array().and_then(|it| it.last())?;
    let is_result = last["role"] == "tool"
        || last["type"] == "function_call_output"
        || last["content"][0]["type"] == "tool_result";
    let tool = &request["tools"][0];
    let name = tool["name"].as_str().or_else(|| tool["function"]["name"].as_str());
    name.filter(|_| !is_result)
}

fn response(request: &Value, number: u64) -> AnswerForms {
    let mut output = Vec::new();
    let is_encrypted = request["include"]
        .as_array()
        .is_some_and(|it| it.iter().any(|it| it == "reasoning.encrypted_content"));
    if request["reasoning"].is_object() {
        let mut item = json!({ "type": "reasoning", "id": format!("rs_{number}"), "summary": [] });
        if is_encrypted {
            item["encrypted_content"] = json!(format!("enc{number}"));
        }
        output.push(item);
    }
    let name = tool(request);
    output.extend(name.into_iter().flat_map(|name| {
        ["notes", "é 😀"].into_iter().enumerate().map(move |(place, path)| {
            json!({
                "type": "function_call",
                "id": format!("fc_{number}_{place}"),
                "call_id": format!("call_{number}_{place}"),
                "name": name,
                "arguments": json!({ "path": path }).to_string(),
            })
        })
    }));
    if name.is_none() {
        let content = json!([{ "type": "output_text", "text": "Done.", "annotations": [] }]);
        let id = format!("msg_{number}");
        output
            .push(json!({ "type": "message", "id": id, "role": "assistant", "content": content }));
    }
    let body = json!({
        "id": format!("resp_{number}"),
        "object": "response",
        "status": "completed",
        "model": request["model"],
        "output": output,
        "usage": { "input_tokens": 1, "output_tokens": 1, "total_tokens": 2 },
    });
    let event = |data: Value| {
        let name = data["type"].as_str().unwrap_or_default();
        format!("event: {name}\ndata: {data}\n\n").into_bytes()
    };
    let mut events = vec![event(json!({ "type": "response.created", "response": {
        "id": body["id"], "object": "response", "status": "in_progress", "output": [],
    } }))];
    for (index, item) in output.iter().enumerate() {
        let told = |kind: &str| json!({ "type": kind, "output_index": index, "item": item });
        events.push(event(told("response.output_item.added")));
        events.push(event(told("response.output_item.done")));
    }
    events.push(event(json!({ "type": "response.completed", "response": body })));
    AnswerForms { body, events }
}
