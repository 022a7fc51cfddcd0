//! Shows our own loop like any agent's session: its messages and calls become blocks.

use std::collections::BTreeSet;

use crate::block::{
    AssistantTextBlock, Block, BlockBody, BlockStatus, Content, Part, PartBody, SystemBlock,
    ThinkingBlock, ToolResultBlock, ToolUseBlock, UnknownBlock, UserMessageBlock,
};
use crate::event::{
    BlockUpsert, Context, Placement, ToolFailed, ToolFinished, ToolUnknown, TurnAnswered,
    TurnStarted,
};
use crate::id::{BlockId, CallId, ConversationId, ToolUseId};
use crate::json::Json;
use crate::outcome::{Anomaly, Outcome};
use crate::turn::{ConversationMessage, MessagePart, MessagePartBody, Role, ToolCall};

use super::block;
use super::step::Step;

/// Metadata keys under which blocks carry the ledger's facts about a call.
const FAILED: &str = "failedAttempt";
const FINISHED: &str = "finishedAttempt";
const UNKNOWN: &str = "unknownOutcome";

pub(super) fn started(step: &mut Step<'_>, context: &Context, payload: &TurnStarted) -> Outcome {
    let mut blocks = Blocks::default();
    for (index, message) in payload.messages.iter().enumerate() {
        let name = match &message.message_id {
            Some(id) => id.to_string(),
            None => format!("turn:{}:{index}", payload.turn),
        };
        blocks.add_message(message, &name);
    }
    blocks.upsert_block(step, context)
}

pub(super) fn answered(step: &mut Step<'_>, context: &Context, payload: &TurnAnswered) -> Outcome {
    let name = match &payload.message.message_id {
        Some(id) => id.to_string(),
        None => format!("turn:{}:answer", payload.turn),
    };
    let mut blocks = Blocks::default();
    blocks.add_message(&payload.message, &name);
    blocks.upsert_block(step, context)
}

/// Shows a result. The first result wins, as in the ledger.
pub(super) fn finished(step: &mut Step<'_>, context: &Context, payload: &ToolFinished) -> Outcome {
    let call = ToolUseId::from(&payload.call_id);
    let mut block = result_block(&call, &payload.result);
    if let BlockBody::ToolResult(body) = &mut block.body {
        body.is_error |= payload.is_error;
        body.duration_ms = payload.duration_ms;
    }
    block.metadata.insert(FINISHED, Json::of(&payload.attempt));
    if let Some(known) = previous_block(step, &context.conversation_id, &block.id)
        && known.metadata.get(FINISHED).is_some()
        && (&known.body, &known.metadata) != (&block.body, &block.metadata)
    {
        return Outcome::Ignored(Anomaly::CallFinished { call: payload.call_id.clone() });
    }
    upsert_block(step, context, block)
}

pub(super) fn failed(step: &mut Step<'_>, context: &Context, payload: &ToolFailed) -> Outcome {
    let call = ToolUseId::from(&payload.call_id);
    if is_finished(step, &context.conversation_id, &call) {
        return Outcome::Ignored(Anomaly::CallFinished { call: payload.call_id.clone() });
    }
    let body = ToolResultBlock {
        tool_use_id: call.clone(),
        output: Some(payload.error.clone()),
        is_error: true,
        duration_ms: None,
    };
    let mut block = Block::new(result_id(&call), body);
    block.metadata.insert(FAILED, Json::of(&payload.attempt));
    upsert_block(step, context, block)
}

/// Marks a call as having an unknown outcome.
pub(super) fn unknown(step: &mut Step<'_>, context: &Context, payload: &ToolUnknown) -> Outcome {
    let call = ToolUseId::from(&payload.call_id);
    if is_finished(step, &context.conversation_id, &call) {
        return Outcome::Ignored(Anomaly::CallFinished { call: payload.call_id.clone() });
    }
    let known = step.find(&context.conversation_id).and_then(|slot| {
        let conversation = step.conversation(slot);
        let entry = conversation.at(conversation.call(&call)?)?;
        entry.facts().report(step.rank).block.as_deref().cloned()
    });
    let Some(mut block) = known.filter(|it| matches!(it.body, BlockBody::ToolUse(_))) else {
        return Outcome::Ignored(Anomaly::UnknownCall { call: payload.call_id.clone() });
    };
    block.metadata.insert(UNKNOWN, Json::string(&payload.reason));
    upsert_block(step, context, block)
}

/// Returns this source's last report of a block.
fn previous_block(
    step: &mut Step<'_>,
    conversation: &ConversationId,
    id: &BlockId,
) -> Option<Block> {
    let slot = step.find(conversation)?;
    let conversation = step.conversation(slot);
    let entry = conversation.entry(conversation.resolve(id))?;
    entry.facts().report(step.rank).block.as_deref().cloned()
}

fn is_finished(step: &mut Step<'_>, conversation: &ConversationId, call: &ToolUseId) -> bool {
    let known = previous_block(step, conversation, &result_id(call));
    known.is_some_and(|block| block.metadata.get(FINISHED).is_some())
}

fn result_id(call: &ToolUseId) -> BlockId {
    format!("result:{call}").into()
}

fn result_block(call: &ToolUseId, message: &ConversationMessage) -> Block {
    let is_text = |part: &MessagePart| matches!(part.body, MessagePartBody::Text(_));
    let output = match message.content.iter().all(is_text) {
        true => Json::string(&message.to_text()),
        false => Json::of(&message.content),
    };
    let body = ToolResultBlock {
        tool_use_id: call.clone(),
        output: Some(output),
        is_error: message.is_error,
        duration_ms: None,
    };
    let mut block = Block::new(result_id(call), body);
    block.timestamp.clone_from(&message.created_at);
    block
}

