//! Assistant lines: the model's text, thoughts and tool calls.

use std::sync::Arc;

use serde_json::value::RawValue;
use threadfold_core::{
    AssistantTextBlock, Block, BlockId, BlockStatus, ErrorBlock, Json, Text, ThinkingBlock,
    ToolUseBlock, UnknownBlock,
};

use super::emitter::Emitter;
use super::live::abandon_previews;
use super::memory::{LineEntry, call_id, hash, key};
use super::subagents::{is_agent_tool, remember_call};
use super::usage::emit_usage;
use super::user::tool_result;
use super::wire::{Content, ContentBlock, Line, SharedText};

/// Converts an assistant line. Returns the id of its first block.
pub(super) fn convert_assistant(
    emitter: &mut Emitter<'_>,
    line: &Line<'_>,
    text: &str,
) -> Option<BlockId> {
    let message = line.message.as_ref()?;
    let uuid = line.uuid.as_deref().unwrap_or("");
    let id: Arc<str> = message.id.as_deref().unwrap_or(uuid).into();
    // Plain text counts as one block; only its number matters here.
    let placeholder = [ContentBlock::default()];
    let blocks = match &message.content {
        Content::Blocks(blocks) => blocks.as_slice(),
        Content::Text(_) => &placeholder,
        Content::None => &[],
    };
    let start = first_index(emitter, line, &id, blocks.len() as u64, text);
    abandon_other_messages(emitter, &id);
    let mut first = None;
    for (block, index) in blocks.iter().zip(start..) {
        let converted = match &message.content {
            Content::Text(text) => {
                Some(text_block(line, indexed_id(&id, index), text.as_ref().into()))
            }
            _ => convert_block(emitter, line, &id, index, block, text),
        };
        if let Some(mut converted) = converted {
            converted.message_id = Some(id.clone().into());
            if line.aborted {
                converted.interrupted = true;
            }
            first.get_or_insert_with(|| converted.id.clone());
            if emitter.is_stream {
                // The block is confirmed, so it must not be abandoned later.
                emitter.memory.stream.previews.retain(|preview| preview.block != converted.id);
            }
            emitter.emit_block(converted);
        }
    }
    if let Some(tokens) = message.usage {
        emit_usage(emitter, &id, message.model.as_deref(), tokens);
    }
    first
}

/// Returns the id of a block by its index in its message.
///
/// Text and thoughts have no id of their own; message and index are the same in stream and file.
pub(super) fn indexed_id(message: &str, index: u64) -> BlockId {
    format!("{message}:{index}").into()
}

/// Returns the index of the line's first block within its message.
fn first_index(
    emitter: &mut Emitter<'_>,
    line: &Line<'_>,
    message: &Arc<str>,
    count: u64,
    text: &str,
) -> u64 {
    // A line can be repeated, and must not advance the count twice. Old streams gave one `uuid`
    // to several lines, so a stream's line counts as repeated only if its text is equal.
    let is_stream = emitter.is_stream;
    let name = if is_stream { Some(hash(text)) } else { line.uuid.as_deref().map(key) };
    let side = emitter.side();
    if let Some(seen) = name.and_then(|name| side.lines.get(&name)) {
        return seen.index;
    }
    let next = side.counts.entry(message.clone()).or_default();
    let index = line.api_block_index.unwrap_or(*next);
    *next = index + count;
    if let Some(name) = name.filter(|_| is_stream) {
        side.lines.insert(name, LineEntry { block: None, turn: 0, index });
    }
    index
}

/// Abandons the previews of other messages: a confirmed message proves that they were dropped.
fn abandon_other_messages(emitter: &mut Emitter<'_>, message: &str) {
    if emitter.is_stream {
        let conversation = emitter.conversation.clone();
        abandon_previews(emitter, |preview| {
            preview.conversation == conversation && *preview.message != *message
        });
    }
}

/// Returns a text as a block: an error, if the harness wrote it in place of an answer.
fn text_block(line: &Line<'_>, id: BlockId, text: Text) -> Block {
    let model = line.message.as_ref().and_then(|message| message.model.as_deref());
    // 2.1.197 sets the mark in its file only; in its stream `error` is all there is.
    let is_error =
        line.is_api_error_message || (line.error.is_some() && model == Some("<synthetic>"));
    if is_error {
        return Block::new(id, ErrorBlock { message: text, code: line.error.map(Json::from) });
    }
    Block::new(id, AssistantTextBlock { content: text, model: model.map(Into::into) })
}

/// Converts one block of a message of the model.
fn convert_block(
    emitter: &mut Emitter<'_>,
    line: &Line<'_>,
    message: &str,
    index: u64,
    block: &ContentBlock<'_>,
    text: &str,
) -> Option<Block> {
    let id = indexed_id(message, index);
    match block.kind.as_deref()? {
        "text" => Some(text_block(line, id, SharedText::text(&block.text))),
        "thinking" => Some(Block::new(
            id,
            ThinkingBlock {
                content: SharedText::text(&block.thinking),
                signature: block.signature.as_ref().map(|it| it.0.clone()),
                redacted: false,
            },
        )),
        "redacted_thinking" => {
            let mut thought = Block::new(
                id,
                ThinkingBlock { content: "".into(), signature: None, redacted: true },
            );
            if let Some(data) = block.data.as_deref() {
                thought.metadata.insert("data", Json::string(data));
            }
            Some(thought)
        }
        "tool_use" | "server_tool_use" | "mcp_tool_use" => {
            let call = block.id.as_deref()?;
            let name = block.name.as_deref().unwrap_or("");
            if is_agent_tool(name) {
                remember_call(emitter, call, block.input);
            }
            let mut converted = Block::new(call, tool_use(call, name, block.input));
            converted.status = BlockStatus::Pending;
            Some(converted)
        }
        kind if kind.ends_with("tool_result") => {
            let call = block.tool_use_id.as_deref()?;
            Some(tool_result(line, call, block))
        }
        _ => Some(Block::new(id, UnknownBlock { record: raw_block(text, line, block) })),
    }
}

/// Returns a tool call; without input while the call is still streaming.
pub(super) fn tool_use(call: &str, name: &str, input: Option<&RawValue>) -> ToolUseBlock {
    ToolUseBlock {
        tool_name: name.into(),
        tool_use_id: call_id(call),
        input: input.map(Json::from),
        input_text: None,
        display_name: None,
        description: None,
    }
}

/// Returns the JSON of a block of unknown type, exactly as the line has it.
fn raw_block(text: &str, line: &Line<'_>, block: &ContentBlock<'_>) -> Json {
    #[derive(serde::Deserialize)]
    struct Raw<'a> {
        #[serde(borrow)]
        message: RawMessage<'a>,
    }
    #[derive(serde::Deserialize)]
    struct RawMessage<'a> {
        #[serde(borrow)]
        content: Vec<&'a RawValue>,
    }
    let place = match line.message.as_ref().map(|message| &message.content) {
        Some(Content::Blocks(blocks)) => blocks.iter().position(|it| std::ptr::eq(it, block)),
        _ => None,
    };
    serde_json::from_str::<Raw<'_>>(text)
        .ok()
        .and_then(|raw| raw.message.content.get(place?).map(|raw| Json::from(*raw)))
        .unwrap_or_else(|| Json::string(text))
}
