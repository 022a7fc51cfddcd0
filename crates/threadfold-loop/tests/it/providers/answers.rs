//! Answers of the scripted model arrive verbatim and are returned verbatim.

use serde_json::{Value, json};
use threadfold_core::{Fields, Json, MessagePartBody};
use threadfold_loop::{Answer, AnswerUsage, Delta, ProviderError, usage_of};
use threadfold_testkit::{
    Attempts, Block, Fault, Place, Script, ScriptedModel, Step, Usage as Tokens,
};

use super::{KINDS, Kind, ask, line};

fn model(step: Step) -> ScriptedModel {
    ScriptedModel::builder().script(Script::new("it").step(step)).start().unwrap()
}

async fn answered(kind: Kind, step: Step) -> (Answer, Vec<Delta>) {
    let model = model(step);
    let (answer, deltas) = ask(&*kind.at(&model.base_url()), kind.request("it", true)).await;
    (answer.unwrap(), deltas)
}

fn server_tool(kind: Kind) -> Vec<Block> {
    let items = match kind {
        Kind::Anthropic => vec![
            json!({ "type": "server_tool_use", "id": "s1", "name": "web_search",
                "input": { "query": "q" }, "new": 1.50 }),
            json!({ "type": "web_search_tool_result", "tool_use_id": "s1", "content": [] }),
        ],
        Kind::Chat => Vec::new(),
        Kind::Responses => {
            vec![json!({ "type": "web_search_call", "id": "ws1", "status": "completed" })]
        }
    };
    items.into_iter().map(Block::Item).collect()
}

/// A step with everything that an answer can have.
fn everything(kind: Kind) -> Step {
    let step = Step::new()
        .thinking("Hm, \"größer\"\n🦀?", "c2ln+/==")
        .redacted_thinking("b3BhcXVl")
        .chunk_chars(1)
        .usage(Tokens { input: 100, output: 7, cache_read: 40, cache_write: 0 });
    server_tool(kind)
        .into_iter()
        .fold(step, Step::block)
        .text("Größer als\u{2028}🦀🦀.")
        .tool_use("Read", json!({ "path": "ä" }))
        .tool_use("Bash", json!({}))
}

#[tokio::test]
async fn streamed_and_complete_answers_are_equal() {
    for kind in KINDS {
        let (streamed, _) = answered(kind, everything(kind)).await;
        let model = model(everything(kind));
        let provider = kind.at(&model.base_url());
        let whole = ask(&*provider, kind.request("it", false)).await.0.unwrap();
        assert_eq!(streamed, whole, "{kind:?}");
    }
}

