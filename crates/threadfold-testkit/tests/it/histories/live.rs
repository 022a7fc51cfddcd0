//! A loop that talks to the strict provider, and what it writes down.
//!
//! The logs in `tests/data/loops` were recorded so. A difference means that the loop, the provider
//! or the events changed: look at it, then put what was left in `target/tmp` in its place.

use std::{fs, path::Path};

use serde_json::{Value, json};
use threadfold_core::{
    ConversationMessage, Effect, Json, MessagePart, Role, SessionEvent, ToolCall, render_anthropic,
    render_chat, render_responses, repair,
};
use threadfold_testkit::{
    loops::LoopWriter,
    strict::{Endpoint, StrictServer},
};

use super::run::{AnswerForm, Run};
use crate::strict::client::Client;

const PROMPTS: [&str; 3] = ["look", "and at the é 😀", "thanks"];

fn name(endpoint: Endpoint) -> &'static str {
    match endpoint {
        Endpoint::Messages => "anthropic",
        Endpoint::ChatCompletions => "chat",
        Endpoint::Responses => "openai",
    }
}

/// Returns the recorded logs as runs.
pub(crate) fn recorded() -> Vec<Run> {
    let run = |endpoint| {
        let name = name(endpoint);
        let log = fs::read_to_string(path(name)).unwrap();
        let events = log.lines().map(|line| SessionEvent::from_json(line).unwrap()).collect();
        Run::of_events(&format!("recorded {name}"), events, AnswerForm::AsAnswered)
    };
    Endpoint::ALL.map(run).into()
}

fn path(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/loops").join(format!("{name}.jsonl"))
}

#[test]
fn a_loop_with_the_strict_provider_is_never_refused_and_equals_the_recording() {
    let mut others = Vec::new();
    for endpoint in Endpoint::ALL {
        let log: String = talk(endpoint).iter().map(|it| format!("{}\n", Json::of(it))).collect();
        let name = name(endpoint);
        if fs::read_to_string(path(name)).is_ok_and(|kept| kept == log) {
            continue;
        }
        let left = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.jsonl"));
        fs::write(&left, log).unwrap();
        others.push(left);
    }
    assert!(others.is_empty(), "not what was recorded: {others:?}");
}

/// Repair does not know that what was thought since was thought of the repaired history, and drops
/// it. A loop that goes on behind an edit must keep the repaired messages, or be refused like this.
#[test]
fn thinking_after_an_old_edit_is_dropped() {
    let server = StrictServer::start().unwrap();
    let mut client = Client::connect(&server);
    let mut ask = |history: &[ConversationMessage]| {
        let body = request(Endpoint::Messages, &repair(history).messages);
        client.post(Endpoint::Messages, body.as_bytes())
    };
    let alone = r#"{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}"#;
    let mut first = ConversationMessage::text(Role::Assistant, "I search.");
    first.content.push(MessagePart::native("anthropic", Json::parse(alone).unwrap()));
    let prompt = |text| ConversationMessage::text(Role::User, text);
    let mut history = vec![prompt("look"), first, prompt("go on")];
    let (status, told) = ask(&history);
    assert_eq!(status, 200, "{told}");

    let answer = answer(Endpoint::Messages, &serde_json::from_str(&told).unwrap());
    let calls = answer.tool_calls.clone();
    let mut more = vec![answer];
    more.extend(calls.into_iter().map(|it| ConversationMessage::result(it.call_id, "found")));
    let mut kept = repair(&history).messages;
    history.extend(more.iter().cloned());
    let (status, told) = ask(&history);
    assert!(status == 400 && told.contains("A5: "), "{told}");

    kept.extend(more);
    assert_eq!(ask(&kept).0, 200, "the repaired messages were kept");
}

/// Runs a loop of some prompts to its end.
fn talk(endpoint: Endpoint) -> Vec<SessionEvent> {
    let server = StrictServer::start().unwrap();
    let mut client = Client::connect(&server);
    let mut writer = LoopWriter::default();
    for prompt in PROMPTS {
        let mut messages = vec![ConversationMessage::text(Role::User, prompt)];
        loop {
            writer.start_at(name(endpoint), std::mem::take(&mut messages));
            let history = writer.turns.history();
            let repaired = repair(&history);
            assert_eq!(repaired.repairs, [], "nothing was cut");
            let body = request(endpoint, &repaired.messages);
            let (status, told) = client.post(endpoint, body.as_bytes());
            assert_eq!(status, 200, "{told}");
            let answer = answer(endpoint, &serde_json::from_str(&told).unwrap());
            let calls = answer.tool_calls.clone();
            writer.answer_as(answer, Json::parse(&told).unwrap());
            for (place, call) in calls.iter().enumerate() {
                let id = call.call_id.as_str();
                writer.run(id, Effect::Pure).finish(id, ["found", ""][place % 2]);
            }
            writer.close();
            if calls.is_empty() {
                break;
            }
        }
    }
    writer.events
}

fn request(endpoint: Endpoint, messages: &[ConversationMessage]) -> String {
    match endpoint {
        Endpoint::Messages => format!(
            r#"{{"model":"m","max_tokens":9,"thinking":{{"type":"enabled"}},"tools":[{{"name":"Read"}}],"messages":{}}}"#,
            render_anthropic(messages)
        ),
        Endpoint::ChatCompletions => format!(
            r#"{{"model":"m","tools":[{{"type":"function","function":{{"name":"Read"}}}}],"messages":{}}}"#,
            render_chat(messages)
        ),
        Endpoint::Responses => format!(
            r#"{{"model":"m","store":false,"reasoning":{{}},"include":["reasoning.encrypted_content"],"tools":[{{"type":"function","name":"Read"}}],"input":{}}}"#,
            render_responses(messages)
        ),
    }
}

/// Reads an answer: words and calls in our form, the rest as its provider spelt it.
fn answer(endpoint: Endpoint, told: &Value) -> ConversationMessage {
    let mut message = ConversationMessage::new(Role::Assistant);
    let list = match endpoint {
        Endpoint::Messages => told["content"].clone(),
        Endpoint::ChatCompletions => json!([told["choices"][0]["message"]]),
        Endpoint::Responses => told["output"].clone(),
    };
    for item in list.as_array().unwrap() {
        let word = |name: &str| item[name].as_str().unwrap_or_default();
        match word("type") {
            "text" => message.content.push(MessagePart::text(word("text"))),
            "tool_use" => {
                let arguments = item["input"].to_string();
                message.tool_calls.push(ToolCall::new(word("id"), word("name"), &arguments));
            }
            "" => {
                message.content.extend(item["content"].as_str().map(MessagePart::text));
                for call in item["tool_calls"].as_array().into_iter().flatten() {
                    let word = |it: &Value| it.as_str().unwrap_or_default().to_owned();
                    let (name, arguments) =
                        (word(&call["function"]["name"]), word(&call["function"]["arguments"]));
                    message.tool_calls.push(ToolCall::new(word(&call["id"]), &name, &arguments));
                }
            }
            kind => {
                if kind == "function_call" {
                    let (id, name) = (word("call_id"), word("name"));
                    message.tool_calls.push(ToolCall::new(id, name, word("arguments")));
                }
                let item = Json::parse(&item.to_string()).unwrap();
                message.content.push(MessagePart::native(name(endpoint), item));
            }
        }
    }
    message
}
