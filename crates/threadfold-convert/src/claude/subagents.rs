//! Subagents: the call, the subagent that it starts, and its result.
//!
//! Stream and files report these in any order, and none of them alone is complete: what is known
//! is collected by call, and `subagent:spawned` is emitted again whenever more is known.

use std::sync::Arc;

use serde_json::value::RawValue;
use threadfold_core::{
    AgentId, BlockId, CompletedStatus, ConversationId, Json, Payload, RemoveReason,
    SubagentCompleted, SubagentSpawned,
};

use super::emitter::Emitter;
use super::memory::{AgentCall, call_id, key};
use super::notifications::emit_pending_end;
use super::usage::emit_usage_of_subagent;
use super::wire::{AgentInput, AgentMeta, AgentResult, Content, ContentBlock, Line, MessageInput};

/// Returns whether calls of this tool start subagents.
pub(super) fn is_agent_tool(name: &str) -> bool {
    matches!(name, "Task" | "Agent")
}

/// Remembers a call that starts a subagent.
pub(super) fn remember_call(emitter: &mut Emitter<'_>, call: &str, input: Option<&RawValue>) {
    let input: AgentInput<'_> =
        input.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    let prompt: Option<Arc<str>> = input.prompt.as_deref().map(Into::into);
    let known = emitter.memory.calls.get(call);
    let agent = known.and_then(|known| known.agent.clone()).or_else(|| {
        // The subagent's file may have been read before its caller's.
        let prompt = prompt.as_ref().filter(|_| !emitter.is_stream)?;
        emitter.memory.openings.unlinked(prompt).cloned()
    });
    let spawned = agent.is_some() || known.is_some_and(|known| known.spawned);
    let entry = AgentCall {
        caller: Some(emitter.conversation.clone()),
        prompt: prompt.clone(),
        subagent_type: input.subagent_type.as_deref().map(Into::into),
        description: input.description.as_deref().map(Into::into),
        background: input.run_in_background || known.is_some_and(|known| known.background),
        agent,
        spawned,
        interruption: known.and_then(|known| known.interruption.clone()),
        reported: known.is_some_and(|known| known.reported),
        resumes: false,
    };
    emitter.memory.calls.insert(call.into(), entry);
    // The stream names the call on each line of a subagent; only files need the prompt as a link.
    if let Some(prompt) = prompt.filter(|_| !emitter.is_stream) {
        emitter.memory.waiting.add(prompt, call.into());
    }
}

/// Returns whether calls of this tool send messages to subagents.
pub(super) fn is_message_tool(name: &str) -> bool {
    name == "SendMessage"
}

/// Remembers a call that sends a message to a subagent: it may run the subagent again.
pub(super) fn remember_message(emitter: &mut Emitter<'_>, call: &str, input: Option<&RawValue>) {
    let input: MessageInput<'_> =
        input.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    let known = emitter.memory.calls.get(call);
    let words = input.message.or(input.content).and_then(|raw| Json::from(raw).to_text());
    let entry = AgentCall {
        caller: Some(emitter.conversation.clone()),
        prompt: words.map(Into::into),
        subagent_type: known.and_then(|known| known.subagent_type.clone()),
        description: input.summary.as_deref().map(Into::into),
        background: true,
        agent: known.and_then(|known| known.agent.clone()),
        spawned: known.is_some_and(|known| known.spawned),
        interruption: None,
        reported: known.is_some_and(|known| known.reported),
        resumes: true,
    };
    emitter.memory.calls.insert(call.into(), entry);
}

/// Emits the subagents of the line's calls that were known before the calls themselves.
///
/// A subagent may be reported before its call; its event must follow the call's block, because
/// the reducer turns that block into the subagent.
pub(super) fn emit_known_subagents(emitter: &mut Emitter<'_>, line: &Line<'_>) {
    let Some(Content::Blocks(blocks)) = line.message.as_ref().map(|message| &message.content)
    else {
        return;
    };
    for call in blocks.iter().filter_map(|block| block.id.as_deref()) {
        if emitter.memory.calls.get(call).is_some_and(|known| known.spawned) {
            emit_spawned(emitter, call);
        }
    }
}

