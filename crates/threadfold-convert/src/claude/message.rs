//! Messages: the model's words, thoughts and calls, and what is said to it.

use std::sync::Arc;

use serde_json::value::RawValue;
use threadfold_core::{
    AssistantText, Block, BlockId, BlockStatus, Content as ToModel, Error, Fields, FilePart,
    ImagePart, Json, Part, PartBody, System, Text, Thinking, ToolResult, ToolUse, Unknown,
    UserMessage,
};

use super::emitter::Emitter;
use super::memory::{LineEntry, call_id, hashed, key};
use super::permission::answered_by_result;
use super::subagents::{answered, asked, is_agent_tool};
use super::usage::usage;
use super::wire::{Content, ContentBlock, Line, SharedText};

/// Returns the name of a block that is a piece of a message.
pub(super) fn piece_id(message: &str, index: u64) -> BlockId {
    format!("{message}:{index}").into()
}

/// Converts a line of the model's; returns its first block.
pub(super) fn assistant(emitter: &mut Emitter<'_>, line: &Line<'_>, text: &str) -> Option<BlockId> {
    let message = line.message.as_ref()?;
    let uuid = line.uuid.as_deref().unwrap_or("");
    let id: Arc<str> = message.id.as_deref().unwrap_or(uuid).into();
    let whole = [ContentBlock { text: None, ..ContentBlock::default() }];
    let blocks = match &message.content {
        Content::Blocks(blocks) => blocks.as_slice(),
        Content::Text(_) => &whole,
        Content::None => &[],
    };
    let start = first_index(emitter, line, &id, blocks.len() as u64, text);
    confirm(emitter, &id);
    let mut first = None;
    for (block, index) in blocks.iter().zip(start..) {
        let made = match &message.content {
            Content::Text(words) => {
                Some(words_of(line, piece_id(&id, index), words.as_ref().into()))
            }
            _ => piece(emitter, line, &id, index, block, text),
        };
        if let Some(mut made) = made {
            made.message_id = Some(id.clone().into());
            if line.aborted {
                made.interrupted = true;
            }
            first.get_or_insert_with(|| made.id.clone());
            if emitter.is_stream {
                emitter.memory.stream.previews.retain(|preview| preview.block != made.id);
            }
            emitter.emit_block(made);
        }
    }
    if let Some(counted) = message.usage {
        usage(emitter, &id, message.model.as_deref(), counted);
    }
    first
}

