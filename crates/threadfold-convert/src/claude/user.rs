//! User lines: prompts, tool results, and messages that the harness sends as the user.

use std::sync::Arc;

use threadfold_core::{
    Block, BlockId, Content as ToModel, Fields, FilePart, ImagePart, Json, Part, PartBody,
    SystemBlock, ToolResultBlock, UserMessageBlock,
};

use super::emitter::Emitter;
use super::memory::call_id;
use super::permission::resolve_by_result;
use super::subagents::convert_agent_result;
use super::wire::{Content, ContentBlock, ImageSource, Line, SharedText};

/// Converts a user line. Returns the id of its first block.
pub(super) fn convert_user(emitter: &mut Emitter<'_>, line: &Line<'_>) -> Option<BlockId> {
    let message = line.message.as_ref()?;
    let uuid = line.uuid.as_deref();
    let mut first = None;
    let mut parts = Vec::new();
    match &message.content {
        Content::None => {}
        Content::Text(text) => parts.push(Part::text(text.as_ref())),
        Content::Blocks(blocks) => {
            for block in blocks {
                match (block.kind.as_deref(), block.tool_use_id.as_deref()) {
                    (Some("tool_result"), Some(call)) => {
                        if emitter.is_stream {
                            resolve_by_result(emitter, call, block.is_error.unwrap_or(false));
                        }
                        if convert_agent_result(emitter, line, call, block) {
                            first.get_or_insert_with(|| BlockId::from(call));
                        } else {
                            let result = tool_result(line, call, block);
                            first.get_or_insert_with(|| result.id.clone());
                            emitter.emit_block(result);
                        }
                    }
                    _ => parts.push(part(block)),
                }
            }
        }
    }
    if parts.is_empty() {
        return first;
    }
    let id = BlockId::from(uuid.map_or_else(|| format!("line:{}", emitter.line), str::to_owned));
    let block = message_block(line, id, parts);
    first.get_or_insert_with(|| block.id.clone());
    emitter.emit_block(block);
    first
}

/// Returns a person's message, or the message that the harness sent as the user.
fn message_block(line: &Line<'_>, id: BlockId, parts: Vec<Part>) -> Block {
    let text = only_text(&parts);
    if let Some(subtype) = text.as_deref().and_then(|text| harness_subtype(line, text)) {
        let message = text.as_deref().map(Into::into);
        return Block::new(id, SystemBlock { subtype: subtype.into(), message });
    }
    let content = match text {
        Some(text) => ToModel::from(text.as_str()),
        None => ToModel::Parts(parts),
    };
    Block::new(id, UserMessageBlock { content })
}

/// Returns the text of a message that consists of one text.
fn only_text(parts: &[Part]) -> Option<String> {
    match parts {
        [Part { body: PartBody::Text(only), .. }] => Some(only.text.to_string()),
        _ => None,
    }
}

/// Returns the subtype of a message that the harness wrote; nothing for a person's.
///
/// The text decides before the marks do, because stream and file mark such lines differently and
/// must give the same block.
pub(super) fn harness_subtype(line: &Line<'_>, text: &str) -> Option<&'static str> {
    let openings = [
        ("[Request interrupted", "interrupted"),
        ("<task-notification>", "task_notification"),
        ("<command-", "command"),
        ("<local-command-", "command"),
        ("<bash-", "command"),
        ("<system-reminder>", "notice"),
        ("This session is being continued from a previous conversation", "summary"),
    ];
    let by_text = openings.iter().find(|(opening, _)| text.starts_with(opening)).map(|(_, it)| *it);
    let is_marked = line.is_synthetic
        || line.is_meta
        || line.is_compact_summary
        || line.is_visible_in_transcript_only
        || line.prompt_source.as_deref() == Some("system")
        || line
            .origin
            .as_ref()
            .and_then(|origin| origin.kind.as_deref())
            .is_some_and(|kind| kind != "human");
    by_text.or(is_marked.then_some("notice"))
}

/// Returns a block of a user's message as a part; one of unknown type keeps its content.
fn part(block: &ContentBlock<'_>) -> Part {
    let from_source =
        |get: fn(&ImageSource<'_>) -> Option<Arc<str>>| block.source.as_ref().and_then(get);
    let media_type = from_source(|source| source.media_type.as_deref().map(Into::into));
    let data = from_source(|source| source.data.as_deref().map(Into::into));
    let url = from_source(|source| source.url.as_deref().map(Into::into));
    match block.kind.as_deref() {
        Some("text") => Part::text(SharedText::text(&block.text)),
        Some("image") => PartBody::Image(ImagePart { media_type, data, url }).into(),
        Some("document") => {
            let name = block.title.as_deref().map(Into::into);
            PartBody::File(FilePart { name, media_type, data, url }).into()
        }
        other => {
            let mut extra = Fields::default();
            if let Some(content) = block.content {
                extra.insert("content", content.into());
            }
            Part { body: PartBody::Other(other.unwrap_or("unknown").into()), extra }
        }
    }
}

/// Returns the result of a tool call. Its id follows from the call's, which has one result.
pub(super) fn tool_result(line: &Line<'_>, call: &str, block: &ContentBlock<'_>) -> Block {
    let mut result = Block::new(
        ["result:", call].concat(),
        ToolResultBlock {
            tool_use_id: call_id(call),
            output: block.content.map(Json::from),
            is_error: block.is_error.unwrap_or(false),
            duration_ms: None,
        },
    );
    if let Some(structured) = line.tool_use_result {
        result.metadata.insert("structured", structured.into());
    }
    result
}
