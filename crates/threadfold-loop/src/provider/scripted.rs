//! A model that plays a script, for demonstrations and tests.

mod script;

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;
use threadfold_core::{Dialect, Fields, Json};
use tokio::time::sleep;

use super::anthropic::Messages;
use super::assembly::Assembly;
use super::error::ProviderError;
use super::{Answer, Delta, Deltas, Provider};

pub use script::{ProviderScript, ScriptCall, ScriptStep};

const NAME: &str = "scripted";

/// A model that plays a [`ProviderScript`].
///
/// It is stateless: the step that it plays is the number of answers in the request. A resumed loop
/// therefore continues at the right step, in any process, and a second prompt continues after the
/// steps already played. After the last step it answers that the script has ended.
///
/// A call's id is derived from the script, the step and the call's index, so it is the same in
/// every process and unique within a conversation.
#[derive(Clone, Debug)]
pub struct ScriptedProvider {
    script: ProviderScript,
}

impl ScriptedProvider {
    /// Returns a model that plays `script`.
    pub fn new(script: ProviderScript) -> Self {
        Self { script }
    }

    /// Returns the step that a request asks for.
    fn step(&self, request: &[u8]) -> Result<usize, ProviderError> {
        #[derive(Deserialize)]
        struct Request {
            messages: Vec<Message>,
        }
        #[derive(Deserialize)]
        struct Message {
            role: String,
        }
        let request: Request = serde_json::from_slice(request)
            .map_err(|error| ProviderError::of_status(NAME, 400, error.to_string()))?;
        Ok(request.messages.iter().filter(|it| it.role == "assistant").count())
    }

    /// Returns a step as an Anthropic message.
    fn payload(&self, number: usize, step: &ScriptStep) -> Json {
        let part = |it: char| if it.is_ascii_alphanumeric() || it == '-' { it } else { '_' };
        let name: String = self.script.name.chars().map(part).collect();
        let mut content = Vec::new();
        if let Some(thinking) = &step.thinking {
            let signature = blake3::hash(thinking.as_bytes()).to_hex();
            let signature = signature.as_str();
            content.push(Json::of(
                &json!({ "type": "thinking", "thinking": thinking, "signature": signature }),
            ));
        }
        if let Some(text) = &step.text {
            content.push(Json::of(&json!({ "type": "text", "text": text })));
        }
        for (ordinal, call) in step.calls.iter().enumerate() {
            let mut item = Fields::default();
            item.insert("type", Json::string("tool_use"));
            item.insert("id", Json::string(&format!("toolu_{name}_{number}_{ordinal}")));
            item.insert("name", Json::string(&call.name));
            item.insert("input", call.arguments.clone());
            content.push(Json::of(&item));
        }
        let stop_reason = if step.calls.is_empty() { "end_turn" } else { "tool_use" };
        let mut message = Fields::default();
        message.insert("id", Json::string(&format!("msg_{name}_{number}")));
        message.insert("type", Json::string("message"));
        message.insert("role", Json::string("assistant"));
        message.insert("model", Json::string(NAME));
        message.insert("content", Json::of(&content));
        message.insert("stop_reason", Json::string(stop_reason));
        if let Some(usage) = &step.usage {
            message.insert("usage", usage.clone());
        }
        Json::of(&message)
    }
}

#[async_trait]
impl Provider for ScriptedProvider {
    fn name(&self) -> &str {
        NAME
    }

    fn dialect(&self) -> Dialect {
        Dialect::Anthropic
    }

    fn parameters(&self) -> Json {
        Json::parse(super::anthropic::PARAMETERS).expect("our own parameters are JSON")
    }

    async fn ask(&self, request: Bytes, deltas: &Deltas) -> Result<Answer, ProviderError> {
        let number = self.step(&request)?;
        let over = ScriptStep {
            text: Some(format!("The script `{}` is over.", self.script.name)),
            ..ScriptStep::default()
        };
        let step = self.script.steps.get(number).unwrap_or(&over);
        let mut answer = Messages::read(self.payload(number, step).as_str())
            .expect("what we made of a step is a message");
        // A string as arguments is the raw text that the model writes, not a JSON string.
        for (call, written) in answer.message.tool_calls.iter_mut().zip(&step.calls) {
            if let Some(arguments) = written.arguments.to_text() {
                call.arguments = arguments.into();
            }
        }
        stream(&answer, step, deltas).await;
        Ok(answer)
    }
}

/// Streams a step word by word.
async fn stream(answer: &Answer, step: &ScriptStep, deltas: &Deltas) {
    // Even an empty pause would wait for the next tick of the runtime's clock.
    let pause = async || match step.delay_ms {
        0 => {}
        delay => sleep(Duration::from_millis(delay)).await,
    };
    deltas.send(Delta::Started { message: answer.message.message_id.clone() }).await;
    for word in words(step.thinking.as_deref()) {
        pause().await;
        deltas.send(Delta::Thinking { part: 0, text: word }).await;
    }
    let part = usize::from(step.thinking.is_some());
    for word in words(step.text.as_deref()) {
        pause().await;
        deltas.send(Delta::Text { part, text: word }).await;
    }
    for call in &answer.message.tool_calls {
        for arguments in [String::new(), call.arguments.to_string()] {
            let (call, name) = (call.call_id.clone(), call.name.clone());
            deltas.send(Delta::Call { call, name, arguments }).await;
        }
    }
}

/// Splits a text after each white space character.
fn words(text: Option<&str>) -> impl Iterator<Item = String> {
    text.unwrap_or_default().split_inclusive(char::is_whitespace).map(str::to_owned)
}
