//! User lines: prompts, tool results, and messages that the harness sends as the user.

use std::sync::Arc;

use threadfold_core::{
    Block, BlockId, Content as ToModel, Fields, FilePart, ImagePart, Json, Part, PartBody,
    SystemBlock, ToolResultBlock, UserMessageBlock,
};

use super::emitter::Emitter;
use super::files::emit_changed;
use super::harness_tags::{self, Author};
use super::memory::{call_id, key};
use super::permission::resolve_by_result;
use super::repeated_history::{
    Novelty, compare_result, emit_reworded, is_new_record, repeat, reworded_call,
};
use super::subagents::convert_agent_result;
use super::wire::{Content, ContentBlock, ImageSource, Line, SharedText, named};

/// Converts a user line. Returns the id of its first block.
pub(super) fn convert_user(emitter: &mut Emitter<'_>, line: &Line<'_>) -> Option<BlockId> {
    let message = line.message.as_ref()?;
    let mut first = None;
    let mut parts = Vec::new();
    match &message.content {
        Content::None => {}
        Content::Text(text) => parts.push(Part::text(text.as_ref())),
        Content::Blocks(blocks) => {
            for (place, block) in blocks.iter().enumerate() {
                if block.kind.as_deref() == Some("tool_result") {
                    let result = convert_result(emitter, line, place, block);
                    first.get_or_insert(result);
                } else {
                    parts.push(part(block));
                }
            }
        }
    }
    emit_changed(emitter, line);
    if parts.is_empty() {
        return first;
    }
    let id = named(&line.uuid).map_or_else(|| emitter.line_name(), str::to_owned);
    for block in message_blocks(line, &id, parts) {
        first.get_or_insert_with(|| block.id.clone());
        emitter.emit_block(block);
    }
    first
}

/// Returns the blocks of a prompt that stands beside the messages: text, or a list of blocks.
pub(super) fn prompt_blocks(line: &Line<'_>, id: &str, content: &Content<'_>) -> Vec<Block> {
    let parts: Vec<Part> = match content {
        Content::None => Vec::new(),
        Content::Text(text) => vec![Part::text(text.as_ref())],
        Content::Blocks(blocks) => blocks.iter().map(part).collect(),
    };
    if parts.is_empty() { Vec::new() } else { message_blocks(line, id, parts) }
}

/// Converts the result of a call. Returns the id of its block.
fn convert_result(
    emitter: &mut Emitter<'_>,
    line: &Line<'_>,
    place: usize,
    block: &ContentBlock<'_>,
) -> BlockId {
    let call = result_call(emitter, line, place, block);
    if emitter.is_stream {
        resolve_by_result(emitter, &call, block.is_error.unwrap_or(false));
    } else if is_new_record(emitter, line) {
        let reworded = reworded_call(emitter, &call);
        match compare_result(emitter, &call, block) {
            Novelty::New => {}
            Novelty::Repeated(known) if reworded.is_none() => {
                repeat(emitter, known.clone());
                return known;
            }
            Novelty::Repeated(_) | Novelty::Reworded => {
                let told_as = reworded.as_deref().unwrap_or(&call);
                let mut result = tool_result(line, told_as, block);
                let first = BlockId::from(["result:", &*call].concat());
                if result.id == first {
                    let record =
                        named(&line.uuid).map_or_else(|| emitter.line_name(), str::to_owned);
                    result.id = format!("{first}:{record}").into();
                }
                let id = result.id.clone();
                emit_reworded(emitter, result, first);
                return id;
            }
        }
    }
    if convert_agent_result(emitter, line, &call, block) {
        return BlockId::from(&*call);
    }
    // A compaction writes a result again under the same `uuid`, without its structured form.
    if !is_new_record(emitter, line)
        && !emitter.is_stream
        && matches!(compare_result(emitter, &call, block), Novelty::Repeated(_))
    {
        return ["result:", &*call].concat().into();
    }
    let result = tool_result(line, &call, block);
    let id = result.id.clone();
    emitter.emit_block(result);
    id
}

