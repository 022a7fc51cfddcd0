//! Providers over real HTTP on loopback: the scripted model, and servers that misbehave.

mod answers;
mod forms;
mod hostile;
mod scripted;
mod secrets;
mod server;

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use threadfold_core::Dialect;
use threadfold_loop::{
    Answer, Anthropic, Delta, Deltas, Key, OpenAiChat, OpenAiResponses, Provider, ProviderError,
    Timeouts,
};

/// Long enough to count as a secret.
const KEY: &str = "sk-secret-0123456789";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Anthropic,
    Chat,
    Responses,
}

const KINDS: [Kind; 3] = [Kind::Anthropic, Kind::Chat, Kind::Responses];

impl Kind {
    fn dialect(self) -> Dialect {
        match self {
            Self::Anthropic => Dialect::Anthropic,
            Self::Chat => Dialect::Chat,
            Self::Responses => Dialect::Responses,
        }
    }

    /// A provider with short timeouts.
    fn at(self, address: &str) -> Box<dyn Provider> {
        let second = Duration::from_secs(20);
        self.with(address, Timeouts { connect: second, idle: second })
    }

    fn with(self, address: &str, timeouts: Timeouts) -> Box<dyn Provider> {
        let key = Key::new(KEY).unwrap();
        match self {
            Self::Anthropic => {
                Box::new(Anthropic::new(address, key).unwrap().with_timeouts(timeouts).unwrap())
            }
            Self::Chat => {
                Box::new(OpenAiChat::new(address, key).unwrap().with_timeouts(timeouts).unwrap())
            }
            Self::Responses => Box::new(
                OpenAiResponses::new(address, key).unwrap().with_timeouts(timeouts).unwrap(),
            ),
        }
    }

    /// A request that plays the script `name`.
    fn request(self, name: &str, stream: bool) -> Bytes {
        let prompt = json!([{ "role": "user", "content": format!("[[play:{name}]]") }]);
        let mut request = json!({ "model": "m", "stream": stream });
        request[self.dialect().list()] = prompt;
        request["stream_options"] = json!({ "include_usage": true });
        request.to_string().into()
    }

    /// The events of an answer with `text`; the last one ends it.
    fn events(self, text: &str) -> Vec<String> {
        let data = |value: Value| format!("data: {value}\n\n");
        match self {
            Self::Anthropic => [
                json!({ "type": "message_start", "message": { "id": "m1", "usage": {} } }),
                json!({ "type": "content_block_start", "index": 0,
                    "content_block": { "type": "text", "text": "" } }),
                json!({ "type": "content_block_delta", "index": 0,
                    "delta": { "type": "text_delta", "text": text } }),
                json!({ "type": "content_block_stop", "index": 0 }),
                json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" } }),
                json!({ "type": "message_stop" }),
            ]
            .map(data)
            .to_vec(),
            Self::Chat => [
                json!({ "id": "m1", "choices": [{ "index": 0, "delta": { "content": text } }] }),
                json!({ "id": "m1", "choices": [
                    { "index": 0, "delta": {}, "finish_reason": "stop" },
                ] }),
            ]
            .map(data)
            .to_vec(),
            Self::Responses => {
                let item = json!({ "type": "message", "role": "assistant",
                    "content": [{ "type": "output_text", "text": text }] });
                [
                    json!({ "type": "response.created", "response": { "id": "m1" } }),
                    json!({ "type": "response.output_text.delta", "output_index": 0,
                        "delta": text }),
                    json!({ "type": "response.output_item.done", "output_index": 0,
                        "item": item }),
                    json!({ "type": "response.completed",
                        "response": { "id": "m1", "status": "completed", "output": [] } }),
                ]
                .map(data)
                .to_vec()
            }
        }
    }
}

/// Sends a request, and returns the answer with its deltas.
async fn ask(
    provider: &dyn Provider,
    request: impl Into<Bytes>,
) -> (Result<Answer, ProviderError>, Vec<Delta>) {
    let (deltas, mut output) = Deltas::channel();
    let heard = async {
        let mut heard = Vec::new();
        while let Some(delta) = output.recv().await {
            heard.push(delta);
        }
        heard
    };
    let request = request.into();
    let asked = async move { provider.ask(request, &deltas).await };
    tokio::join!(asked, heard)
}

/// Formats an error on one line: its kind, and its message with all causes.
fn line(error: &ProviderError) -> String {
    let kind = match error {
        ProviderError::Busy { .. } => "busy",
        ProviderError::Broken { .. } => "broken",
        ProviderError::Unauthorized { .. } => "unauthorized",
        ProviderError::Refused { .. } => "refused",
        _ => "new",
    };
    let mut received = format!("{kind}: {error}");
    let mut cause = std::error::Error::source(error);
    while let Some(it) = cause {
        received += &format!(": {it}");
        cause = it.source();
    }
    received
}

async fn error_of(provider: &dyn Provider) -> String {
    line(&ask(provider, "{}").await.0.unwrap_err())
}