#[tokio::test]
async fn answers_are_returned_to_their_provider_unchanged() {
    for kind in [Kind::Anthropic, Kind::Responses] {
        let (answer, _) = answered(kind, everything(kind)).await;
        let payload: Fields = serde_json::from_str(answer.payload.as_str()).unwrap();
        let back = kind.dialect().items(std::slice::from_ref(&answer.message));
        let (received, back) = match kind {
            Kind::Anthropic => {
                let message: Fields = serde_json::from_str(back[0].as_str()).unwrap();
                (payload.get("content").unwrap().clone(), message.get("content").unwrap().clone())
            }
            _ => (payload.get("output").unwrap().clone(), Json::of(&back)),
        };
        let list = |json: &Json| serde_json::from_str::<Vec<Json>>(json.as_str()).unwrap();
        for (received, back) in list(&received).iter().zip(list(&back)) {
            assert_eq!(*received, back, "{kind:?}");
            // The neutral form may serialize fields in another order.
            let is_neutral = [r#""thinking""#, r#""text""#, r#""tool_use""#].iter().any(|name| {
                kind == Kind::Anthropic && received.as_str().contains(&format!(r#""type":{name}"#))
            });
            assert!(is_neutral || received.as_str() == back.as_str(), "{received} {back}");
        }
        assert_eq!(list(&received).len(), list(&back).len());
        assert_eq!(kind.dialect().check(&next_request(kind, &answer)), [], "{kind:?}");
    }
}

/// The request that follows an answer: the prompt, the answer and its results.
fn next_request(kind: Kind, answer: &Answer) -> Vec<u8> {
    use threadfold_core::{ConversationMessage, Role};

    let mut messages = vec![ConversationMessage::text(Role::User, "go"), answer.message.clone()];
    for call in &answer.message.tool_calls {
        messages.push(ConversationMessage::result(call.call_id.clone(), "done"));
    }
    let mut request = Fields::default();
    request.insert(kind.dialect().list(), Json::of(&kind.dialect().items(&messages)));
    Json::of(&request).as_str().into()
}

#[tokio::test]
async fn thinking_signatures_and_opaque_items_are_preserved() {
    let (answer, _) = answered(Kind::Anthropic, everything(Kind::Anthropic)).await;
    let back = Kind::Anthropic.dialect().items(&[answer.message]).remove(0).to_string();
    let thinking = r#"{"type":"thinking","thinking":"Hm, \"größer\"\n🦀?","signature":"c2ln+/=="}"#;
    assert!(back.contains(thinking), "{back}");
    assert!(back.contains(r#"{"data":"b3BhcXVl","type":"redacted_thinking"}"#), "{back}");
    assert!(back.contains(r#""name":"web_search","new":1.5,"type":"server_tool_use"}"#), "{back}");

    let (answer, _) = answered(Kind::Responses, everything(Kind::Responses)).await;
    let back = Json::of(&Kind::Responses.dialect().items(&[answer.message])).to_string();
    let reasoning = r#"{"encrypted_content":"c2ln+/==","id":"rs_resp_tf_000001_0","summary":[{"text":"Hm, \"größer\"\n🦀?","type":"summary_text"}],"type":"reasoning"}"#;
    assert!(back.contains(reasoning), "{back}");
    assert!(back.contains(r#""id":"fc_resp_tf_000001_4""#), "{back}");
}

#[tokio::test]
async fn deltas_match_the_parts_of_the_message() {
    for kind in KINDS {
        let (answer, deltas) = answered(kind, everything(kind)).await;
        let begun = Delta::Started { message: answer.message.message_id.clone() };
        assert_eq!(deltas[0], begun, "{kind:?}");

        let mut parts = vec![String::new(); answer.message.content.len()];
        let mut calls = vec![String::new(); answer.message.tool_calls.len()];
        for delta in &deltas[1..] {
            match delta {
                Delta::Text { part, text } | Delta::Thinking { part, text } => {
                    parts[*part].push_str(text);
                }
                Delta::Call { call, name, arguments } => {
                    let mut all = answer.message.tool_calls.iter();
                    let at = all.position(|it| it.call_id == *call && it.name == *name).unwrap();
                    calls[at].push_str(arguments);
                }
                Delta::Started { .. } => panic!("it begins once"),
            }
        }
        for (part, heard) in answer.message.content.iter().zip(&parts) {
            match &part.body {
                MessagePartBody::Text(text) => assert_eq!(text.text.to_str(), **heard),
                MessagePartBody::Thinking(text) => assert_eq!(text.text.to_str(), **heard),
                MessagePartBody::Native(native) if !heard.is_empty() => {
                    let summary: Value = serde_json::from_str(native.item.as_str()).unwrap();
                    assert_eq!(summary["summary"][0]["text"], **heard);
                }
                _ => assert_eq!(heard, ""),
            }
        }
        let written: Vec<_> = answer.message.tool_calls.iter().map(|it| &*it.arguments).collect();
        assert_eq!(calls, written, "{kind:?}");
        assert_eq!(written, [r#"{"path":"ä"}"#, "{}"]);
    }
}

#[tokio::test]
async fn arguments_are_verbatim() {
    let written = [r#"{ "b" : 1.0, "a" :"\u00fc" }"#, "{ not json", "", " "];
    for kind in KINDS {
        let step = written.iter().fold(Step::new().chunk_chars(2), |step, arguments| {
            let (name, arguments) = ("Bash".to_owned(), (*arguments).to_owned());
            step.block(Block::WrittenToolUse { name, arguments })
        });
        let (answer, _) = answered(kind, step).await;
        let calls: Vec<_> = answer.message.tool_calls.iter().map(|it| &*it.arguments).collect();
        assert_eq!(calls, [written[0], written[1], "{}", "{}"], "{kind:?}");
    }
}

#[tokio::test]
async fn usage_and_stop_reason_are_reported() {
    let usage = AnswerUsage { input: 100, output: 7, cache_read: 40, cache_write: 0 };
    let expected = [
        (Kind::Anthropic, usage, "tool_use"),
        (Kind::Chat, AnswerUsage { input: 60, ..usage }, "tool_calls"),
        (Kind::Responses, AnswerUsage { input: 60, ..usage }, "completed"),
    ];
    for (kind, usage, reason) in expected {
        let (answer, _) = answered(kind, everything(kind)).await;
        assert_eq!(usage_of(&answer.usage.unwrap()), usage, "{kind:?}");
        assert_eq!(answer.stop_reason.as_deref(), Some(reason));
    }
    let short = Step::new().text("I").stop(threadfold_testkit::StopReason::MaxTokens);
    for (kind, reason) in KINDS.into_iter().zip(["max_tokens", "length", "max_output_tokens"]) {
        let (answer, _) = answered(kind, short.clone()).await;
        assert_eq!(answer.stop_reason.as_deref(), Some(reason));
    }
}

async fn fault(kind: Kind, fault: Fault) -> ProviderError {
    let model = model(Step::new().chunk_chars(2).text("some words").fault(Attempts::Every, fault));
    ask(&*kind.at(&model.base_url()), kind.request("it", true)).await.0.unwrap_err()
}

#[tokio::test]
async fn an_answer_truncated_anywhere_is_an_error() {
    let places = [Place::Start, Place::Within { block: 0, deltas: 1 }];
    for kind in KINDS {
        for at in places {
            let error = fault(kind, Fault::cut(at)).await;
            assert!(matches!(error, ProviderError::Broken { .. }), "{}", line(&error));
        }
    }
}

#[tokio::test]
async fn transient_and_permanent_errors_are_distinguished() {
    use std::time::Duration;

    for kind in KINDS {
        let busy = fault(kind, Fault::rate_limit(7)).await;
        assert_eq!(busy.retry_after(), Some(Duration::from_secs(7)), "{kind:?}");
        for status in [408, 409, 429, 500, 503, 529] {
            let error = fault(kind, Fault::status(status)).await;
            assert!(matches!(&error, ProviderError::Busy { status: it, .. } if *it == status));
        }
        for status in [401, 403] {
            let error = fault(kind, Fault::status(status)).await;
            assert!(
                matches!(&error, ProviderError::Unauthorized { status: it, .. } if *it == status)
            );
        }
        for status in [400, 404, 413, 422] {
            let error = fault(kind, Fault::status(status)).await;
            let ProviderError::Refused { status: it, message, .. } = &error else {
                panic!("{}", line(&error));
            };
            assert_eq!((*it, &**message), (status, "the script says so"));
        }
        let midway = fault(kind, Fault::overloaded(Place::Within { block: 0, deltas: 1 })).await;
        let ProviderError::Busy { status, message, .. } = &midway else {
            panic!("{}", line(&midway));
        };
        let expected = if kind == Kind::Anthropic { 529 } else { 500 };
        assert_eq!((*status, &**message), (expected, "the script says so"));
    }
}
