//! Messages and their parts: the same objects in the stream and in the store.

use std::sync::Arc;

use serde_json::value::RawValue;
use threadfold_core::{
    AssistantText, Block, BlockBody, BlockId, BlockStatus, Content, ContextChange, ContextChanged,
    ConversationId, Error, Fields, FilePart, ImagePart, Json, MetadataUpdate, Part as WordPart,
    PartBody, Payload, System, TextField, Thinking, ToolResult, ToolUse, Unknown, UserMessage,
};

use super::emitter::{Emitter, key, key_behind};
use super::memory::{Message, OpenText};
use super::tasks;
use super::time::iso;
use super::wire::{MessageInfo, Part, SessionInfo, Tokens, ToolState};

/// Hears of a session: where it belongs, and what it is called.
pub(super) fn session(emitter: &mut Emitter<'_>, info: &SessionInfo<'_>) {
    let Some(id) = info.id.as_deref() else { return };
    if let Some(parent) = info.parent_id.as_deref() {
        emitter.memory.parents.insert(id.into(), parent.into());
    }
    let Some(conversation) = emitter.conversation_of(id) else { return };
    if conversation.is_main() {
        let mut metadata = Fields::default();
        for (name, value) in
            [("title", &info.title), ("cwd", &info.directory), ("version", &info.version)]
        {
            if let Some(value) = value.as_deref() {
                metadata.insert(name, Json::string(value));
            }
        }
        if let Some(cost) = info.cost {
            metadata.insert("costUsd", Json::of(&cost));
        }
        emitter.emit(&conversation, Payload::MetadataUpdate(MetadataUpdate { metadata }));
    }
    revert(emitter, id, &conversation, info);
}

/// Hears that a session was taken back to a message, or that this was undone.
fn revert(
    emitter: &mut Emitter<'_>,
    id: &str,
    conversation: &ConversationId,
    info: &SessionInfo<'_>,
) {
    let to = info.revert.as_ref().and_then(|revert| revert.message_id.as_deref());
    let known = emitter.side().reverted.get(id).cloned();
    if known.as_deref() == to {
        return;
    }
    let order = emitter.side().order.get(conversation);
    let head = match to {
        Some(message) => {
            let first = (Arc::from(message), Arc::from(""), 0);
            // What is kept tells of its sessions first, and of them again when all is emitter.
            if order.is_none_or(|order| order.range(first.clone()..).next().is_none()) {
                return;
            }
            order.and_then(|order| order.range(..first).next_back())
        }
        None => order.and_then(|order| order.last_key_value()),
    };
    let head = head.map(|(_, block)| block.clone());
    match to {
        Some(message) => emitter.side().reverted.insert(id.into(), message.into()),
        None => emitter.side().reverted.remove(id),
    };
    emitter.emit(
        conversation,
        Payload::ContextChanged(ContextChanged {
            kind: ContextChange::Revert,
            head,
            summary: None,
        }),
    );
}

/// Hears of a message: who speaks, and what went wrong.
pub(super) fn message(emitter: &mut Emitter<'_>, info: &MessageInfo<'_>) {
    let (Some(id), Some(session)) = (info.id.as_deref(), info.session_id.as_deref()) else {
        return;
    };
    let Some(conversation) = emitter.conversation_of(session) else { return };
    let created = info.time.and_then(|time| time.created).and_then(iso);
    let model: Option<Arc<str>> = info.model_id.as_deref().map(Into::into);
    let known = Message {
        session: session.into(),
        is_user: info.role.as_deref() == Some("user"),
        model: model.clone(),
        created: created.clone(),
    };
    let is_user = known.is_user;
    emitter.memory.messages.insert(id.into(), known);
    if is_user {
        return;
    }
    if let Some(tokens) = info.tokens {
        usage(emitter, &conversation, id, model.as_deref(), tokens);
    }
    if let Some(error) = info.error {
        let mut block = error_block(id, error);
        block.timestamp = created;
        // It stands behind all parts of its message.
        emitter.emit_block(&conversation, key(id, "\u{10ffff}"), block);
    }
}

/// Says what a message used.
pub(super) fn usage(
    emitter: &mut Emitter<'_>,
    conversation: &ConversationId,
    message: &str,
    model: Option<&str>,
    tokens: &RawValue,
) {
    let mut used = Fields::default();
    used.insert("messageId", Json::string(message));
    if let Some(model) = model {
        used.insert("model", Json::string(model));
    }
    used.insert("tokens", counted(tokens));
    let mut metadata = Fields::default();
    metadata.insert("usage", Json::of(&used));
    emitter.emit(conversation, Payload::MetadataUpdate(MetadataUpdate { metadata }));
}

