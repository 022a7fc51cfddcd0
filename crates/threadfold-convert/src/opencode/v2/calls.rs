//! Calls of tools: those of the model, those that start subagents, and a person's own shell.

use std::sync::Arc;

use serde_json::value::RawValue;
use threadfold_core::{
    AgentId, Block, BlockStatus, CompletedStatus, Json, Payload, SubagentCompleted,
    SubagentSpawned, ToolResultBlock, ToolUseBlock,
};

use super::blocks::at;
use super::places::Place;
use super::wire::{Failure, SubagentInput, SubagentMetadata, Time};
use crate::opencode::emitter::Emitter;
use crate::opencode::files::FileCall;

/// A call as it is known at the moment, streamed or stored.
#[derive(Debug, Default)]
pub(super) struct Call<'a> {
    pub(super) id: &'a str,
    pub(super) name: &'a str,
    /// The input, once it is complete.
    pub(super) input: Option<Json>,
    /// The input as far as it was streamed.
    pub(super) input_text: Option<&'a str>,
    pub(super) metadata: Option<&'a RawValue>,
    /// The tool was run by the provider of the model, and not by OpenCode.
    pub(super) executed: bool,
    pub(super) time: Time,
    pub(super) outcome: Option<CallOutcome<'a>>,
}

/// How a call ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum CallOutcome<'a> {
    Completed { content: Option<&'a RawValue> },
    Failed { error: Option<&'a RawValue>, content: Option<&'a RawValue> },
}

/// Returns the id of a call's block: ids of calls are unique in their message only.
pub(super) fn call_id(message: &str, call: &str) -> String {
    format!("{message}:{call}")
}

impl Call<'_> {
    /// Emits the call, and its result if it has ended.
    pub(super) fn emit(&self, emitter: &mut Emitter<'_>, place: &Place, number: u64) {
        let id = call_id(&place.message, self.id);
        emitter.emit_at(place, place.numbered(number), self.block(&id));
        if self.emit_subagent(emitter, place) {
            return;
        }
        if let Some(result) = self.result(&id) {
            emitter.emit_at(place, place.after(number), result);
        }
        if let Some(CallOutcome::Completed { content }) = self.outcome {
            let file_call = FileCall {
                tool: self.name,
                call: self.id,
                input: self.input.as_ref().map(Json::as_str),
                metadata: self.metadata.map(RawValue::get),
                output: content.map(RawValue::get),
                ended: self.time.completed,
            };
            file_call.emit(emitter, &place.conversation);
        }
    }

    /// Returns the block of the call.
    pub(super) fn block(&self, id: &str) -> Block {
        let mut block = Block::new(
            id,
            ToolUseBlock {
                tool_name: self.name.into(),
                tool_use_id: self.id.into(),
                input: self.input.clone(),
                input_text: self.input_text.map(Into::into),
                display_name: None,
                description: None,
            },
        );
        block.status = BlockStatus::Pending;
        if self.executed {
            block.metadata.insert("executed", Json::of(&true));
        }
        at(block, self.time.created)
    }

    fn result(&self, id: &str) -> Option<Block> {
        let (output, is_error) = match self.outcome? {
            CallOutcome::Completed { content } => (content.map(Json::from), false),
            CallOutcome::Failed { error, .. } => (error.map(failure_text), true),
        };
        let body = ToolResultBlock {
            tool_use_id: self.id.into(),
            output,
            is_error,
            duration_ms: self.duration(),
        };
        let mut block = at(Block::new(format!("result:{id}"), body), self.time.completed);
        let mut add = |name: &str, value: Option<&RawValue>| {
            if let Some(value) = value {
                block.metadata.insert(name, value.into());
            }
        };
        add("structured", self.metadata);
        if let Some(CallOutcome::Failed { error, content }) = self.outcome {
            add("error", error);
            add("content", content);
        }
        Some(block)
    }

    fn duration(&self) -> Option<u64> {
        Some((self.time.completed? - self.time.ran?).max(0.0) as u64)
    }

    /// Emits the subagent of a call that started one. Returns whether it did: its result is then
    /// part of the subagent, and not a block of its own.
    fn emit_subagent(&self, emitter: &mut Emitter<'_>, place: &Place) -> bool {
        // Sessions that were copied from version 1 keep the name of its tool, and a client that
        // connected late has not received the name.
        if !matches!(self.name, "subagent" | "task" | "") {
            return false;
        }
        let metadata: SubagentMetadata<'_> =
            self.metadata.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        let Some(child) = metadata.session.as_deref() else { return false };
        let caller = &place.conversation;
        if let Some(root) = emitter.memory.root.clone() {
            let parent = if caller.is_main() { root } else { caller.as_str().into() };
            emitter.memory.parents.entry(child.into()).or_insert(parent);
        }
        emitter.memory.calls.insert(child.into(), (caller.clone(), self.id.into()));
        let input: SubagentInput<'_> = self
            .input
            .as_ref()
            .and_then(|json| serde_json::from_str(json.as_str()).ok())
            .unwrap_or_default();
        let agent_id = Some(AgentId::from(child));
        emitter.emit(
            caller,
            Payload::SubagentSpawned(SubagentSpawned {
                agent_id: agent_id.clone(),
                prompt: input.prompt.as_deref().map(Into::into),
                subagent_type: input.agent.as_deref().map(Into::into),
                description: input.description.as_deref().map(Into::into),
                background: input.background,
                ..SubagentSpawned::by(self.id)
            }),
        );
        let is_working = metadata.status.as_deref() == Some("running");
        let (status, output) = match self.outcome {
            None => return true,
            // A call in the background completes at once; a message reports the end.
            Some(CallOutcome::Completed { .. }) if is_working => return true,
            Some(CallOutcome::Completed { content }) => {
                (CompletedStatus::Completed, content.map(|raw| Json::string(&answer(raw))))
            }
            Some(CallOutcome::Failed { error, .. }) => {
                (CompletedStatus::Error, error.map(failure_text))
            }
        };
        emitter.emit(
            caller,
            Payload::SubagentCompleted(SubagentCompleted {
                tool_use_id: self.id.into(),
                agent_id,
                subagent_id: None,
                status,
                output,
                duration_ms: self.duration(),
                unplaced: false,
            }),
        );
        true
    }
}

