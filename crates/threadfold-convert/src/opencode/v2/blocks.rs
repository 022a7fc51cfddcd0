//! The blocks of messages, whether they were streamed or stored.

use std::sync::Arc;

use serde_json::value::RawValue;
use threadfold_core::{
    AssistantTextBlock, Block, Content, ErrorBlock, FilePart, ImagePart, Json, Part, PartBody,
    SystemBlock, TextPart, ThinkingBlock, UserMessageBlock,
};

use super::wire::{Attachment, Failure, Prompt};
use crate::opencode::time::iso;

/// Returns the id of a text or thought: its kind, and its number among the items of that kind.
pub(super) fn item_id(message: &str, kind: &str, ordinal: u64) -> String {
    format!("{message}:{kind}:{ordinal}")
}

/// Returns a text of the model.
pub(super) fn text(id: &str, text: &str, model: Option<Arc<str>>, created: Option<f64>) -> Block {
    at(Block::new(id, AssistantTextBlock { content: text.into(), model }), created)
}

/// Returns a thought, with the signature that some providers give.
pub(super) fn thought(
    id: &str,
    text: &str,
    state: Option<&RawValue>,
    created: Option<f64>,
) -> Block {
    #[derive(serde::Deserialize)]
    struct ProviderState {
        signature: Option<Arc<str>>,
    }
    let state = state.and_then(|raw| serde_json::from_str::<ProviderState>(raw.get()).ok());
    let signature = state.and_then(|it| it.signature).filter(|it| !it.is_empty());
    at(Block::new(id, ThinkingBlock { content: text.into(), signature, redacted: false }), created)
}

/// Returns a person's prompt.
pub(super) fn prompt(id: &str, prompt: &Prompt<'_>, created: Option<f64>) -> Block {
    let words = prompt.text.as_deref().unwrap_or("");
    let files = prompt.files.as_deref().unwrap_or(&[]);
    let content = match files {
        [] => Content::from(words),
        files => {
            let text = Part::from(PartBody::Text(TextPart { text: words.into() }));
            Content::Parts(std::iter::once(text).chain(files.iter().map(attachment)).collect())
        }
    };
    let mut block = at(Block::new(id, UserMessageBlock { content }), created);
    let more =
        [("agents", prompt.agents), ("skills", prompt.skills), ("metadata", prompt.metadata)];
    for (name, value) in more {
        if let Some(value) = value {
            block.metadata.insert(name, value.into());
        }
    }
    block
}

fn attachment(file: &Attachment<'_>) -> Part {
    let media_type: Option<Arc<str>> = file.mime.as_deref().map(Into::into);
    let data: Option<Arc<str>> = file.data.as_deref().map(Into::into);
    let is_image = media_type.as_deref().is_some_and(|kind| kind.starts_with("image/"));
    if is_image {
        return PartBody::Image(ImagePart { media_type, data, url: None }).into();
    }
    let name = file.name.as_deref().map(Into::into);
    PartBody::File(FilePart { name, media_type, data, url: None }).into()
}

/// Returns a text that no person and no model wrote.
pub(super) fn notice(id: &str, subtype: &str, text: &str, created: Option<f64>) -> Block {
    let body = SystemBlock { subtype: subtype.into(), message: Some(text.into()) };
    at(Block::new(id, body), created)
}

/// Returns a text that OpenCode or another program put into the conversation.
pub(super) fn synthetic(id: &str, prompt: &Prompt<'_>, created: Option<f64>) -> Block {
    let mut block = notice(id, "notice", prompt.text.as_deref().unwrap_or(""), created);
    if let Some(description) = prompt.description.as_deref() {
        block.metadata.insert("description", Json::string(description));
    }
    block
}

/// Returns the error that ended a message.
pub(super) fn error(message: &str, error: &RawValue, created: Option<f64>) -> Block {
    let read: Option<Failure<'_>> = serde_json::from_str(error.get()).ok();
    let Some(failure) = read.filter(|it| it.message.is_some() || it.kind.is_some()) else {
        let body = ErrorBlock { message: error.get().into(), code: None };
        return at(Block::new(format!("error:{message}"), body), created);
    };
    let code = failure.kind.as_deref().map(Json::string);
    let words = failure.message.as_deref().or(failure.kind.as_deref()).unwrap_or_default();
    at(Block::new(format!("error:{message}"), ErrorBlock { message: words.into(), code }), created)
}

/// Returns a block with the time at which it was created.
pub(super) fn at(mut block: Block, created: Option<f64>) -> Block {
    block.timestamp = created.and_then(iso);
    block
}
