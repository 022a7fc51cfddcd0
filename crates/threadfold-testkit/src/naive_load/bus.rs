//! The same for OpenCode's bus: no children, no retries, no reverts.

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

use super::text;

/// Returns the state of a bus's events.
pub fn load_bus(bytes: &[u8]) -> ConversationState {
    let mut loader = Loader::default();
    for line in lines(bytes) {
        if let Ok(value) = serde_json::from_slice::<Value>(line.bytes) {
            loader.event(text(&value["type"]), &value["properties"]);
        }
    }
    loader.state
}

#[derive(Default)]
struct Loader {
    state: ConversationState,
    messages: HashMap<String, Message>,
    /// The predecessor of each block.
    places: HashMap<String, Placement>,
    last: Option<BlockId>,
    /// The lengths of growing texts.
    open: HashMap<String, u64>,
}

struct Message {
    is_user: bool,
    model: Option<Arc<str>>,
    created: Option<Arc<str>>,
}

impl Loader {
    fn event(&mut self, kind: &str, about: &Value) {
        match kind {
            "session.created" | "session.updated" => self.session(about),
            "message.updated" => self.message(about),
            "message.part.updated" => self.part(about),
            "message.part.delta" => self.delta(about),
            "session.idle" => self.say(about, Payload::SessionIdle(EmptyPayload {})),
            _ => {}
        }
    }

    fn session(&mut self, about: &Value) {
        let info = &about["info"];
        let mut metadata = Fields::default();
        for (name, key) in
            [("title", "title"), ("cwd", "directory"), ("version", "version"), ("costUsd", "cost")]
        {
            metadata.insert(name, Json::of(&info[key]));
        }
        self.say(about, Payload::MetadataUpdate(MetadataUpdate { metadata }));
    }

    fn message(&mut self, about: &Value) {
        let info = &about["info"];
        let message = Message {
            is_user: info["role"] == "user",
            model: info["modelID"].as_str().map(Into::into),
            created: iso(&info["time"]["created"]),
        };
        if !message.is_user {
            let mut used = Fields::default();
            used.insert("messageId", Json::of(&info["id"]));
            used.insert("model", Json::of(&info["modelID"]));
            used.insert("tokens", Json::of(&info["tokens"]));
            let mut metadata = Fields::default();
            metadata.insert("usage", Json::of(&used));
            self.say(about, Payload::MetadataUpdate(MetadataUpdate { metadata }));
        }
        self.messages.insert(text(&info["id"]).to_owned(), message);
    }

    fn part(&mut self, about: &Value) {
        let part = &about["part"];
        match text(&part["type"]) {
            "text" | "reasoning" => self.words(about, part),
            "tool" => self.tool(about, part),
            _ => {}
        }
    }

    fn words(&mut self, about: &Value, part: &Value) {
        let Some(message) = self.messages.get(text(&part["messageID"])) else { return };
        let words = text(&part["text"]);
        let body: BlockBody = match text(&part["type"]) {
            "reasoning" => {
                ThinkingBlock { content: words.into(), signature: None, redacted: false }.into()
            }
            _ if message.is_user => UserMessageBlock { content: Content::from(words) }.into(),
            _ => AssistantTextBlock { content: words.into(), model: message.model.clone() }.into(),
        };
        let id = text(&part["id"]);
        let mut block = Block::new(id, body);
        block.timestamp = iso(&part["time"]["start"]).or_else(|| message.created.clone());
        let has_ended = message.is_user || part["time"]["end"].is_number();
        if has_ended {
            self.open.remove(id);
        } else {
            self.open.insert(id.to_owned(), words.len() as u64);
            block.status = BlockStatus::Pending;
        }
        self.block(about, part, block, !has_ended);
    }

    fn tool(&mut self, about: &Value, part: &Value) {
        let (id, call, state) = (text(&part["id"]), text(&part["callID"]), &part["state"]);
        let status = text(&state["status"]);
        let body = ToolUseBlock {
            tool_name: text(&part["tool"]).into(),
            tool_use_id: call.into(),
            input: (status != "pending").then(|| Json::of(&state["input"])),
            input_text: None,
            display_name: None,
            description: state["title"].as_str().map(Into::into),
        };
        let mut block = Block::new(id, body);
        block.status = BlockStatus::Pending;
        block.timestamp = iso(&state["time"]["start"]);
        self.block(about, part, block, false);
        if status != "completed" {
            return;
        }
        let (start, end) = (state["time"]["start"].as_u64(), state["time"]["end"].as_u64());
        let body = ToolResultBlock {
            tool_use_id: call.into(),
            output: Some(Json::of(&state["output"])),
            is_error: false,
            duration_ms: start.zip(end).map(|(start, end)| end - start),
        };
        let mut block = Block::new(format!("result:{id}"), body);
        block.timestamp = iso(&state["time"]["end"]);
        block.metadata.insert("structured", Json::of(&state["metadata"]));
        self.block(about, part, block, false);
    }

    fn delta(&mut self, about: &Value) {
        let (id, delta) = (text(&about["partID"]), text(&about["delta"]));
        let Some(length) = self.open.get_mut(id) else { return };
        let offset = *length;
        *length += delta.len() as u64;
        self.say(
            about,
            Payload::BlockDelta(BlockDelta {
                block_id: id.into(),
                delta: delta.into(),
                field: TextField::Content,
                offset: Some(offset),
            }),
        );
    }

    fn block(&mut self, about: &Value, part: &Value, mut block: Block, preview: bool) {
        block.message_id = part["messageID"].as_str().map(Into::into);
        let after = match self.places.get(block.id.as_str()) {
            Some(place) => place.clone(),
            None => {
                let place = self.last.take().map_or(Placement::First, Placement::After);
                self.last = Some(block.id.clone());
                self.places.insert(block.id.to_string(), place.clone());
                place
            }
        };
        self.say(
            about,
            Payload::BlockUpsert(BlockUpsert { block, after, replaces: None, preview }),
        );
    }

    fn say(&mut self, about: &Value, payload: Payload) {
        let context = Context {
            session_id: about["sessionID"].as_str().map(SessionId::from),
            conversation_id: ConversationId::main(),
            source: Some(EventSource::of_kind(SourceKind::Stream)),
            ..Context::default()
        };
        let event = SessionEvent { context, ..SessionEvent::new(payload) };
        if let Some(odd) = self.state.apply(&event).anomaly() {
            panic!("an anomaly on a valid bus: {odd}");
        }
    }
}

/// Returns a time of 2026-01-01, the day of the generated bus, as ISO 8601.
pub(super) fn iso(milliseconds: &Value) -> Option<Arc<str>> {
    let rest = milliseconds.as_u64()? % 86_400_000;
    let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
    let (second, milli) = (rest / 1_000 % 60, rest % 1_000);
    Some(format!("2026-01-01T{hour:02}:{minute:02}:{second:02}.{milli:03}Z").into())
}