/// Emits that a call started a subagent.
pub(super) fn emit_spawned(emitter: &mut Emitter<'_>, call: &str) {
    spawn(emitter, call, None);
}

/// Emits that a call started the subagent `agent`.
pub(super) fn emit_spawned_as(emitter: &mut Emitter<'_>, call: &str, agent: &str) {
    spawn(emitter, call, Some(agent));
}

fn spawn(emitter: &mut Emitter<'_>, call: &str, agent: Option<&str>) {
    let known = emitter.memory.calls.entry(call.into()).or_insert_with(|| AgentCall {
        caller: None,
        prompt: None,
        subagent_type: None,
        description: None,
        background: false,
        agent: None,
        spawned: false,
        interruption: None,
        reported: false,
        resumes: false,
    });
    known.spawned = true;
    known.reported = true;
    if let Some(agent) = agent {
        known.agent = Some(agent.into());
    }
    let mut known = known.clone();
    if known.resumes && known.subagent_type.is_none() {
        known.subagent_type = type_of_agent(emitter, known.agent.as_deref());
        emitter.memory.calls.insert(call.into(), known.clone());
    }
    if let Some(agent) = &known.agent {
        emitter.memory.link_agent(agent.clone(), call.into());
        stop_waiting(emitter, call);
    }
    let unplaced = known.caller.is_none();
    let caller = known.caller.unwrap_or_else(ConversationId::main);
    emitter.emit_in(
        &caller,
        Payload::SubagentSpawned(SubagentSpawned {
            agent_id: known.agent.as_deref().map(AgentId::from),
            prompt: known.prompt,
            subagent_type: known.subagent_type,
            description: known.description,
            background: known.background,
            unplaced,
            ..SubagentSpawned::by(call)
        }),
    );
    emit_pending_end(emitter, call, known.agent.as_deref());
}

/// Returns the type of a subagent, from its earlier call.
fn type_of_agent(emitter: &Emitter<'_>, agent: Option<&str>) -> Option<Arc<str>> {
    let earlier = emitter.memory.agents.get(agent?)?;
    emitter.memory.calls.get(earlier)?.subagent_type.clone()
}

fn stop_waiting(emitter: &mut Emitter<'_>, call: &str) {
    if !emitter.is_stream {
        emitter.memory.waiting.remove(call);
    }
}

/// Emits the subagent of a streamed line, if this line is the first to reveal it or its id.
pub(super) fn observe_subagent(emitter: &mut Emitter<'_>, call: &str, agent: Option<&str>) {
    let is_new = match emitter.memory.calls.get(call) {
        Some(known) => !known.spawned || (agent.is_some() && known.agent.as_deref() != agent),
        // The call is not known yet, and a caller is never guessed: the subagent is unplaced.
        None => true,
    };
    if is_new {
        spawn(emitter, call, agent);
    }
}

/// Reads the metadata file beside a subagent's file.
pub(super) fn read_meta(emitter: &mut Emitter<'_>, agent: &AgentId, text: &str) {
    let Ok(meta) = serde_json::from_str::<AgentMeta<'_>>(text) else {
        emitter.report_loss("the metadata beside a subagent's file is not readable");
        return;
    };
    let Some(call) = meta.tool_use_id.as_deref() else { return };
    let caller = meta.parent_agent_id.as_deref().map(ConversationId::from);
    let background = meta.request_shape.as_deref() == Some("background");
    let known = emitter.memory.calls.get_mut(call);
    let is_call_known = known.is_some();
    match known {
        Some(known) => {
            known.background |= background;
            known.agent = Some(agent.bare().into());
            known.spawned = true;
        }
        None => {
            let entry = AgentCall {
                caller,
                prompt: None,
                subagent_type: meta.agent_type.as_deref().map(Into::into),
                description: meta.description.as_deref().map(Into::into),
                background,
                agent: Some(agent.bare().into()),
                spawned: true,
                interruption: None,
                reported: false,
                resumes: false,
            };
            emitter.memory.calls.insert(call.into(), entry);
        }
    }
    emitter.memory.link_agent(agent.bare().into(), call.into());
    // Metadata is usually read before the main file; the event then waits for the call's block.
    if is_call_known {
        emit_spawned_as(emitter, call, agent.bare());
    }
}

