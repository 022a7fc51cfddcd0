//! Text and reasoning parts, complete or still streaming.

use std::sync::Arc;

use serde_json::value::RawValue;
use threadfold_core::{
    AssistantTextBlock, Block, BlockBody, BlockId, BlockStatus, Content, ConversationId,
    SystemBlock, TextField, ThinkingBlock, UserMessageBlock,
};

use super::emitter::{Emitter, key};
use super::memory::Message;
use super::order::OpenText;
use super::wire::Part;

/// A text or reasoning part, with the fields that every one has.
pub(super) struct TextPart<'a> {
    pub(super) part: &'a Part<'a>,
    pub(super) id: &'a str,
    pub(super) message_id: &'a str,
    pub(super) kind: &'a str,
    pub(super) conversation: &'a ConversationId,
}

impl TextPart<'_> {
    /// Emits the part: as a block if it has ended, as a preview or a delta if it is streaming.
    pub(super) fn convert(
        &self,
        emitter: &mut Emitter<'_>,
        message: &Message,
        timestamp: Option<Arc<str>>,
    ) {
        let text = self.part.text.as_deref().unwrap_or("");
        // A person's text has no times; it is always complete.
        let has_ended = message.is_user || self.part.time.is_some_and(|time| time.end.is_some());
        let id = BlockId::from(self.id);
        let place = key(self.message_id, self.id);
        if has_ended {
            emitter.side().open.remove(&id);
            let mut block = self.block(message, text);
            block.timestamp = timestamp;
            emitter.emit_block(self.conversation, place, block);
            return;
        }
        if !emitter.is_stream {
            // The store keeps an abandoned text as an empty part without an end.
            return;
        }
        match emitter.side().open.get_mut(&id) {
            // Older versions send the whole text each time; only the new end of it is a delta.
            Some(open) if text.len() as u64 >= open.length => {
                let from = open.length as usize;
                open.length = text.len() as u64;
                if let Some(more) = text.get(from..).filter(|more| !more.is_empty()) {
                    emitter.emit_delta(
                        self.conversation,
                        id,
                        TextField::Content,
                        from as u64,
                        more,
                    );
                }
            }
            _ => {
                let open = OpenText {
                    conversation: self.conversation.clone(),
                    message: self.message_id.into(),
                    length: text.len() as u64,
                };
                emitter.side().open.insert(id, open);
                let mut block = self.block(message, text);
                block.timestamp = timestamp;
                block.status = BlockStatus::Pending;
                emitter.emit_preview(self.conversation, place, block);
            }
        }
    }

    fn block(&self, message: &Message, text: &str) -> Block {
        let is_by_harness = self.part.synthetic == Some(true) || self.part.ignored == Some(true);
        let body: BlockBody = match (self.kind, message.is_user) {
            ("reasoning", _) => {
                let signature = self.part.metadata.and_then(signature);
                ThinkingBlock { content: text.into(), signature, redacted: false }.into()
            }
            (_, true) if is_by_harness => {
                SystemBlock { subtype: "notice".into(), message: Some(text.into()) }.into()
            }
            (_, true) => UserMessageBlock { content: Content::from(text) }.into(),
            _ => AssistantTextBlock { content: text.into(), model: message.model.clone() }.into(),
        };
        Block::new(self.id, body)
    }
}

/// Returns the signature of a thought, which only Anthropic's models give.
fn signature(metadata: &RawValue) -> Option<Arc<str>> {
    #[derive(serde::Deserialize)]
    struct Metadata {
        anthropic: Option<Anthropic>,
    }
    #[derive(serde::Deserialize)]
    struct Anthropic {
        signature: Option<Arc<str>>,
    }
    serde_json::from_str::<Metadata>(metadata.get()).ok()?.anthropic?.signature
}
