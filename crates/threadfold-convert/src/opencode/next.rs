//! Converts the newer protocol, `session.next.*`, where ids of texts are unique per message only.

use std::sync::Arc;

use threadfold_core::{
    AssistantTextBlock, Block, BlockBody, BlockId, BlockStatus, Content, ConversationId,
    ErrorBlock, Json, SystemBlock, TextField, ThinkingBlock, ToolResultBlock, ToolUseBlock,
    UserMessageBlock,
};

use super::emitter::{Emitter, LAST, key, key_after};
use super::memory::Message;
use super::order::OpenText;
use super::wire::Properties;

/// Converts one event. Returns whether its type is known.
pub(super) fn convert(emitter: &mut Emitter<'_>, kind: &str, about: &Properties<'_>) -> bool {
    let Some(session) = about.session_id.as_deref() else { return false };
    let Some(conversation) = emitter.conversation_of(session) else { return true };
    let message: Arc<str> = about
        .assistant_message_id
        .as_deref()
        .or(about.message_id.as_deref())
        .unwrap_or_default()
        .into();
    let next = NextEvent { about, conversation, message };
    match kind {
        "prompted" => next.prompted(emitter),
        "step.started" => next.step_started(emitter),
        "step.failed" => next.step_failed(emitter),
        "text.started" | "reasoning.started" => next.text_started(emitter),
        "text.delta" | "reasoning.delta" => next.delta(emitter, TextField::Content),
        "text.ended" | "reasoning.ended" => next.text_ended(emitter),
        "tool.input.started" => next.tool_started(emitter),
        "tool.input.delta" => next.delta(emitter, TextField::Input),
        "tool.called" => next.tool_called(emitter),
        "tool.success" => next.tool_succeeded(emitter),
        "tool.failed" => next.tool_failed(emitter),
        "synthetic" | "context.updated" => next.notice(emitter),
        "prompt.admitted" | "step.ended" | "tool.input.ended" | "tool.progress"
        | "agent.switched" | "model.switched" | "moved" | "retried" | "shell.started"
        | "shell.ended" | "compaction.started" | "compaction.delta" | "compaction.ended"
        | "revert.staged" | "revert.cleared" | "revert.committed" => {}
        _ => return false,
    }
    true
}

/// One event, with its conversation and its message.
struct NextEvent<'a> {
    about: &'a Properties<'a>,
    conversation: ConversationId,
    message: Arc<str>,
}