/// Returns the counts under the names that events have for them.
fn counted(tokens: &RawValue) -> Json {
    let Ok(Tokens { input, output, cache }) = serde_json::from_str(tokens.get()) else {
        return tokens.into();
    };
    let counts = [
        ("input_tokens", input),
        ("output_tokens", output),
        ("cache_read_input_tokens", cache.read),
        ("cache_creation_input_tokens", cache.write),
    ];
    let mut named = Fields::default();
    for (name, count) in counts {
        named.insert(name, Json::of(&(count as u64)));
    }
    Json::of(&named)
}

/// Returns what went wrong in `what`, a message or what else failed, as a block.
pub(super) fn error_block(what: &str, error: &RawValue) -> Block {
    let (message, code) = read_error(error);
    Block::new(format!("error:{what}"), Error { message: message.into(), code })
}

fn read_error(error: &RawValue) -> (String, Option<Json>) {
    #[derive(serde::Deserialize)]
    struct ErrorObject {
        name: Option<String>,
        data: Option<Data>,
    }
    #[derive(serde::Deserialize)]
    struct Data {
        message: Option<String>,
    }
    match serde_json::from_str::<ErrorObject>(error.get()) {
        Ok(ErrorObject { name, data }) => {
            let message = data.and_then(|data| data.message).or_else(|| name.clone());
            (message.unwrap_or_default(), name.as_deref().map(Json::string))
        }
        Err(_) => (error.get().to_owned(), None),
    }
}

/// Hears of a part of a message, as it is now. Says whether its type is known.
pub(super) fn part(emitter: &mut Emitter<'_>, part: &Part<'_>, raw: &RawValue) -> bool {
    let (Some(id), Some(message_id), Some(kind)) =
        (part.id.as_deref(), part.message_id.as_deref(), part.kind.as_deref())
    else {
        return false;
    };
    let message = emitter.memory.messages.get(message_id).cloned().unwrap_or_default();
    let session = part.session_id.as_deref().unwrap_or(&message.session).to_owned();
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
            let shown = Text { part, id, message_id, kind, conversation: &conversation };
            shown.hear(emitter, &message, timestamp.clone());
        }
        "tool" => tool(emitter, part, id, message_id, &conversation),
        "file" => {
            let content = Content::Parts(vec![file(part)]);
            show(emitter, UserMessage { content }.into());
        }
        "compaction" => {
            let body = System {
                subtype: "compaction".into(),
                message: Some("The context was compacted".into()),
            };
            show(emitter, body.into());
            let tail = part.tail_start_id.as_deref().and_then(|message| {
                let first = (Arc::from(message), Arc::from(""), 0);
                let order = emitter.side().order.get(&conversation)?;
                order.range(first..).next().map(|(_, block)| block.clone())
            });
            let head = Some(tail.unwrap_or_else(|| BlockId::from(id)));
            let kind = ContextChange::Compaction;
            let changed = ContextChanged { kind, head, summary: None };
            emitter.emit(&conversation, Payload::ContextChanged(changed));
        }
        "patch" => {
            let mut block = Block::new(id, System { subtype: "patch".into(), message: None });
            block.timestamp = timestamp.clone();
            if let Some(files) = part.files {
                block.metadata.insert("files", files.into());
            }
            emitter.emit_block(&conversation, place.clone(), block);
        }
        "step-start" => step(emitter, id, message_id, &conversation, timestamp.clone()),
        "step-finish" => {
            emitter.side().steps.remove(message_id);
        }
        "snapshot" | "agent" | "retry" => {}
        "subtask" => {
            let body = System { subtype: "subtask".into(), message: None };
            show(emitter, body.into());
        }
        _ => {
            show(emitter, Unknown { record: raw.into() }.into());
            return false;
        }
    }
    true
}

/// A step that begins while another of its message has not ended: that one failed, and what it
/// had begun to say is abandoned. Tools that it ran did run.
fn step(
    emitter: &mut Emitter<'_>,
    id: &str,
    message: &str,
    conversation: &ConversationId,
    timestamp: Option<Arc<str>>,
) {
    let before = emitter.side().steps.insert(message.into(), id.into());
    if let Some(before) = before.filter(|before| **before != *id) {
        emitter.abandon(|text| *text.message == *message);
        let words = "this attempt failed and was made again";
        let body = System { subtype: "attempt".into(), message: Some(words.into()) };
        let mut block = Block::new(&*before, body);
        block.timestamp = timestamp;
        emitter.emit_block(conversation, key(message, &before), block);
    }
}

