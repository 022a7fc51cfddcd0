//! A loader as most programs have it, as a baseline: it parses each line into a
//! [`serde_json::Value`] and extracts fields from it.
//!
//! It emits the same events to the same reducer as the converter, but supports only a plain
//! transcript: no subagents, no rewinds, no corrupt lines.

use std::sync::Arc;

use serde_json::Value;
use threadfold_convert::lines::lines;
use threadfold_core::{
    AssistantTextBlock, Block, BlockId, BlockStatus, BlockUpsert, Content, Context, ConversationId,
    ConversationState, EmptyPayload, EventSource, Fields, ImagePart, Json, MetadataUpdate, Part,
    PartBody, Payload, Placement, SessionEvent, SessionId, SourceKind, ThinkingBlock,
    ToolResultBlock, ToolUseBlock, UnknownBlock, UserMessageBlock,
};

mod bus;
mod newer_bus;
mod rollout;

pub use bus::load_bus;
pub use newer_bus::load_newer_bus;
pub use rollout::load_rollout;

/// Returns the state of a transcript.
pub fn load(bytes: &[u8]) -> ConversationState {
    let mut loader = Loader::default();
    for line in lines(bytes) {
        if let Ok(value) = serde_json::from_slice::<Value>(line.bytes) {
            loader.line(&value);
        }
    }
    loader.say(Payload::SessionIdle(EmptyPayload {}), &Value::Null);
    loader.state
}

/// Parses each line into a [`Value`], and nothing more. Returns the number of lines.
pub fn parse_only(bytes: &[u8]) -> usize {
    lines(bytes).filter(|line| serde_json::from_slice::<Value>(line.bytes).is_ok()).count()
}

/// Parses each line into a [`Value`] and keeps them all: the minimum cost of a program whose state
/// consists of values.
pub fn parse_and_keep(bytes: &[u8]) -> Vec<Value> {
    lines(bytes).filter_map(|line| serde_json::from_slice(line.bytes).ok()).collect()
}

#[derive(Default)]
struct Loader {
    state: ConversationState,
    last: Option<BlockId>,
}

impl Loader {
    fn line(&mut self, line: &Value) {
        match line["type"].as_str() {
            Some("assistant") => self.assistant(line),
            Some("user") => self.user(line),
            Some("ai-title") => self.update(line, "title", Json::of(&line["aiTitle"])),
            _ => {}
        }
    }

    fn assistant(&mut self, line: &Value) {
        let message = &line["message"];
        let id = text(&message["id"]);
        let first = line["apiBlockIndex"].as_u64().unwrap_or(0);
        for (block, index) in message["content"].as_array().into_iter().flatten().zip(first..) {
            let mut made = piece(block, message, format!("{id}:{index}"));
            made.message_id = Some(id.into());
            self.block(line, made);
        }
        let mut used = Fields::default();
        used.insert("messageId", Json::string(id));
        used.insert("model", Json::of(&message["model"]));
        used.insert("tokens", Json::of(&message["usage"]));
        self.update(line, "usage", Json::of(&used));
    }

    fn user(&mut self, line: &Value) {
        let uuid = text(&line["uuid"]);
        let content = match &line["message"]["content"] {
            Value::String(words) => Content::from(words.as_str()),
            Value::Array(blocks) if blocks.iter().any(|it| it["type"] == "tool_result") => {
                for block in blocks {
                    self.block(line, result(line, block));
                }
                return;
            }
            Value::Array(blocks) => Content::Parts(blocks.iter().map(part).collect()),
            _ => return,
        };
        if self.last.is_some() {
            self.say(Payload::SessionIdle(EmptyPayload {}), line);
        }
        self.block(line, Block::new(uuid, UserMessageBlock { content }));
    }

    fn block(&mut self, line: &Value, mut block: Block) {
        block.timestamp = line["timestamp"].as_str().map(Into::into);
        let after = self.last.take().map_or(Placement::First, Placement::After);
        self.last = Some(block.id.clone());
        self.say(
            Payload::BlockUpsert(BlockUpsert { block, after, replaces: None, preview: false }),
            line,
        );
    }

    fn update(&mut self, line: &Value, name: &str, value: Json) {
        let mut metadata = Fields::default();
        metadata.insert(name, value);
        self.say(Payload::MetadataUpdate(MetadataUpdate { metadata }), line);
    }

    fn say(&mut self, payload: Payload, line: &Value) {
        let context = Context {
            session_id: line["sessionId"].as_str().map(SessionId::from),
            conversation_id: ConversationId::main(),
            timestamp: line["timestamp"].as_str().map(Arc::from),
            source: Some(EventSource::of_kind(SourceKind::Transcript)),
            ..Context::default()
        };
        let event = SessionEvent { context, ..SessionEvent::new(payload) };
        if let Some(odd) = self.state.apply(&event).anomaly() {
            panic!("an anomaly in a valid transcript: {odd}");
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

fn piece(block: &Value, message: &Value, id: String) -> Block {
    match text(&block["type"]) {
        "text" => Block::new(
            id,
            AssistantTextBlock {
                content: text(&block["text"]).into(),
                model: message["model"].as_str().map(Into::into),
            },
        ),
        "thinking" => Block::new(
            id,
            ThinkingBlock {
                content: text(&block["thinking"]).into(),
                signature: block["signature"].as_str().map(Into::into),
                redacted: false,
            },
        ),
        "tool_use" => {
            let call = text(&block["id"]);
            let body = ToolUseBlock {
                tool_name: text(&block["name"]).into(),
                tool_use_id: call.into(),
                input: Some(Json::of(&block["input"])),
                input_text: None,
                display_name: None,
                description: None,
            };
            let mut made = Block::new(call, body);
            made.status = BlockStatus::Pending;
            made
        }
        _ => Block::new(id, UnknownBlock { record: Json::of(block) }),
    }
}

fn result(line: &Value, block: &Value) -> Block {
    let call = text(&block["tool_use_id"]);
    let body = ToolResultBlock {
        tool_use_id: call.into(),
        output: Some(Json::of(&block["content"])),
        is_error: block["is_error"] == true,
        duration_ms: None,
    };
    let mut made = Block::new(format!("result:{call}"), body);
    if let Some(structured) = line.get("toolUseResult") {
        made.metadata.insert("structured", Json::of(structured));
    }
    made
}

fn part(block: &Value) -> Part {
    let source = &block["source"];
    let field = |name: &str| source[name].as_str().map(Into::into);
    match text(&block["type"]) {
        "image" => PartBody::Image(ImagePart {
            media_type: field("media_type"),
            data: field("data"),
            url: field("url"),
        })
        .into(),
        _ => Part::text(text(&block["text"])),
    }
}