/// Returns the call of a result.
///
/// A result without one belongs to the only call without an id on the line above it, if there is
/// one; otherwise it goes by its own place.
fn result_call(
    emitter: &Emitter<'_>,
    line: &Line<'_>,
    place: usize,
    block: &ContentBlock<'_>,
) -> Arc<str> {
    if let Some(call) = named(&block.tool_use_id) {
        return call.into();
    }
    let above = named(&line.parent_uuid).and_then(|it| emitter.memory.nameless.get(&key(it)));
    match above.filter(|call| !call.is_empty()) {
        Some(call) => call.clone(),
        None => {
            let record = named(&line.uuid).map_or_else(|| emitter.line_name(), str::to_owned);
            format!("{record}:{place}").into()
        }
    }
}

/// Returns the blocks of a message: a person's words, and those that the harness added to them or
/// sent in the person's place.
fn message_blocks(line: &Line<'_>, id: &str, parts: Vec<Part>) -> Vec<Block> {
    if let Some(text) = only_text(&parts)
        && let Some(subtype) = whole_subtype(line, &text)
    {
        return vec![system_block(id.into(), subtype, &text)];
    }
    if is_marked(line) {
        return vec![user_block(id, parts)];
    }
    let mut own = Vec::new();
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for part in parts {
        let PartBody::Text(text) = &part.body else {
            own.push(part);
            continue;
        };
        let text = text.text.to_str();
        let pieces = harness_tags::split(&text);
        // The usual case: all of it is the person's, and stays as it is.
        if matches!(*pieces, [(Author::Person, _)] | []) {
            own.push(part.clone());
            continue;
        }
        for (author, words) in pieces {
            match author {
                Author::Person => own.push(Part::text(words)),
                Author::Harness if own.is_empty() => before.push(words.to_owned()),
                Author::Harness => after.push(words.to_owned()),
            }
        }
    }
    let has_own = !own.is_empty();
    let mut number = 0;
    let mut notice = |words: String| {
        let name = if has_own || number > 0 { format!("{id}:{number}") } else { id.to_owned() };
        number += 1;
        system_block(name.into(), "notice", &words)
    };
    let mut blocks: Vec<Block> = before.into_iter().map(&mut notice).collect();
    let after: Vec<Block> = after.into_iter().map(notice).collect();
    if has_own {
        blocks.push(user_block(id, own));
    }
    blocks.extend(after);
    blocks
}

fn system_block(id: BlockId, subtype: &str, words: &str) -> Block {
    Block::new(id, SystemBlock { subtype: subtype.into(), message: Some(words.into()) })
}

fn user_block(id: &str, parts: Vec<Part>) -> Block {
    let content = match only_text(&parts) {
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

/// Returns whether the harness wrote all words of a user line.
pub(super) fn is_by_harness(line: &Line<'_>) -> bool {
    let texts: Vec<&str> = match line.message.as_ref().map(|message| &message.content) {
        Some(Content::Text(text)) => vec![text],
        Some(Content::Blocks(blocks)) => {
            if !is_marked(line) && blocks.iter().any(|it| it.kind.as_deref() != Some("text")) {
                return false;
            }
            blocks.iter().filter_map(|it| it.text.as_deref()).collect()
        }
        _ => return false,
    };
    let is_harness = |text: &&str| {
        whole_subtype(line, text).is_some()
            || harness_tags::split(text).iter().all(|(author, _)| *author == Author::Harness)
    };
    !texts.is_empty() && texts.iter().all(is_harness)
}

/// Returns the subtype of a text that the harness wrote as a whole; nothing for a person's.
///
/// The text decides before the marks do, because stream and file mark such lines differently and
/// must give the same block.
fn whole_subtype(line: &Line<'_>, text: &str) -> Option<&'static str> {
    let openings = [
        ("[Request interrupted", "interrupted"),
        ("<task-notification>", "task_notification"),
        ("<agent-notification>", "task_notification"),
        ("[SYSTEM NOTIFICATION", "task_notification"),
        ("<command-", "command"),
        ("<local-command-", "command"),
        ("<bash-", "command"),
        ("This session is being continued from a previous conversation", "summary"),
    ];
    let by_text = openings.iter().find(|(opening, _)| text.starts_with(opening)).map(|(_, it)| *it);
    by_text.or(is_marked(line).then_some("notice"))
}

/// Returns whether the line is marked as the harness's.
fn is_marked(line: &Line<'_>) -> bool {
    let kind = line.origin.as_ref().and_then(|origin| origin.kind.as_deref());
    line.is_synthetic
        || line.is_meta
        || line.is_compact_summary
        || line.is_visible_in_transcript_only
        || line.prompt_source.as_deref() == Some("system")
        || kind.is_some_and(|kind| kind != "human")
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