/// A text or a thought, whole or still growing.
struct Text<'a> {
    part: &'a Part<'a>,
    id: &'a str,
    message_id: &'a str,
    kind: &'a str,
    conversation: &'a ConversationId,
}

impl Text<'_> {
    fn hear(&self, emitter: &mut Emitter<'_>, message: &Message, timestamp: Option<Arc<str>>) {
        let words = self.part.text.as_deref().unwrap_or("");
        let ended = message.is_user || self.part.time.is_some_and(|time| time.end.is_some());
        let id = BlockId::from(self.id);
        let place = key(self.message_id, self.id);
        if ended {
            emitter.side().open.remove(&id);
            let mut block = self.block(message, words);
            block.timestamp = timestamp;
            emitter.emit_block(self.conversation, place, block);
            return;
        }
        if !emitter.is_stream {
            // The store keeps what was begun and never ended as an empty text: it was abandoned.
            return;
        }
        match emitter.side().open.get_mut(&id) {
            // Older versions send the whole text with every delta.
            Some(open) if words.len() as u64 >= open.length => {
                let from = open.length as usize;
                open.length = words.len() as u64;
                if let Some(more) = words.get(from..).filter(|more| !more.is_empty()) {
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
                    length: words.len() as u64,
                };
                emitter.side().open.insert(id, open);
                let mut block = self.block(message, words);
                block.timestamp = timestamp;
                block.status = BlockStatus::Pending;
                emitter.emit_preview(self.conversation, place, block);
            }
        }
    }

    fn block(&self, message: &Message, words: &str) -> Block {
        let aside = self.part.synthetic == Some(true) || self.part.ignored == Some(true);
        let body: BlockBody = match (self.kind, message.is_user) {
            ("reasoning", _) => {
                let signature = self.part.metadata.and_then(signature);
                Thinking { content: words.into(), signature, redacted: false }.into()
            }
            (_, true) if aside => {
                System { subtype: "notice".into(), message: Some(words.into()) }.into()
            }
            (_, true) => UserMessage { content: Content::from(words) }.into(),
            _ => AssistantText { content: words.into(), model: message.model.clone() }.into(),
        };
        Block::new(self.id, body)
    }
}

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

fn file(part: &Part<'_>) -> WordPart {
    let media_type: Option<Arc<str>> = part.mime.as_deref().map(Into::into);
    let url: Option<Arc<str>> = part.url.as_deref().map(Into::into);
    let is_image = media_type.as_deref().is_some_and(|kind| kind.starts_with("image/"));
    match is_image {
        true => PartBody::Image(ImagePart { media_type, data: None, url }).into(),
        false => {
            let name = part.filename.as_deref().map(Into::into);
            PartBody::File(FilePart { name, media_type, data: None, url }).into()
        }
    }
}

fn tool(
    emitter: &mut Emitter<'_>,
    part: &Part<'_>,
    id: &str,
    message: &str,
    conversation: &ConversationId,
) {
    let none = ToolState::default();
    let state = part.state.as_ref().unwrap_or(&none);
    let status = state.status.as_deref().unwrap_or("pending");
    let call = part.call_id.as_deref().unwrap_or(id);
    let name = part.tool.as_deref().unwrap_or("");
    let mut block = Block::new(
        id,
        ToolUse {
            tool_name: name.into(),
            tool_use_id: call.into(),
            input: state.input.filter(|_| status != "pending").map(Json::from),
            input_text: None,
            display_name: None,
            description: state.title.as_deref().map(Into::into),
        },
    );
    block.status = BlockStatus::Pending;
    block.timestamp = state.time.and_then(|time| time.start).and_then(iso);
    emitter.emit_block(conversation, key(message, id), block);
    if tasks::is_task(name) && tasks::hear(emitter, conversation, call, state) {
        return;
    }
    let (output, is_error) = match status {
        "completed" => (state.output, false),
        "error" => (state.error, true),
        _ => return,
    };
    let mut result = Block::new(
        format!("result:{id}"),
        ToolResult {
            tool_use_id: call.into(),
            output: output.map(Json::from),
            is_error,
            duration_ms: duration(state),
        },
    );
    result.timestamp = state.time.and_then(|time| time.end).and_then(iso);
    if let Some(metadata) = state.metadata {
        result.metadata.insert("structured", metadata.into());
    }
    emitter.emit_block(conversation, key_behind(message, id), result);
}

/// Returns how long a tool took.
pub(super) fn duration(state: &ToolState<'_>) -> Option<u64> {
    let time = state.time?;
    Some((time.end? - time.start?).max(0.0) as u64)
}
