//! Parts of messages: the same objects in the stream and in the store.

use std::sync::Arc;

use serde_json::value::RawValue;
use threadfold_core::{
    Block, BlockBody, BlockId, Content, ContextChange, ContextChanged, ConversationId, FilePart,
    ImagePart, Part as MessagePart, PartBody, Payload, SystemBlock, UnknownBlock, UserMessageBlock,
};

use super::emitter::{Emitter, key};
use super::texts::TextPart;
use super::time::iso;
use super::tools::convert_tool;
use super::wire::Part;

/// Converts a part of a message in its current state. Returns whether its type is known.
///
/// A part of unknown type becomes a block that carries it.
pub(super) fn convert_part(emitter: &mut Emitter<'_>, part: &Part<'_>, raw: &RawValue) -> bool {
    let (Some(id), Some(message_id), Some(kind)) =
        (part.id.as_deref(), part.message_id.as_deref(), part.kind.as_deref())
    else {
        return false;
    };
    let message = emitter.memory.messages.get(message_id).cloned().unwrap_or_default();
    let session = part.session_id.as_deref().unwrap_or(&message.session).to_owned();
    // Another session on the same bus: known, and not ours.
    let Some(conversation) = emitter.conversation_of(&session) else { return true };
    let place = key(message_id, id);
    let started = part.time.and_then(|time| time.start).and_then(iso);
    let timestamp = started.or_else(|| message.created.clone());
    let show = |emitter: &mut Emitter<'_>, body: BlockBody| {
        let mut block = Block::new(id, body);
        block.timestamp = timestamp.clone();
        emitter.emit_block(&conversation, place.clone(), block);
    };
    match kind {
        "text" | "reasoning" => {
            let text = TextPart { part, id, message_id, kind, conversation: &conversation };
            text.convert(emitter, &message, timestamp.clone());
        }
        "tool" => convert_tool(emitter, part, id, message_id, &conversation),
        "file" => {
            let content = Content::Parts(vec![file(part)]);
            show(emitter, UserMessageBlock { content }.into());
        }
        "compaction" => {
            let body = SystemBlock {
                subtype: "compaction".into(),
                message: Some("The context was compacted".into()),
            };
            show(emitter, body.into());
            // Messages from `tail_start_id` on stay in the context.
            let tail = part.tail_start_id.as_deref().and_then(|message| {
                let order = emitter.side().order.get(&conversation)?;
                order.since_message(message).next().map(|(_, block)| block.clone())
            });
            let head = Some(tail.unwrap_or_else(|| BlockId::from(id)));
            let kind = ContextChange::Compaction;
            let changed = ContextChanged { kind, head, summary: None, blocks: Vec::new() };
            emitter.emit(&conversation, Payload::ContextChanged(changed));
        }
        "patch" => {
            let mut block = Block::new(id, SystemBlock { subtype: "patch".into(), message: None });
            block.timestamp = timestamp.clone();
            if let Some(files) = part.files {
                block.metadata.insert("files", files.into());
            }
            emitter.emit_block(&conversation, place.clone(), block);
        }
        "step-start" => begin_step(emitter, id, message_id, &conversation, timestamp.clone()),
        "step-finish" => {
            emitter.side().steps.remove(message_id);
        }
        "snapshot" | "agent" | "retry" => {}
        "subtask" => {
            let body = SystemBlock { subtype: "subtask".into(), message: None };
            show(emitter, body.into());
        }
        _ => {
            show(emitter, UnknownBlock { record: raw.into() }.into());
            return false;
        }
    }
    true
}

/// Begins a step of a message. If the previous step has not ended, that attempt failed.
///
/// The failed attempt's open texts are abandoned; the tools that it ran did run, and stay.
fn begin_step(
    emitter: &mut Emitter<'_>,
    id: &str,
    message: &str,
    conversation: &ConversationId,
    timestamp: Option<Arc<str>>,
) {
    let message: Arc<str> = message.into();
    let previous = emitter.side().steps.insert(message.clone(), id.into());
    if let Some(previous) = previous.filter(|it| **it != *id) {
        let abandoned = emitter.side().open.take_message(&message);
        emitter.abandon_texts(abandoned);
        let text = "this attempt failed and was made again";
        let body = SystemBlock { subtype: "attempt".into(), message: Some(text.into()) };
        let mut block = Block::new(&*previous, body);
        block.timestamp = timestamp;
        emitter.emit_block(conversation, key(&message, &previous), block);
    }
}

/// Returns a file part as a part of a user's message.
fn file(part: &Part<'_>) -> MessagePart {
    let media_type: Option<Arc<str>> = part.mime.as_deref().map(Into::into);
    let url: Option<Arc<str>> = part.url.as_deref().map(Into::into);
    let is_image = media_type.as_deref().is_some_and(|kind| kind.starts_with("image/"));
    if is_image {
        return PartBody::Image(ImagePart { media_type, data: None, url }).into();
    }
    let name = part.filename.as_deref().map(Into::into);
    PartBody::File(FilePart { name, media_type, data: None, url }).into()
}