/// Converts the result of a subagent's call. Returns whether the call started a subagent: its
/// result is then part of the subagent's block, and not a block of its own.
pub(super) fn convert_agent_result(
    emitter: &mut Emitter<'_>,
    line: &Line<'_>,
    call: &str,
    block: &ContentBlock<'_>,
) -> bool {
    let Some(known) = emitter.memory.calls.get_mut(call) else { return false };
    let structured: Option<AgentResult<'_>> =
        line.tool_use_result.and_then(|raw| serde_json::from_str(raw.get()).ok());
    let is_error = block.is_error.unwrap_or(false);
    let words = block.content.map(|content| plain_text(content, 0));
    let text = words.as_ref().and_then(Json::to_text);
    if known.resumes {
        let by_text = || resumed_agent(text.as_deref()?);
        let by_field = structured.as_ref().and_then(|result| result.resumed_agent_id.as_deref());
        if let Some(agent) = by_field.map(str::to_owned).or_else(by_text) {
            spawn(emitter, call, Some(&agent));
        }
        // The answer to the message is a result like any other.
        return false;
    }
    // Results within subagents have no structured form in files.
    let launch = text.as_deref().filter(|text| text.starts_with("Async agent launched"));
    let agent_in_text = launch.and_then(agent_in_launch);
    let agent = structured.as_ref().and_then(|result| result.agent_id.as_deref());
    let agent = agent.or(agent_in_text);
    if is_error && agent.is_none() && !known.spawned {
        match text.as_deref().is_some_and(is_interruption) && !emitter.is_stream {
            // Up to 2.1.120, nothing in the files names the subagent of such a call.
            true => known.interruption = words,
            false => stop_waiting(emitter, call),
        }
        return false;
    }
    let is_launched = launch.is_some()
        || structured.as_ref().is_some_and(|result| {
            result.is_async || result.status.as_deref() == Some("async_launched")
        });
    if is_launched {
        known.background = true;
    }
    spawn(emitter, call, agent);
    // The result of a background call only confirms the launch; the outcome comes later.
    if is_launched {
        return true;
    }
    if emitter.is_stream {
        let usage = structured.as_ref().and_then(|result| result.usage);
        emit_usage_of_subagent(emitter, [Some(call), agent], usage);
    }
    let output = match &structured {
        Some(AgentResult { content: Some(content), harness_note_count, .. }) => {
            plain_text(content, *harness_note_count)
        }
        _ => words.unwrap_or(Json::string("")),
    };
    let status = if is_error { CompletedStatus::Error } else { CompletedStatus::Completed };
    let duration_ms = structured.and_then(|result| result.total_duration_ms);
    emit_completed(emitter, call, Completion { status, output: Some(output), duration_ms });
    true
}

/// Returns whether the text of a result is that of a call which a person interrupted.
fn is_interruption(text: &str) -> bool {
    let openings = ["[Request interrupted", "The user doesn't want to proceed with this tool use"];
    openings.iter().any(|opening| text.starts_with(opening))
}

/// Emits how a call ended that was interrupted, if its subagent was found after the answer: the
/// answer is then the subagent's, and not a block of its own.
pub(super) fn end_interrupted(emitter: &mut Emitter<'_>, call: &str) {
    let Some(known) = emitter.memory.calls.get_mut(call) else { return };
    let Some(output) = known.interruption.take() else { return };
    let caller = known.caller.clone().unwrap_or_else(ConversationId::main);
    let result = BlockId::from(["result:", call].concat());
    emitter.emit_remove_in(&caller, result, RemoveReason::Superseded);
    let status = CompletedStatus::Error;
    emit_completed(emitter, call, Completion { status, output: Some(output), duration_ms: None });
}

/// Returns the subagent's id in the text that confirms a launch.
fn agent_in_launch(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("agentId: ")?;
    let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(rest.len());
    Some(&rest[..end]).filter(|id| !id.is_empty())
}

/// Returns the subagent that a message ran again, from the text of its result.
fn resumed_agent(text: &str) -> Option<String> {
    let result: AgentResult<'_> = serde_json::from_str(text).ok()?;
    result.resumed_agent_id.map(|id| id.to_string())
}

