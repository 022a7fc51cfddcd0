//! Converts Anthropic's blocks to message parts and calls, so that they can be returned verbatim.

use threadfold_core::{ConversationMessage, Json, MessagePart, MessagePartBody, ThinkingPart};
use threadfold_core::{Role, ToolCall};

use crate::provider::failure::Failure;
use crate::provider::json::{get, has_only, text};

use super::NATIVE;
use super::block::CompleteBlock;

/// The content of a message that is being assembled.
#[derive(Default)]
pub(super) struct Content {
    /// The blocks in the provider's format.
    items: Vec<Json>,
    parts: Vec<MessagePart>,
    calls: Vec<ToolCall>,
    /// Calls with no other block after them yet.
    last: Vec<Json>,
}

impl Content {
    /// Returns the index of the message part that a block of this type becomes.
    ///
    /// Calls are rendered after everything else. A call with another block after it must therefore
    /// also be a native part, to keep its position.
    pub(super) fn begin(&mut self, kind: &str) -> usize {
        if kind != "tool_use" {
            self.place_calls();
        }
        self.parts.len()
    }

    pub(super) fn add(&mut self, block: CompleteBlock) -> Result<(), Failure> {
        self.items.push(block.item.clone());
        match &*block.string("type") {
            "text" => {
                let is_plain = has_only(&block.fields, &["type", "text"]);
                let words = text(&block.fields, "text")?;
                drop(block.fields);
                let part = MessagePart::text(&words);
                self.parts.push(if is_plain { part } else { part.with_native(NATIVE, block.item) });
            }
            "thinking" if has_only(&block.fields, &["type", "thinking", "signature"]) => {
                let signature = Some(text(&block.fields, "signature")?).filter(|it| !it.is_empty());
                let words = text(&block.fields, "thinking")?.as_str().into();
                let part = ThinkingPart { text: words, signature: signature.map(Into::into) };
                self.parts.push(MessagePartBody::Thinking(part).into());
            }
            "tool_use" => self.call(block)?,
            _ => self.parts.push(MessagePart::native(NATIVE, block.item)),
        }
        Ok(())
    }

    fn call(&mut self, block: CompleteBlock) -> Result<(), Failure> {
        let (id, name) = (block.string("id"), block.string("name"));
        if id.is_empty() || name.is_empty() {
            return Err(Failure::malformed("a call has no id or no name"));
        }
        self.calls.push(ToolCall::new(id, &name, &block.arguments));
        let is_object = get(&block.fields, "input").is_some_and(|it| it.as_str().starts_with('{'));
        if !is_object {
            return Ok(());
        }
        self.last.push(block.item);
        if !has_only(&block.fields, &["type", "id", "name", "input"]) {
            self.place_calls();
        }
        Ok(())
    }

    fn place_calls(&mut self) {
        let calls = self.last.drain(..).map(|item| MessagePart::native(NATIVE, item));
        self.parts.extend(calls);
    }

    /// Returns the message, and the list of its blocks.
    pub(super) fn finish(self) -> (ConversationMessage, Json) {
        let mut message = ConversationMessage::new(Role::Assistant);
        message.content = self.parts;
        message.tool_calls = self.calls;
        (message, Json::of(&self.items))
    }
}
