//! The same for a rollout of Codex: no subagents, no older versions, no compactions.

use std::sync::Arc;

use serde_json::Value;
use threadfold_convert::lines::lines;
use threadfold_core::{
    AssistantTextBlock, Block, BlockId, BlockStatus, BlockUpsert, Content, Context, ConversationId,
    ConversationState, EmptyPayload, EventSource, Fields, Json, MetadataUpdate, Payload, Placement,
    SessionEvent, SessionId, SourceKind, ThinkingBlock, ToolResultBlock, ToolUseBlock,
    UserMessageBlock,
};

use super::text;

/// Returns the state of a rollout.
pub fn load_rollout(bytes: &[u8]) -> ConversationState {
    let mut loader = Loader::default();
    for line in lines(bytes) {
        if let Ok(value) = serde_json::from_slice::<Value>(line.bytes) {
            loader.line(&value);
        }
    }
    loader.say(Payload::SessionIdle(EmptyPayload {}), None);
    loader.state
}

#[derive(Default)]
struct Loader {
    state: ConversationState,
    session: Option<String>,
    last: Option<BlockId>,
    turn: String,
}

impl Loader {
    fn line(&mut self, line: &Value) {
        let payload = &line["payload"];
        let time = line["timestamp"].as_str();
        match (text(&line["type"]), text(&payload["type"])) {
            ("session_meta", _) => self.session = payload["id"].as_str().map(str::to_owned),
            ("event_msg", "task_started") => self.turn = text(&payload["turn_id"]).to_owned(),
            ("event_msg", "task_complete") => {
                self.say(Payload::SessionIdle(EmptyPayload {}), time);
            }
            ("event_msg", "token_count") => self.usage(&payload["info"]["total_token_usage"], time),
            ("event_msg", "item_completed") => self.item(&payload["item"], time),
            ("response_item", "reasoning") => {
                let mut block =
                    thinking(text(&payload["id"]), text(&payload["summary"][0]["text"]));
                if let threadfold_core::BlockBody::Thinking(body) = &mut block.body {
                    body.signature = payload["encrypted_content"].as_str().map(Arc::from);
                }
                self.upsert(block, Placement::Unspecified, time);
            }
            ("response_item", "function_call") => {
                let input: Value =
                    serde_json::from_str(text(&payload["arguments"])).unwrap_or_default();
                let mut block = Block::new(
                    text(&payload["call_id"]),
                    ToolUseBlock {
                        tool_name: text(&payload["name"]).into(),
                        tool_use_id: text(&payload["call_id"]).into(),
                        description: input["cmd"].as_str().map(Arc::from),
                        input: Some(Json::of(&input)),
                        input_text: None,
                        display_name: None,
                    },
                );
                block.status = BlockStatus::Pending;
                self.append(block, time);
            }
            _ => {}
        }
    }

    fn item(&mut self, item: &Value, time: Option<&str>) {
        let words = text(&item["content"][0]["text"]);
        match text(&item["type"]) {
            "UserMessage" => {
                let id = format!("{}:user:1", self.turn);
                let content = Content::Text(words.into());
                self.append(Block::new(id, UserMessageBlock { content }), time);
            }
            "AgentMessage" => {
                let body = AssistantTextBlock { content: words.into(), model: None };
                self.append(Block::new(text(&item["id"]), body), time);
            }
            "Reasoning" => {
                let block = thinking(text(&item["id"]), text(&item["summary_text"][0]));
                self.append(block, time);
            }
            "CommandExecution" => {
                let mut block = Block::new(
                    format!("result:{}", text(&item["id"])),
                    ToolResultBlock {
                        tool_use_id: text(&item["id"]).into(),
                        output: Some(Json::of(&item["aggregated_output"])),
                        is_error: false,
                        duration_ms: item["duration"]["nanos"].as_u64().map(|it| it / 1_000_000),
                    },
                );
                block.metadata.insert("exitCode", Json::of(&item["exit_code"]));
                self.append(block, time);
            }
            _ => {}
        }
    }

    fn usage(&mut self, tokens: &Value, time: Option<&str>) {
        let mut usage = Fields::default();
        usage.insert("messageId", Json::string("thread"));
        usage.insert("tokens", Json::of(tokens));
        let mut metadata = Fields::default();
        metadata.insert("usage", Json::of(&usage));
        self.say(Payload::MetadataUpdate(MetadataUpdate { metadata }), time);
    }

    fn append(&mut self, block: Block, time: Option<&str>) {
        let after = self.last.clone().map_or(Placement::First, Placement::After);
        self.last = Some(block.id.clone());
        self.upsert(block, after, time);
    }

    fn upsert(&mut self, mut block: Block, after: Placement, time: Option<&str>) {
        block.timestamp = time.map(Arc::from);
        let upsert = BlockUpsert { block, after, replaces: None, preview: false };
        self.say(Payload::BlockUpsert(upsert), time);
    }

    fn say(&mut self, payload: Payload, time: Option<&str>) {
        let context = Context {
            session_id: self.session.as_deref().map(SessionId::from),
            conversation_id: ConversationId::main(),
            timestamp: time.map(Arc::from),
            source: Some(EventSource::of_kind(SourceKind::Transcript)),
            ..Context::default()
        };
        let event = SessionEvent { context, ..SessionEvent::new(payload) };
        if let Some(odd) = self.state.apply(&event).anomaly() {
            panic!("an anomaly in a valid rollout: {odd}");
        }
    }
}

fn thinking(id: &str, summary: &str) -> Block {
    let content = summary.into();
    Block::new(id, ThinkingBlock { content, signature: None, redacted: summary.is_empty() })
}
