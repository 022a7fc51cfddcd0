//! OpenAI's Chat Completions API, and the many servers that implement it.

mod message;

use std::sync::Arc;

use threadfold_core::{Fields, Json};

use super::access::AccessError;
use super::assembly::Assembly;
use super::failure::Failure;
use super::http::Endpoint;
use super::json::{get, list, number, read, string};
use super::key::Key;
use super::openai;
use super::{Answer, Delta};

use message::Message;

pub(super) const NAME: &str = "openai-chat";
pub(super) const PARAMETERS: &str = r#"{"stream_options":{"include_usage":true}}"#;

pub(super) fn endpoint(address: &str, key: Key) -> Result<Endpoint, AccessError> {
    let path = |base: &str| format!("{}/chat/completions", openai::version(base));
    openai::endpoint(NAME, address, key, path)
}

/// A completion that is being assembled.
#[derive(Default)]
pub(crate) struct Completions {
    /// The fields of the chunks, without the choices.
    fields: Fields,
    /// The fields of the choice, without its message.
    choice: Fields,
    message: Message,
    has_begun: bool,
    is_over: bool,
}

impl Assembly for Completions {
    fn event(&mut self, data: &str, deltas: &mut Vec<Delta>) -> Result<(), Failure> {
        if data.trim() == "[DONE]" {
            self.is_over = true;
            return Ok(());
        }
        let chunk: Fields = serde_json::from_str(data)?;
        if let Some(error) = get(&chunk, "error") {
            return Err(Failure::reported(error));
        }
        if !self.has_begun {
            self.has_begun = true;
            let id = string(&chunk, "id");
            deltas.push(Delta::Started { message: (!id.is_empty()).then(|| id.into()) });
        }
        self.add(&chunk, "delta", deltas)
    }

    fn is_over(&self) -> bool {
        // A stream that ends without a finish reason is incomplete, even if it sends `[DONE]`.
        self.is_over
    }

    fn is_complete(&self) -> bool {
        self.finish_reason().is_some()
    }

    fn finish(self) -> Result<Answer, Failure> {
        let stop_reason = self.finish_reason();
        let id = string(&self.fields, "id");
        let (mut message, item) = self.message.finish(&id)?;
        message.message_id = (!id.is_empty()).then(|| id.into());

        let mut choice = Fields::default();
        choice.insert("index", Json::of(&0));
        choice.insert("message", item);
        self.choice.iter().for_each(|(name, value)| choice.insert(name, value.clone()));
        let mut payload = self.fields;
        if get(&payload, "object").is_some() {
            payload.insert("object", Json::string("chat.completion"));
        }
        payload.insert("choices", Json::of(&[choice]));
        let usage = get(&payload, "usage").cloned();
        Ok(Answer { message, payload: Json::of(&payload), usage, stop_reason })
    }

    fn read(body: &str) -> Result<Answer, Failure> {
        let fields: Fields = serde_json::from_str(body)?;
        if let Some(error) = get(&fields, "error") {
            return Err(Failure::reported(error));
        }
        let mut whole = Self::default();
        whole.add(&fields, "message", &mut Vec::new())?;
        if !whole.is_complete() {
            return Err(Failure::malformed("not a completion"));
        }
        Ok(Answer { payload: Json::parse(body)?, ..whole.finish()? })
    }
}

impl Completions {
    /// Applies a chunk, or a complete completion, whose message is the field `name`.
    fn add(&mut self, chunk: &Fields, name: &str, deltas: &mut Vec<Delta>) -> Result<(), Failure> {
        for (name, value) in chunk.iter().filter(|it| it.0 != "choices" && !it.1.is_null()) {
            self.fields.insert(name, value.clone());
        }
        for choice in list(chunk, "choices")? {
            let choice: Fields = read(&choice)?;
            if number(&choice, "index").unwrap_or_default() != 0 {
                continue;
            }
            if let Some(delta) = get(&choice, name) {
                self.message.add(delta, deltas)?;
            }
            let fields = choice.iter().filter(|it| it.0 != name && !it.1.is_null());
            fields.for_each(|(name, value)| self.choice.insert(name, value.clone()));
        }
        Ok(())
    }

    fn finish_reason(&self) -> Option<Arc<str>> {
        let reason = get(&self.choice, "finish_reason").and_then(Json::to_text);
        reason.filter(|it| !it.is_empty()).map(Into::into)
    }
}
