//! The same for events of OpenCode 2: no children, no retries, no reverts.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use threadfold_convert::lines::lines;
use threadfold_core::{
    AssistantTextBlock, Block, BlockBody, BlockDelta, BlockId, BlockStatus, BlockUpsert, Content,
    Context, ConversationId, ConversationState, EmptyPayload, EventSource, Fields, Json,
    MetadataUpdate, Payload, Placement, SessionEvent, SessionId, SourceKind, TextField,
    ThinkingBlock, ToolResultBlock, ToolUseBlock, UserMessageBlock,
};

use super::bus::iso;
use super::text;

/// Returns the state of the events of a session of OpenCode 2.
pub fn load_newer_bus(bytes: &[u8]) -> ConversationState {
    let mut loader = Loader::default();
    for line in lines(bytes) {
        if let Ok(value) = serde_json::from_slice::<Value>(line.bytes) {
            loader.event(&value);
        }
    }
    loader.state
}

#[derive(Default)]
struct Loader {
    state: ConversationState,
    messages: HashMap<String, Message>,
    prompts: HashMap<String, Value>,
    /// Name, input and times of each call that has not ended.
    calls: HashMap<String, Value>,
    /// The predecessor of each block.
    places: HashMap<String, Placement>,
    last: Option<BlockId>,
    /// The lengths of growing texts.
    open: HashMap<String, u64>,
    /// When each growing thought began.
    begun: HashMap<String, Option<Arc<str>>>,
}

#[derive(Clone, Default)]
struct Message {
    model: Option<Arc<str>>,
    started: Option<Arc<str>>,
}

impl Loader {
    fn event(&mut self, event: &Value) {
        let (data, created) = (&event["data"], &event["created"]);
        let message = text(&data["assistantMessageID"]);
        match text(&event["type"]).trim_start_matches("session.") {
            "created" => {
                let mut metadata = Fields::default();
                metadata.insert("cwd", Json::of(&data["location"]["directory"]));
                metadata.insert("version", Json::of(&data["version"]));
                self.say(data, Payload::MetadataUpdate(MetadataUpdate { metadata }));
            }
            "usage.updated" => {
                let mut metadata = Fields::default();
                metadata.insert("costUsd", Json::of(&data["cost"]));
                self.say(data, Payload::MetadataUpdate(MetadataUpdate { metadata }));
            }
            "inbox.enqueued" => {
                let id = text(&data["inboxID"]);
                let words = text(&data["item"]["payload"]["text"]);
                self.prompts.insert(id.to_owned(), data["item"].clone());
                let body = UserMessageBlock { content: Content::from(words) };
                let mut block = Block::new(id, body);
                block.status = BlockStatus::Pending;
                self.block(data, id, block, true);
            }
            "inbox.delivered" => {
                let id = text(&data["inboxID"]);
                let Some(item) = self.prompts.remove(id) else { return };
                let words = text(&item["payload"]["text"]);
                let body = UserMessageBlock { content: Content::from(words) };
                let mut block = Block::new(id, body);
                block.timestamp = iso(created);
                self.block(data, id, block, false);
            }
            "step.started" => {
                let model = data["model"]["id"].as_str().map(Into::into);
                let known = Message { model, started: iso(&data["started"]) };
                self.messages.insert(message.to_owned(), known);
            }
            "step.ended" => {
                let mut used = Fields::default();
                used.insert("messageId", Json::of(&data["assistantMessageID"]));
                used.insert("tokens", Json::of(&data["tokens"]));
                let mut metadata = Fields::default();
                metadata.insert("usage", Json::of(&used));
                self.say(data, Payload::MetadataUpdate(MetadataUpdate { metadata }));
            }
            "text.started" | "reasoning.started" => self.words(event, message, "", true),
            "text.ended" | "reasoning.ended" => {
                self.words(event, message, text(&data["text"]), false);
            }
            "text.delta" => self.delta(data, &format!("{message}:text:{}", data["ordinal"])),
            "reasoning.delta" => {
                self.delta(data, &format!("{message}:reasoning:{}", data["ordinal"]));
            }
            "tool.input.started" | "tool.input.ended" | "tool.called" | "tool.success" => {
                self.call(event, message);
            }
            "execution.succeeded" => self.say(data, Payload::SessionIdle(EmptyPayload {})),
            _ => {}
        }
    }