/// Returns content as one text if all its blocks are text, without the harness's leading notes.
fn plain_text(content: &RawValue, notes: usize) -> Json {
    if content.get().starts_with('"') {
        return content.into();
    }
    let Ok(blocks) = serde_json::from_str::<Vec<&RawValue>>(content.get()) else {
        return content.into();
    };
    let blocks = blocks.get(notes.min(blocks.len())..).unwrap_or(&[]);
    let texts: Option<Vec<String>> = blocks
        .iter()
        .map(|raw| {
            let block: ContentBlock<'_> = serde_json::from_str(raw.get()).ok()?;
            let is_text = block.kind.as_deref() == Some("text");
            is_text.then(|| block.text.as_deref().unwrap_or("").to_owned())
        })
        .collect();
    match texts {
        Some(texts) => Json::string(&texts.join("\n")),
        None => Json::of(&blocks),
    }
}

/// How a subagent ended.
pub(super) struct Completion {
    pub(super) status: CompletedStatus,
    pub(super) output: Option<Json>,
    pub(super) duration_ms: Option<u64>,
}

/// Emits how a subagent ended.
pub(super) fn emit_completed(emitter: &mut Emitter<'_>, call: &str, completion: Completion) {
    let Some(known) = emitter.memory.calls.get(call).cloned() else { return };
    let agent_id = known.agent.as_deref().map(AgentId::from);
    let Completion { status, output, duration_ms } = completion;
    let unplaced = known.caller.is_none();
    let caller = known.caller.unwrap_or_else(ConversationId::main);
    emitter.emit_in(
        &caller,
        Payload::SubagentCompleted(SubagentCompleted {
            tool_use_id: call_id(call),
            agent_id,
            subagent_id: None,
            status,
            output,
            duration_ms,
            unplaced,
        }),
    );
    // A file closes the subagent's conversation at its own end, and a stream has no such end.
    if emitter.is_stream {
        emitter.emit_idle_in(&ConversationId::from(call));
    }
}

/// Removes and returns the first waiting call with this prompt.
///
/// This is the fallback where no id links a subagent to its call. Each call is used once, so that
/// two subagents with the same prompt get two calls, in their order.
pub(super) fn take_call_by_prompt(emitter: &mut Emitter<'_>, prompt: &str) -> Option<Arc<str>> {
    emitter.memory.waiting.take(prompt)
}

/// Returns the conversation of a file's line.
pub(super) fn conversation_of(
    emitter: &mut Emitter<'_>,
    line: &Line<'_>,
    subagent: Option<&AgentId>,
) -> ConversationId {
    if let Some(agent) = subagent {
        return ConversationId::from(agent.bare());
    }
    if !line.is_sidechain {
        return emitter.conversation.clone();
    }
    sidechain_conversation(emitter, line)
}

/// Returns the conversation of a subagent's line in the main file, as 1.0 stores them.
///
/// Such a line names neither subagent nor call: it belongs where its parent line belongs, and the
/// first line of a subagent is linked to its call by the prompt.
fn sidechain_conversation(emitter: &mut Emitter<'_>, line: &Line<'_>) -> ConversationId {
    let uuid = line.uuid.as_deref().unwrap_or("");
    let above = line
        .parent_uuid
        .as_deref()
        .and_then(|parent| emitter.memory.sidechains.get(&key(parent)).cloned());
    let conversation = above.unwrap_or_else(|| {
        let prompt = opening(line);
        let call = prompt.as_deref().and_then(|prompt| take_call_by_prompt(emitter, prompt));
        match call {
            Some(call) => {
                emitter.conversation = ConversationId::main();
                emit_spawned(emitter, &call);
                ConversationId::from(&*call)
            }
            None => ConversationId::from(line.agent_id.as_deref().unwrap_or(uuid)),
        }
    });
    emitter.memory.sidechains.insert(key(uuid), conversation.clone());
    conversation
}

/// Returns the first text of a line: of a subagent's first line, its prompt.
pub(super) fn opening(line: &Line<'_>) -> Option<String> {
    match &line.message.as_ref()?.content {
        Content::Text(words) => Some(words.to_string()),
        Content::Blocks(blocks) => {
            blocks.iter().find_map(|it| Some(it.text.as_deref()?.to_owned()))
        }
        Content::None => None,
    }
}