/// Emits the end of a subagent that worked in the background, if a message reports one.
pub(super) fn end_background(
    emitter: &mut Emitter<'_>,
    text: Option<&str>,
    metadata: Option<&RawValue>,
) {
    let metadata: SubagentMetadata<'_> =
        metadata.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    let (Some("subagent"), Some(child)) = (metadata.source.as_deref(), metadata.child.as_deref())
    else {
        return;
    };
    let Some((caller, call)) = emitter.memory.calls.get(child).cloned() else { return };
    let status = match metadata.state.as_deref() {
        Some("completed") | None => CompletedStatus::Completed,
        Some(_) => CompletedStatus::Error,
    };
    emitter.emit(
        &caller,
        Payload::SubagentCompleted(SubagentCompleted {
            tool_use_id: (&*call).into(),
            agent_id: Some(AgentId::from(child)),
            subagent_id: None,
            status,
            output: text.map(|text| Json::string(untagged(text))),
            duration_ms: None,
            unplaced: false,
        }),
    );
}

/// Returns what a subagent answered.
fn answer(content: &RawValue) -> String {
    #[derive(serde::Deserialize)]
    struct Text {
        #[serde(default)]
        text: String,
    }
    match serde_json::from_str::<Vec<Text>>(content.get()) {
        Ok(texts) => untagged(&texts.into_iter().map(|it| it.text).collect::<String>()).to_owned(),
        Err(_) => content.get().to_owned(),
    }
}

/// Returns the answer of a subagent without the tag around it; versions have different ones.
pub(in crate::opencode) fn untagged(text: &str) -> &str {
    for (tag, end) in [("<subagent ", "</subagent>"), ("<task_result", "</task_result>")] {
        let inside = text.split_once(tag).and_then(|(_, rest)| rest.split_once('>'));
        if let Some((_, inside)) = inside {
            return inside.rsplit_once(end).map_or(inside, |(inside, _)| inside).trim();
        }
    }
    text
}

fn failure_text(error: &RawValue) -> Json {
    let read: Option<Failure<'_>> = serde_json::from_str(error.get()).ok();
    match read.and_then(|it| it.message) {
        Some(message) => Json::string(&message),
        None => error.into(),
    }
}

/// A command that a person typed.
#[derive(Debug, Default)]
pub(super) struct TypedCommand<'a> {
    pub(super) shell: &'a str,
    pub(super) command: &'a str,
    pub(super) status: &'a str,
    pub(super) exit: Option<&'a RawValue>,
    pub(super) output: Option<&'a RawValue>,
    pub(super) time: Time,
}

impl TypedCommand<'_> {
    /// Emits the command as a call that no model made, and its output.
    pub(super) fn emit(&self, emitter: &mut Emitter<'_>, place: &Place) {
        #[derive(serde::Serialize)]
        struct Input<'a> {
            command: &'a str,
        }
        #[derive(serde::Deserialize)]
        struct Output {
            output: Arc<str>,
        }
        let mut block = Block::new(
            &*place.message,
            ToolUseBlock {
                tool_name: "shell".into(),
                tool_use_id: self.shell.into(),
                input: Some(Json::of(&Input { command: self.command })),
                input_text: None,
                display_name: Some("typed command".into()),
                description: None,
            },
        );
        block.status = BlockStatus::Pending;
        emitter.emit_at(place, place.whole(), at(block, self.time.created));
        if self.status == "running" {
            return;
        }
        let output = self.output.and_then(|raw| serde_json::from_str::<Output>(raw.get()).ok());
        let has_failed = self.status != "exited" || self.exit.is_some_and(|exit| exit.get() != "0");
        let body = ToolResultBlock {
            tool_use_id: self.shell.into(),
            output: output.map(|it| Json::string(&it.output)),
            is_error: has_failed,
            duration_ms: None,
        };
        let id = format!("result:{}", place.message);
        let mut block = at(Block::new(id, body), self.time.completed);
        block.metadata.insert("status", Json::string(self.status));
        if let Some(exit) = self.exit {
            block.metadata.insert("exit", exit.into());
        }
        emitter.emit_at(place, place.after(0), block);
    }
}