fn upsert_block(step: &mut Step<'_>, context: &Context, mut block: Block) -> Outcome {
    if block.timestamp.is_none() {
        block.timestamp.clone_from(&context.timestamp);
    }
    let payload =
        BlockUpsert { block, after: Placement::Unspecified, replaces: None, preview: false };
    block::upsert(step, &context.conversation_id, &payload)
}

/// The blocks of one event. Each has a unique id derived from the event, so applying the event
/// twice is idempotent.
#[derive(Default)]
struct Blocks {
    blocks: Vec<Block>,
    names: BTreeSet<BlockId>,
}

impl Blocks {
    fn add_message(&mut self, message: &ConversationMessage, name: &str) {
        let first = self.blocks.len();
        match (message.role, &message.tool_call_id) {
            (Role::User, _) => {
                self.add(name.into(), UserMessageBlock { content: content(message) }.into());
            }
            (Role::System, _) => {
                let message = Some(message.to_text().into());
                self.add(name.into(), SystemBlock { subtype: "prompt".into(), message }.into());
            }
            (Role::Tool, Some(call)) => self.add_result(call, message),
            (Role::Assistant, _) | (Role::Tool, None) => {
                for (index, part) in message.content.iter().enumerate() {
                    if is_call(message, part) {
                        continue;
                    }
                    self.add(format!("{name}:{index}").into(), part_body(part));
                }
            }
        }
        message.tool_calls.iter().for_each(|call| self.add_call(call));
        for block in &mut self.blocks[first..] {
            block.message_id.clone_from(&message.message_id);
            block.timestamp.clone_from(&message.created_at);
        }
    }

    fn add(&mut self, id: BlockId, body: BlockBody) {
        let mut name = id.clone();
        let mut count = 1;
        while !self.names.insert(name.clone()) {
            count += 1;
            name = format!("{id}#{count}").into();
        }
        self.blocks.push(Block::new(name, body));
    }

    fn add_result(&mut self, call: &CallId, message: &ConversationMessage) {
        let block = result_block(&call.into(), message);
        if !self.names.contains(&block.id) {
            self.add(block.id, block.body);
        }
    }

    fn add_call(&mut self, call: &ToolCall) {
        let tool_use_id = ToolUseId::from(&call.call_id);
        let id = BlockId::from(&tool_use_id);
        if self.names.contains(&id) {
            return;
        }
        let (input, input_text) = match Json::parse(&call.arguments) {
            Ok(input) => (Some(input), None),
            Err(_) => (None, Some(call.arguments.as_ref().into())),
        };
        let body = ToolUseBlock {
            tool_name: call.name.clone(),
            tool_use_id,
            input,
            input_text,
            display_name: None,
            description: None,
        };
        self.add(id, body.into());
        if let Some(block) = self.blocks.last_mut() {
            block.status = BlockStatus::Pending;
        }
    }

    fn upsert_block(self, step: &mut Step<'_>, context: &Context) -> Outcome {
        let mut anomaly = None;
        for mut block in self.blocks {
            if let Some(known) = previous_block(step, &context.conversation_id, &block.id) {
                if known.metadata.get(FINISHED).is_some() || known.metadata.get(FAILED).is_some() {
                    continue;
                }
                if let Some(reason) = known.metadata.get(UNKNOWN) {
                    block.metadata.insert(UNKNOWN, reason.clone());
                }
            }
            let outcome = upsert_block(step, context, block);
            anomaly = anomaly.or_else(|| outcome.anomaly().cloned());
        }
        step.outcome_with(anomaly)
    }
}

fn content(message: &ConversationMessage) -> Content {
    let parts = message.content.iter().map(|part| match &part.body {
        MessagePartBody::Text(body) => Part::from(PartBody::Text(body.clone())),
        MessagePartBody::Image(body) => PartBody::Image(body.clone()).into(),
        MessagePartBody::Thinking(_) | MessagePartBody::Native(_) | MessagePartBody::Other(_) => {
            Part::text(Json::of(part).as_str())
        }
    });
    let is_text = |part: &MessagePart| matches!(part.body, MessagePartBody::Text(_));
    match message.content.iter().all(is_text) {
        true => Content::Text(message.to_text().into()),
        false => Content::Parts(parts.collect()),
    }
}

/// Returns true if the part is a provider's native form of a call, which is shown as the call
/// itself.
fn is_call(message: &ConversationMessage, part: &MessagePart) -> bool {
    let MessagePartBody::Native(native) = &part.body else { return false };
    native
        .call()
        .is_some_and(|call| message.tool_calls.iter().any(|it| it.call_id.as_str() == call))
}

fn part_body(part: &MessagePart) -> BlockBody {
    match &part.body {
        MessagePartBody::Text(body) => {
            AssistantTextBlock { content: body.text.clone(), model: None }.into()
        }
        MessagePartBody::Thinking(body) => ThinkingBlock {
            content: body.text.clone(),
            signature: body.signature.clone(),
            redacted: false,
        }
        .into(),
        MessagePartBody::Native(body) => UnknownBlock { record: body.item.clone() }.into(),
        MessagePartBody::Image(_) | MessagePartBody::Other(_) => {
            UnknownBlock { record: Json::of(part) }.into()
        }
    }
}