impl NextEvent<'_> {
    /// Returns the block id of a text: its own id is unique in its message only.
    fn text_id(&self) -> Option<String> {
        let own = self.about.text_id.as_deref().or(self.about.reasoning_id.as_deref())?;
        Some(format!("{}:{own}", self.message))
    }

    fn call(&self) -> Option<&str> {
        self.about.call_id.as_deref()
    }

    fn prompted(&self, emitter: &mut Emitter<'_>) {
        let words = self.about.prompt.as_ref().and_then(|it| it.text.as_deref()).unwrap_or("");
        let block = Block::new(&*self.message, UserMessageBlock { content: Content::from(words) });
        emitter.emit_block(&self.conversation, key(&self.message, ""), block);
    }

    fn notice(&self, emitter: &mut Emitter<'_>) {
        let words = self.about.text.as_deref().unwrap_or("");
        let body = SystemBlock { subtype: "notice".into(), message: Some(words.into()) };
        emitter.emit_block(
            &self.conversation,
            key(&self.message, ""),
            Block::new(&*self.message, body),
        );
    }

    fn step_started(&self, emitter: &mut Emitter<'_>) {
        #[derive(serde::Deserialize)]
        struct Model {
            id: Option<Arc<str>>,
        }
        let model = self.about.model.and_then(|raw| serde_json::from_str::<Model>(raw.get()).ok());
        let known = Message {
            session: self.about.session_id.as_deref().unwrap_or("").into(),
            model: model.and_then(|model| model.id),
            ..Message::default()
        };
        emitter.memory.messages.insert(self.message.clone(), known);
    }

    fn step_failed(&self, emitter: &mut Emitter<'_>) {
        let abandoned = emitter.side().open.take_message(&self.message);
        emitter.abandon_texts(abandoned);
        let body =
            ErrorBlock { message: self.about.error.map_or("", |raw| raw.get()).into(), code: None };
        let block = Block::new(format!("error:{}", self.message), body);
        emitter.emit_block(&self.conversation, key(&self.message, LAST), block);
    }

    fn text_body(&self, emitter: &Emitter<'_>, text: &str) -> BlockBody {
        match self.about.reasoning_id {
            Some(_) => {
                ThinkingBlock { content: text.into(), signature: None, redacted: false }.into()
            }
            None => {
                let model =
                    emitter.memory.messages.get(&self.message).and_then(|it| it.model.clone());
                AssistantTextBlock { content: text.into(), model }.into()
            }
        }
    }

    fn text_started(&self, emitter: &mut Emitter<'_>) {
        let Some(id) = self.text_id() else { return };
        let mut block = Block::new(id.as_str(), self.text_body(emitter, ""));
        block.status = BlockStatus::Pending;
        self.open(emitter, &id);
        let order = self.order(emitter, &id);
        emitter.emit_preview(&self.conversation, key(&self.message, &order), block);
    }

    /// Remembers that a block is streaming.
    fn open(&self, emitter: &mut Emitter<'_>, id: &str) {
        let open = OpenText {
            conversation: self.conversation.clone(),
            message: self.message.clone(),
            length: 0,
        };
        emitter.side().open.insert(BlockId::from(id), open);
    }

    /// Returns the sort key of a block within its message: the order of first appearance, because
    /// ids of this protocol need not sort by time.
    fn order(&self, emitter: &mut Emitter<'_>, id: &str) -> String {
        let order = emitter.side().order.entry(self.conversation.clone()).or_default();
        match order.key_of(&BlockId::from(id)) {
            Some(key) => key.1.to_string(),
            None => format!("{:06}", order.next_number(&self.message)),
        }
    }

    /// Emits text that is appended to an open block.
    fn delta(&self, emitter: &mut Emitter<'_>, field: TextField) {
        let id = match field {
            TextField::Content => self.text_id(),
            TextField::Input => self.call().map(str::to_owned),
        };
        let (Some(id), Some(delta)) = (id, self.about.delta.as_deref()) else { return };
        let id = BlockId::from(id);
        let Some(open) = emitter.side().open.get_mut(&id) else { return };
        let offset = open.length;
        open.length += delta.len() as u64;
        if !delta.is_empty() {
            emitter.emit_delta(&self.conversation, id, field, offset, delta);
        }
    }

    fn text_ended(&self, emitter: &mut Emitter<'_>) {
        let Some(id) = self.text_id() else { return };
        emitter.side().open.remove(&BlockId::from(id.as_str()));
        let words = self.about.text.as_deref().unwrap_or("");
        let block = Block::new(id.as_str(), self.text_body(emitter, words));
        let order = self.order(emitter, &id);
        emitter.emit_block(&self.conversation, key(&self.message, &order), block);
    }

    fn tool_use(&self, call: &str, name: &str) -> Block {
        let mut block = Block::new(
            call,
            ToolUseBlock {
                tool_name: name.into(),
                tool_use_id: call.into(),
                input: self.about.input.map(Json::from),
                input_text: None,
                display_name: None,
                description: None,
            },
        );
        block.status = BlockStatus::Pending;
        block
    }

    fn tool_started(&self, emitter: &mut Emitter<'_>) {
        let Some(call) = self.call() else { return };
        let block = self.tool_use(call, self.about.name.as_deref().unwrap_or(""));
        self.open(emitter, call);
        let order = self.order(emitter, call);
        emitter.emit_preview(&self.conversation, key(&self.message, &order), block);
    }

    fn tool_called(&self, emitter: &mut Emitter<'_>) {
        let Some(call) = self.call() else { return };
        emitter.side().open.remove(&BlockId::from(call));
        let name = self.about.tool.and_then(|raw| Json::from(raw).to_text()).unwrap_or_default();
        let block = self.tool_use(call, &name);
        let order = self.order(emitter, call);
        emitter.emit_block(&self.conversation, key(&self.message, &order), block);
    }

    fn tool_succeeded(&self, emitter: &mut Emitter<'_>) {
        let Some(call) = self.call() else { return };
        let output = self.about.content.map(Json::from);
        let tool_use_id = call.into();
        let result = ToolResultBlock { tool_use_id, output, is_error: false, duration_ms: None };
        self.emit_result(emitter, call, result);
    }

    fn tool_failed(&self, emitter: &mut Emitter<'_>) {
        let Some(call) = self.call() else { return };
        let output = self.about.error.map(Json::from);
        let tool_use_id = call.into();
        let result = ToolResultBlock { tool_use_id, output, is_error: true, duration_ms: None };
        self.emit_result(emitter, call, result);
    }

    fn emit_result(&self, emitter: &mut Emitter<'_>, call: &str, result: ToolResultBlock) {
        let mut block = Block::new(format!("result:{call}"), result);
        if let Some(structured) = self.about.structured {
            block.metadata.insert("structured", structured.into());
        }
        let order = self.order(emitter, call);
        emitter.emit_block(&self.conversation, key_after(&self.message, &order), block);
    }
}
