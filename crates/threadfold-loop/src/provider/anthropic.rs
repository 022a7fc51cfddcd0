//! Anthropic's Messages API.

mod block;
mod content;

use reqwest::header::HeaderValue;
use threadfold_core::{Fields, Json};

use super::access::AccessError;
use super::assembly::Assembly;
use super::failure::Failure;
use super::http::Endpoint;
use super::json::{get, list, number, read, string};
use super::key::Key;
use super::{Answer, Delta};

use block::{Block, BlockDelta, CompleteBlock};
use content::Content;

/// The provider name of native items.
const NATIVE: &str = "anthropic";

pub(super) const NAME: &str = "anthropic";
pub(super) const PARAMETERS: &str = r#"{"max_tokens":16384}"#;

pub(super) fn endpoint(address: &str, key: Key) -> Result<Endpoint, AccessError> {
    let headers = [
        ("x-api-key", key.header("")?),
        ("anthropic-version", HeaderValue::from_static("2023-06-01")),
    ];
    Endpoint::new(NAME, address, key, &headers, |base| match base.ends_with("/v1") {
        true => format!("{base}/messages"),
        false => format!("{base}/v1/messages"),
    })
}

/// An Anthropic answer that is being assembled.
#[derive(Default)]
pub(crate) struct Messages {
    /// The message from its start event, updated by later ones.
    message: Option<Fields>,
    usage: Fields,
    content: Content,
    /// The open block. Blocks arrive one after another.
    open: Option<Block>,
    is_over: bool,
}

impl Assembly for Messages {
    fn event(&mut self, data: &str, deltas: &mut Vec<Delta>) -> Result<(), Failure> {
        let event: Fields = serde_json::from_str(data)?;
        match &*string(&event, "type") {
            "message_start" => self.start(&event, deltas),
            "content_block_start" => self.start_block(&event, deltas),
            "content_block_delta" => self.add(&event, deltas),
            "content_block_stop" => self.close(),
            "message_delta" => self.change(&event),
            "message_stop" => {
                self.close()?;
                self.is_over = true;
                Ok(())
            }
            "error" => Err(Failure::reported(get(&event, "error").unwrap_or(&Json::of(&event)))),
            // A ping, or an event that this version does not know.
            _ => Ok(()),
        }
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

    fn is_complete(&self) -> bool {
        self.is_over
    }

    fn finish(self) -> Result<Answer, Failure> {
        let mut message =
            self.message.ok_or_else(|| Failure::malformed("the message never started"))?;
        if !self.usage.is_empty() {
            message.insert("usage", Json::of(&self.usage));
        }
        answer(message, self.content)
    }

    fn read(body: &str) -> Result<Answer, Failure> {
        let message: Fields = serde_json::from_str(body)?;
        if let Some(error) = get(&message, "error") {
            return Err(Failure::reported(error));
        }
        if get(&message, "content").is_none() {
            return Err(Failure::malformed("not a message"));
        }
        let mut content = Content::default();
        for item in list(&message, "content")? {
            let block = CompleteBlock::new(item)?;
            content.begin(&block.string("type"));
            content.add(block)?;
        }
        answer(message, content)
    }
}

impl Messages {
    fn start(&mut self, event: &Fields, deltas: &mut Vec<Delta>) -> Result<(), Failure> {
        let message: Fields = get(event, "message").map_or(Ok(Fields::default()), read)?;
        if let Some(usage) = get(&message, "usage") {
            self.usage = read(usage)?;
        }
        let id = string(&message, "id");
        deltas.push(Delta::Started { message: (!id.is_empty()).then(|| id.into()) });
        self.message = Some(message);
        Ok(())
    }

    fn start_block(&mut self, event: &Fields, deltas: &mut Vec<Delta>) -> Result<(), Failure> {
        self.close()?;
        let start = get(event, "content_block")
            .ok_or_else(|| Failure::malformed("a block start without a block"))?;
        let index = number(event, "index").unwrap_or_default();
        let mut block = Block::new(index, start.clone(), 0)?;
        block.part = self.content.begin(&block.kind);
        let (text, thinking) = (block.string("text"), block.string("thinking"));
        match &*block.kind {
            "tool_use" => deltas.push(call(&block, String::new())),
            "text" if !text.is_empty() => deltas.push(Delta::Text { part: block.part, text }),
            "thinking" if !thinking.is_empty() => {
                deltas.push(Delta::Thinking { part: block.part, text: thinking });
            }
            _ => {}
        }
        self.open = Some(block);
        Ok(())
    }

    fn add(&mut self, event: &Fields, deltas: &mut Vec<Delta>) -> Result<(), Failure> {
        let index = number(event, "index").unwrap_or_default();
        let open = self.open.as_mut().filter(|it| it.index == index);
        let (Some(block), Some(delta)) = (open, get(event, "delta")) else {
            return Err(Failure::malformed(format!(
                "a delta for block {index}, which is not open"
            )));
        };
        let part = block.part;
        deltas.extend(match block.add(delta)? {
            BlockDelta::Text(text) => Some(Delta::Text { part, text }),
            BlockDelta::Thinking(text) => Some(Delta::Thinking { part, text }),
            BlockDelta::Input(more) if block.kind == "tool_use" => Some(call(block, more)),
            BlockDelta::Input(_) | BlockDelta::Nothing => None,
        });
        Ok(())
    }

    fn close(&mut self) -> Result<(), Failure> {
        match self.open.take() {
            Some(block) => self.content.add(block.finish()?),
            None => Ok(()),
        }
    }

    /// Applies the final fields of the message.
    fn change(&mut self, event: &Fields) -> Result<(), Failure> {
        let message = self.message.get_or_insert_default();
        let delta: Fields = get(event, "delta").map_or(Ok(Fields::default()), read)?;
        let usage: Fields = get(event, "usage").map_or(Ok(Fields::default()), read)?;
        for (name, value) in event.iter().filter(|it| !matches!(it.0, "type" | "delta" | "usage")) {
            message.insert(name, value.clone());
        }
        delta.iter().for_each(|(name, value)| message.insert(name, value.clone()));
        let reported = usage.iter().filter(|(_, value)| !value.is_null());
        reported.for_each(|(name, value)| self.usage.insert(name, value.clone()));
        Ok(())
    }
}

fn call(block: &Block, arguments: String) -> Delta {
    Delta::Call { call: block.string("id").into(), name: block.string("name").into(), arguments }
}

fn answer(mut payload: Fields, content: Content) -> Result<Answer, Failure> {
    let (mut message, items) = content.finish();
    payload.insert("content", items);
    let id = string(&payload, "id");
    message.message_id = (!id.is_empty()).then(|| id.into());
    Ok(Answer {
        message,
        usage: get(&payload, "usage").cloned(),
        stop_reason: get(&payload, "stop_reason").and_then(Json::to_text).map(Into::into),
        payload: Json::of(&payload),
    })
}
