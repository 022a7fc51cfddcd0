//! Assistant lines: the model's text, thoughts and tool calls.

use std::cell::OnceCell;
use std::sync::Arc;

use serde_json::value::RawValue;
use threadfold_core::{
    AssistantTextBlock, Block, BlockId, BlockStatus, ErrorBlock, Json, Text, ThinkingBlock,
    ToolUseBlock, UnknownBlock,
};

use super::commands::streamed_output;
use super::emitter::Emitter;
use super::live::abandon_previews;
use super::memory::{LineEntry, call_id, key};
use super::repeated_history::{
    Novelty, compare_named, compare_result, compare_text, emit_reworded, end_repetition,
    is_known_text, is_latest_message, is_new_record, remember_latest_message,
    remember_telling_of_call, repeat, repeats_message, text_name,
};
use super::subagents::{is_agent_tool, is_message_tool, remember_call, remember_message};
use super::usage::{MessageUsage, emit_usage};
use super::user::tool_result;
use super::wire::{Content, ContentBlock, Line, SharedText, named};

/// Converts an assistant line. Returns the id of its first block.
pub(super) fn convert_assistant(
    emitter: &mut Emitter<'_>,
    line: &Line<'_>,
    text: &str,
) -> Option<BlockId> {
    let message = line.message.as_ref()?;
    if let Some(output) = streamed_output(emitter, line) {
        let id = output.id.clone();
        emitter.emit_block(output);
        return Some(id);
    }
    let id = message_id(emitter, line);
    // Plain text counts as one block; only its number matters here.
    let placeholder = [ContentBlock::default()];
    let blocks = match &message.content {
        Content::Blocks(blocks) => blocks.as_slice(),
        Content::Text(_) => &placeholder,
        Content::None => &[],
    };
    let is_new = is_new_record(emitter, line);
    let raw = OnceCell::new();
    let is_again = is_new && repeats_message(emitter, line, &id) && {
        // A repeated prompt may also stand within a message. If no other message was read since, only
        // a block that is already known shows that the message itself is a repetition.
        let mut pieces = blocks.iter().enumerate().map(|(place, block)| Piece {
            line,
            message: &id,
            index: 0,
            block,
            place,
            text,
            raw: &raw,
        });
        !is_latest_message(emitter, &id) || pieces.any(|piece| piece.is_known(emitter))
    };
    if !emitter.is_stream {
        remember_latest_message(emitter, &id);
    }
    let count = blocks.len() as u64;
    let start = if is_again { 0 } else { first_index(emitter, line, &id, count, text) };
    abandon_other_messages(emitter, &id);
    let mut first = None;
    for ((place, block), index) in blocks.iter().enumerate().zip(start..) {
        let piece = Piece { line, message: &id, index, block, place, text, raw: &raw };
        let novelty = if is_new { piece.compare(emitter, is_again) } else { Novelty::New };
        // Some versions write the last lines again when they compact: these keep their place.
        let was_repeated = emitter.is_repeated;
        emitter.is_repeated |= !is_new
            && !emitter.is_stream
            && matches!(piece.compare(emitter, true), Novelty::Repeated(_));
        match novelty {
            Novelty::New => {
                let converted = piece.convert(emitter);
                first.get_or_insert_with(|| converted.id.clone());
                piece.emit(emitter, converted);
            }
            Novelty::Repeated(known) => {
                first.get_or_insert_with(|| known.clone());
                if let Some(call) = piece.call() {
                    remember_telling_of_call(emitter, call, None);
                }
                repeat(emitter, known);
            }
            Novelty::Reworded => {
                let usual = piece.usual_id();
                let mut converted = piece.reworded();
                converted.message_id = Some(id.clone().into());
                first.get_or_insert_with(|| converted.id.clone());
                if let Some(call) = piece.call() {
                    remember_telling_of_call(emitter, call, Some(&converted.id));
                }
                emit_reworded(emitter, converted, usual);
            }
        }
        emitter.is_repeated = was_repeated;
    }
    // A line of the stream has the counts of the message's start, which end before its end's.
    let is_ended =
        emitter.is_stream && emitter.memory.stream.ended.get(&emitter.conversation) == Some(&id);
    if let Some(tokens) = message.usage.filter(|_| !is_ended) {
        let model = message.model.as_deref();
        let stop_reason = message.stop_reason.as_deref();
        emit_usage(emitter, &MessageUsage { message_id: &id, model, stop_reason, tokens });
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
    let name = if is_stream { Some(key(text)) } else { line.uuid.as_deref().map(key) };
    let side = emitter.side();
    if let Some(seen) = name.and_then(|name| side.lines.get(&name)) {
        return seen.index;
    }
    let next = side.counts.entry(message.clone()).or_default();
    let index = line.api_block_index.unwrap_or(*next);
    *next = index + count;
    if let Some(name) = name.filter(|_| is_stream) {
        side.lines.insert(name, LineEntry::of_stream(None, index));
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

/// Returns the id of the line's message: its own, or else that of its record.
fn message_id(emitter: &Emitter<'_>, line: &Line<'_>) -> Arc<str> {
    let own = line.message.as_ref().and_then(|message| named(&message.id));
    match own.or(named(&line.uuid)) {
        Some(name) => name.into(),
        None => emitter.line_name().into(),
    }
}

/// One block of a message of the model, with what is needed to convert it.
struct Piece<'a> {
    line: &'a Line<'a>,
    message: &'a str,
    index: u64,
    block: &'a ContentBlock<'a>,
    /// The place of the block on its line.
    place: usize,
    text: &'a str,
    /// The blocks of the line as they came: parsed once, because a line may have many.
    raw: &'a OnceCell<Vec<&'a RawValue>>,
}

impl Piece<'_> {
    fn id(&self) -> BlockId {
        indexed_id(self.message, self.index)
    }

    /// Returns the id that the block usually has.
    fn usual_id(&self) -> BlockId {
        match (named(&self.block.id), named(&self.block.tool_use_id)) {
            (Some(call), _) => call.into(),
            (_, Some(call)) => ["result:", call].concat().into(),
            _ => self.id(),
        }
    }

    fn kind(&self) -> &str {
        match self.line.message.as_ref().map(|message| &message.content) {
            Some(Content::Text(_)) => "text",
            _ => self.block.kind.as_deref().unwrap_or(""),
        }
    }

    fn words(&self) -> Text {
        match self.line.message.as_ref().map(|message| &message.content) {
            Some(Content::Text(text)) => text.as_ref().into(),
            _ => SharedText::text(&self.block.text),
        }
    }

    /// Compares the block of a new record with what the file contained before.
    fn compare(&self, emitter: &mut Emitter<'_>, is_again: bool) -> Novelty {
        match (self.kind(), named(&self.block.id), named(&self.block.tool_use_id)) {
            (kind, Some(call), _) if is_call(kind) => {
                let name = self.block.name.as_deref().unwrap_or("");
                let input = self.block.input.map_or("", RawValue::get);
                compare_named(
                    emitter,
                    "call",
                    call,
                    call.into(),
                    &[name.as_bytes(), input.as_bytes()],
                )
            }
            (kind, _, Some(call)) if kind.ends_with("tool_result") => {
                compare_result(emitter, call, self.block)
            }
            _ => {
                let name = self.text_name(emitter);
                let known = compare_text(emitter, name, is_again, self.index);
                match known {
                    Some(index) => Novelty::Repeated(indexed_id(self.message, index)),
                    None if is_again => Novelty::Reworded,
                    None => Novelty::New,
                }
            }
        }
    }

    /// Returns the id of the call, if it is one.
    fn call(&self) -> Option<&str> {
        named(&self.block.id).filter(|_| is_call(self.kind()))
    }

    /// Returns whether a text or thought was read before in this message.
    fn is_known(&self, emitter: &Emitter<'_>) -> bool {
        let is_named = named(&self.block.id).is_some() || named(&self.block.tool_use_id).is_some();
        !is_named && is_known_text(emitter, self.text_name(emitter))
    }

    /// Returns the hash of a text or thought within its message.
    fn text_name(&self, emitter: &Emitter<'_>) -> u128 {
        let (kind, block) = (self.kind(), self.block);
        let signature = block.signature.as_deref().unwrap_or("");
        let rest = match kind {
            "text" | "thinking" => String::new(),
            _ => self.raw_block().to_string(),
        };
        let thought = block.thinking.as_deref().unwrap_or("");
        let words = self.words();
        let words = words.to_str();
        let parts = [kind, &*words, thought, signature, &*rest].map(str::as_bytes);
        text_name(emitter, self.message, &parts)
    }

    /// Converts the block.
    fn convert(&self, emitter: &mut Emitter<'_>) -> Block {
        if let (kind, Some(call)) = (self.kind(), named(&self.block.id))
            && is_call(kind)
        {
            let name = self.block.name.as_deref().unwrap_or("");
            if is_agent_tool(name) {
                remember_call(emitter, call, self.block.input);
            } else if is_message_tool(name) {
                remember_message(emitter, call, self.block.input);
            }
        }
        let mut converted = self.block_as(self.id(), None);
        converted.message_id = Some(self.message.into());
        converted
    }

    /// Returns the block under a name of its own, because its usual one is taken.
    fn reworded(&self) -> Block {
        let record = named(&self.line.uuid).unwrap_or(self.message);
        let id = match (named(&self.block.id), named(&self.block.tool_use_id)) {
            (Some(call), _) => format!("{call}:{record}"),
            (_, Some(call)) => format!("result:{call}:{record}"),
            _ => format!("{}:{record}:{}", self.message, self.index),
        };
        self.block_as(id.clone().into(), Some(id.into()))
    }

    /// Returns the block. `id` is that of a block without one; `taken` overrides any other.
    fn block_as(&self, id: BlockId, taken: Option<BlockId>) -> Block {
        let (line, block) = (self.line, self.block);
        let own = |usual: BlockId| taken.clone().unwrap_or(usual);
        match self.kind() {
            "text" => text_block(line, id, self.words()),
            "thinking" => Block::new(
                id,
                ThinkingBlock {
                    content: SharedText::text(&block.thinking),
                    signature: block.signature.as_ref().map(|it| it.0.clone()),
                    redacted: false,
                },
            ),
            "redacted_thinking" => {
                let mut thought = Block::new(
                    id,
                    ThinkingBlock { content: "".into(), signature: None, redacted: true },
                );
                if let Some(data) = block.data.as_deref() {
                    thought.metadata.insert("data", Json::string(data));
                }
                thought
            }
            kind if is_call(kind) => {
                // A call without an id goes by its place, as texts do.
                let call = named(&block.id).unwrap_or(id.as_str());
                let name = block.name.as_deref().unwrap_or("");
                let mut converted = Block::new(own(call.into()), tool_use(call, name, block.input));
                converted.status = BlockStatus::Pending;
                converted
            }
            kind if kind.ends_with("tool_result") => {
                let call = named(&block.tool_use_id).unwrap_or(id.as_str());
                let mut result = tool_result(line, call, block);
                result.id = own(result.id);
                result
            }
            _ => Block::new(id, UnknownBlock { record: self.raw_block() }),
        }
    }

    /// Returns the block as it came; the line if the block cannot be found on it.
    fn raw_block(&self) -> Json {
        let raw = self.raw.get_or_init(|| raw_blocks(self.text));
        raw.get(self.place).map_or_else(|| Json::string(self.text), |raw| Json::from(*raw))
    }

    /// Emits the block, which was not read before.
    fn emit(&self, emitter: &mut Emitter<'_>, mut converted: Block) {
        if self.line.aborted {
            converted.interrupted = true;
        }
        if emitter.is_stream {
            // The block is confirmed, so it must not be abandoned later.
            emitter.memory.stream.previews.retain(|preview| preview.block != converted.id);
        } else {
            end_repetition(emitter);
            self.remember_nameless(emitter, &converted.id);
        }
        emitter.emit_block(converted);
    }

    /// Remembers a call without an id, which its result may find by the line above it.
    fn remember_nameless(&self, emitter: &mut Emitter<'_>, id: &BlockId) {
        if !is_call(self.kind()) || named(&self.block.id).is_some() {
            return;
        }
        let Some(line) = named(&self.line.uuid).map(key) else { return };
        // Of two calls on one line, it is unknown which one a result belongs to.
        let call = match emitter.memory.nameless.contains_key(&line) {
            true => "".into(),
            false => id.as_str().into(),
        };
        emitter.memory.nameless.insert(line, call);
    }
}

/// Returns whether a block of this kind is a call.
fn is_call(kind: &str) -> bool {
    matches!(kind, "tool_use" | "server_tool_use" | "mcp_tool_use")
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

/// Returns the content blocks of a line as they came.
fn raw_blocks(text: &str) -> Vec<&RawValue> {
    #[derive(serde::Deserialize)]
    struct RawLine<'a> {
        #[serde(borrow)]
        message: RawMessage<'a>,
    }
    #[derive(serde::Deserialize)]
    struct RawMessage<'a> {
        #[serde(borrow)]
        content: Vec<&'a RawValue>,
    }
    serde_json::from_str::<RawLine<'_>>(text).map(|raw| raw.message.content).unwrap_or_default()
}