/// Returns the place of the line's first block in its message.
fn first_index(
    emitter: &mut Emitter<'_>,
    line: &Line<'_>,
    message: &Arc<str>,
    count: u64,
    text: &str,
) -> u64 {
    // A line may be said twice. In a stream of old several lines had one name, so there only the
    // very same line counts as the same.
    let is_stream = emitter.is_stream;
    let name = match is_stream {
        true => Some(hashed(text)),
        false => line.uuid.as_deref().map(key),
    };
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

/// A message that goes on, or another that comes, ends what the stream had shown of others.
fn confirm(emitter: &mut Emitter<'_>, message: &str) {
    if emitter.is_stream {
        let conversation = emitter.conversation.clone();
        super::live::abandon(emitter, |preview| {
            preview.conversation == conversation && *preview.message != *message
        });
    }
}

fn words_of(line: &Line<'_>, id: BlockId, words: Text) -> Block {
    let model = line.message.as_ref().and_then(|message| message.model.as_deref());
    // 2.1.197 marks such a line in its file, and in its stream only by what went wrong.
    let failed =
        line.is_api_error_message || (line.error.is_some() && model == Some("<synthetic>"));
    if failed {
        return Block::new(id, Error { message: words, code: line.error.map(Json::from) });
    }
    Block::new(id, AssistantText { content: words, model: model.map(Into::into) })
}

/// Converts one block of a message of the model's.
fn piece(
    emitter: &mut Emitter<'_>,
    line: &Line<'_>,
    message: &str,
    index: u64,
    block: &ContentBlock<'_>,
    text: &str,
) -> Option<Block> {
    let id = piece_id(message, index);
    match block.kind.as_deref()? {
        "text" => Some(words_of(line, id, SharedText::text(&block.text))),
        "thinking" => Some(Block::new(
            id,
            Thinking {
                content: SharedText::text(&block.thinking),
                signature: block.signature.as_ref().map(|it| it.0.clone()),
                redacted: false,
            },
        )),
        "redacted_thinking" => {
            let mut thought =
                Block::new(id, Thinking { content: "".into(), signature: None, redacted: true });
            if let Some(data) = block.data.as_deref() {
                thought.metadata.insert("data", Json::string(data));
            }
            Some(thought)
        }
        "tool_use" | "server_tool_use" | "mcp_tool_use" => {
            let call = block.id.as_deref()?;
            let name = block.name.as_deref().unwrap_or("");
            if is_agent_tool(name) {
                asked(emitter, call, block.input);
            }
            let mut made = Block::new(call, tool_use(call, name, block.input));
            made.status = BlockStatus::Pending;
            Some(made)
        }
        kind if kind.ends_with("tool_result") => {
            let call = block.tool_use_id.as_deref()?;
            Some(result(line, call, block))
        }
        _ => Some(Block::new(id, Unknown { record: raw_block(text, line, block) })),
    }
}

pub(super) fn tool_use(call: &str, name: &str, input: Option<&RawValue>) -> ToolUse {
    ToolUse {
        tool_name: name.into(),
        tool_use_id: call_id(call),
        input: input.map(Json::from),
        input_text: None,
        display_name: None,
        description: None,
    }
}

/// Returns the block as it stands in the line.
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

/// Converts a line that is said to the model; returns its first block.
pub(super) fn user(emitter: &mut Emitter<'_>, line: &Line<'_>) -> Option<BlockId> {
    let message = line.message.as_ref()?;
    let uuid = line.uuid.as_deref();
    let mut first = None;
    let mut parts = Vec::new();
    match &message.content {
        Content::None => {}
        Content::Text(words) => parts.push(Part::text(words.as_ref())),
        Content::Blocks(blocks) => {
            for block in blocks {
                match (block.kind.as_deref(), block.tool_use_id.as_deref()) {
                    (Some("tool_result"), Some(call)) => {
                        if emitter.is_stream {
                            answered_by_result(emitter, call, block.is_error.unwrap_or(false));
                        }
                        let made = match answered(emitter, line, call, block) {
                            true => None,
                            false => Some(result(line, call, block)),
                        };
                        if let Some(made) = made {
                            first.get_or_insert_with(|| made.id.clone());
                            emitter.emit_block(made);
                        } else {
                            first.get_or_insert_with(|| BlockId::from(call));
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
    let made = words_to_model(line, id, parts);
    first.get_or_insert_with(|| made.id.clone());
    emitter.emit_block(made);
    first
}

/// Returns what a person said, or the word of the harness in a person's place.
fn words_to_model(line: &Line<'_>, id: BlockId, parts: Vec<Part>) -> Block {
    let text = only_text(&parts);
    if let Some(subtype) = text.as_deref().and_then(|text| harness_word(line, text)) {
        let message = text.as_deref().map(Into::into);
        return Block::new(id, System { subtype: subtype.into(), message });
    }
    let content = match text {
        Some(text) => ToModel::from(text.as_str()),
        None => ToModel::Parts(parts),
    };
    Block::new(id, UserMessage { content })
}

/// Returns the text if there is nothing else.
fn only_text(parts: &[Part]) -> Option<String> {
    match parts {
        [Part { body: PartBody::Text(only), .. }] => Some(only.text.to_string()),
        _ => None,
    }
}

/// Returns what kind of word this is, if it is the harness's and not a person's.
///
/// The kind follows from the text alone, for stream and file mark such lines differently.
pub(super) fn harness_word(line: &Line<'_>, text: &str) -> Option<&'static str> {
    let kinds = [
        ("[Request interrupted", "interrupted"),
        ("<task-notification>", "task_notification"),
        ("<command-", "command"),
        ("<local-command-", "command"),
        ("<bash-", "command"),
        ("<system-reminder>", "notice"),
        ("This session is being continued from a previous conversation", "summary"),
    ];
    let by_text = kinds.iter().find(|(start, _)| text.starts_with(start)).map(|(_, kind)| *kind);
    let by_mark = line.is_synthetic
        || line.is_meta
        || line.is_compact_summary
        || line.is_visible_in_transcript_only
        || line.prompt_source.as_deref() == Some("system")
        || line
            .origin
            .as_ref()
            .and_then(|origin| origin.kind.as_deref())
            .is_some_and(|kind| kind != "human");
    by_text.or(by_mark.then_some("notice"))
}

fn part(block: &ContentBlock<'_>) -> Part {
    let from_source = |get: fn(&super::wire::ImageSource<'_>) -> Option<Arc<str>>| {
        block.source.as_ref().and_then(get)
    };
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

fn result(line: &Line<'_>, call: &str, block: &ContentBlock<'_>) -> Block {
    let mut made = Block::new(
        ["result:", call].concat(),
        ToolResult {
            tool_use_id: call_id(call),
            output: block.content.map(Json::from),
            is_error: block.is_error.unwrap_or(false),
            duration_ms: None,
        },
    );
    if let Some(structured) = line.tool_use_result {
        made.metadata.insert("structured", structured.into());
    }
    made
}