    fn words(&mut self, event: &Value, message: &str, words: &str, preview: bool) {
        let (data, kind) = (&event["data"], text(&event["type"]));
        let is_thought = kind.contains("reasoning");
        let kind = if is_thought { "reasoning" } else { "text" };
        let id = format!("{message}:{kind}:{}", data["ordinal"]);
        let Message { model, started } = self.messages.get(message).cloned().unwrap_or_default();
        let body: BlockBody = match is_thought {
            true => {
                ThinkingBlock { content: words.into(), signature: None, redacted: false }.into()
            }
            false => AssistantTextBlock { content: words.into(), model }.into(),
        };
        let mut block = Block::new(id.as_str(), body);
        block.timestamp = match is_thought {
            true => {
                let begun = || iso(&event["created"]);
                self.begun.entry(id.clone()).or_insert_with(begun).clone()
            }
            false => started,
        };
        if preview {
            self.open.insert(id, 0);
            block.status = BlockStatus::Pending;
        } else {
            self.open.remove(&id);
            self.begun.remove(&id);
        }
        self.block(data, message, block, preview);
    }

    fn delta(&mut self, data: &Value, id: &str) {
        let delta = text(&data["delta"]);
        let Some(length) = self.open.get_mut(id) else { return };
        let offset = *length;
        *length += delta.len() as u64;
        let block_id = id.into();
        let (field, offset) = (TextField::Content, Some(offset));
        self.say(
            data,
            Payload::BlockDelta(BlockDelta { block_id, delta: delta.into(), field, offset }),
        );
    }

    fn call(&mut self, event: &Value, message: &str) {
        let (data, created) = (&event["data"], &event["created"]);
        let (call, kind) = (text(&data["id"]), text(&event["type"]));
        let id = format!("{message}:{call}");
        let known = self
            .calls
            .entry(id.clone())
            .or_insert_with(|| serde_json::json!({"name": data["name"], "created": created}));
        if kind.ends_with("called") {
            known["input"] = data["input"].clone();
            known["ran"] = created.clone();
        }
        let known = known.clone();
        let body = ToolUseBlock {
            tool_name: text(&known["name"]).into(),
            tool_use_id: call.into(),
            input: known.get("input").map(Json::of),
            input_text: data["text"].as_str().map(Into::into),
            display_name: None,
            description: None,
        };
        let mut block = Block::new(id.as_str(), body);
        block.status = BlockStatus::Pending;
        block.timestamp = iso(&known["created"]);
        self.block(data, message, block, false);
        if !kind.ends_with("success") {
            return;
        }
        self.calls.remove(&id);
        let (start, end) = (known["ran"].as_u64(), created.as_u64());
        let body = ToolResultBlock {
            tool_use_id: call.into(),
            output: Some(Json::of(&data["content"])),
            is_error: false,
            duration_ms: start.zip(end).map(|(start, end)| end - start),
        };
        let mut block = Block::new(format!("result:{id}"), body);
        block.timestamp = iso(created);
        block.metadata.insert("structured", Json::of(&data["metadata"]));
        self.block(data, message, block, false);
    }

    fn block(&mut self, data: &Value, message: &str, mut block: Block, preview: bool) {
        block.message_id = Some(message.into());
        let after = match self.places.get(block.id.as_str()) {
            Some(place) => place.clone(),
            None => {
                let place = self.last.take().map_or(Placement::First, Placement::After);
                self.last = Some(block.id.clone());
                self.places.insert(block.id.to_string(), place.clone());
                place
            }
        };
        let upsert = BlockUpsert { block, after, replaces: None, preview };
        self.say(data, Payload::BlockUpsert(upsert));
    }

    fn say(&mut self, data: &Value, payload: Payload) {
        let context = Context {
            session_id: data["sessionID"].as_str().map(SessionId::from),
            conversation_id: ConversationId::main(),
            source: Some(EventSource::of_kind(SourceKind::Stream)),
            ..Context::default()
        };
        let event = SessionEvent { context, ..SessionEvent::new(payload) };
        if let Some(odd) = self.state.apply(&event).anomaly() {
            panic!("an anomaly in valid events: {odd}");
        }
    }
}
