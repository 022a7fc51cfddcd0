//! Subagents: the call, the agent it made, and how it ended, in whatever order they are told.

use std::sync::Arc;

use serde_json::value::RawValue;
use threadfold_core::{
    AgentId, CompletedStatus, ConversationId, Json, Payload, SubagentCompleted, SubagentSpawned,
};

use super::emitter::Emitter;
use super::memory::{AgentCall, call_id};
use super::wire::{AgentInput, AgentMeta, AgentResult, ContentBlock, Line};

/// Says whether calls of this tool make subagents.
pub(super) fn is_agent_tool(name: &str) -> bool {
    matches!(name, "Task" | "Agent")
}

/// Hears a call that asks for a subagent.
pub(super) fn asked(emitter: &mut Emitter<'_>, call: &str, input: Option<&RawValue>) {
    let asked: AgentInput<'_> =
        input.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    let prompt: Option<Arc<str>> = asked.prompt.as_deref().map(Into::into);
    let known = emitter.memory.calls.get(call);
    let agent = known.and_then(|known| known.agent.clone()).or_else(|| {
        // The subagent's file may have been read before its caller's.
        let prompt = prompt.as_ref().filter(|_| !emitter.is_stream)?;
        let unlinked = |(agent, words): &(&Arc<str>, &Arc<str>)| {
            *words == prompt && !emitter.memory.agents.contains_key(*agent)
        };
        emitter.memory.openings.iter().filter(unlinked).map(|(agent, _)| agent.clone()).min()
    });
    let spawned = agent.is_some() || known.is_some_and(|known| known.spawned);
    let entry = AgentCall {
        caller: emitter.conversation.clone(),
        prompt: prompt.clone(),
        subagent_type: asked.subagent_type.as_deref().map(Into::into),
        description: asked.description.as_deref().map(Into::into),
        background: asked.run_in_background || known.is_some_and(|known| known.background),
        agent,
        spawned,
        failed: known.is_some_and(|known| known.failed),
    };
    emitter.memory.calls.insert(call.into(), entry);
    // Only a file needs to tie a subagent to its call by its words.
    let waits = |(_, waiting): &(Arc<str>, Arc<str>)| **waiting == *call;
    if let Some(prompt) =
        prompt.filter(|_| !emitter.is_stream && !emitter.memory.waiting.iter().any(waits))
    {
        emitter.memory.waiting.push((prompt, call.into()));
    }
}

/// Tells of a subagent once its call stands in the conversation.
pub(super) fn tell_if_known(emitter: &mut Emitter<'_>, call: &str) {
    if emitter.memory.calls.get(call).is_some_and(|known| known.spawned) {
        spawned(emitter, call, None);
    }
}

/// Tells that a call made a subagent.
pub(super) fn spawned(emitter: &mut Emitter<'_>, call: &str, agent: Option<&str>) {
    let caller = emitter.conversation.clone();
    let known = emitter.memory.calls.entry(call.into()).or_insert_with(|| AgentCall {
        caller,
        prompt: None,
        subagent_type: None,
        description: None,
        background: false,
        agent: None,
        spawned: false,
        failed: false,
    });
    known.spawned = true;
    if let Some(agent) = agent {
        known.agent = Some(agent.into());
    }
    let known = known.clone();
    if let Some(agent) = &known.agent {
        emitter.memory.agents.insert(agent.clone(), call.into());
        waits_no_more(emitter, call);
    }
    emitter.emit_in(
        &known.caller,
        Payload::SubagentSpawned(SubagentSpawned {
            agent_id: known.agent.as_deref().map(AgentId::from),
            prompt: known.prompt,
            subagent_type: known.subagent_type,
            description: known.description,
            background: known.background,
            ..SubagentSpawned::by(call)
        }),
    );
}

fn waits_no_more(emitter: &mut Emitter<'_>, call: &str) {
    if !emitter.is_stream {
        emitter.memory.waiting.retain(|(_, waiting)| **waiting != *call);
    }
}

/// Hears that a task began, from the stream.
pub(super) fn task_started(emitter: &mut Emitter<'_>, line: &Line<'_>) {
    let (Some(call), Some(task)) = (line.tool_use_id.as_deref(), line.task_id.as_deref()) else {
        return;
    };
    if line.task_type.as_deref().is_some_and(|kind| kind != "local_agent") {
        return;
    }
    let caller = line.parent_task_id.as_deref().map(ConversationId::from);
    let known = emitter.memory.calls.get_mut(call);
    match known {
        Some(known) => known.background |= line.is_backgrounded,
        None => {
            let entry = AgentCall {
                caller: caller.unwrap_or_else(ConversationId::main),
                prompt: line.prompt.as_deref().map(Into::into),
                subagent_type: line.subagent_type.as_deref().map(Into::into),
                description: line.description.as_deref().map(Into::into),
                background: line.is_backgrounded,
                agent: None,
                spawned: false,
                failed: false,
            };
            emitter.memory.calls.insert(call.into(), entry);
        }
    }
    spawned(emitter, call, Some(task));
}

/// Hears from a subagent for the first time, by the call that made it.
pub(super) fn heard(emitter: &mut Emitter<'_>, call: &str, agent: Option<&str>) {
    let new = match emitter.memory.calls.get(call) {
        Some(known) => !known.spawned || (agent.is_some() && known.agent.as_deref() != agent),
        None => false,
    };
    if new {
        spawned(emitter, call, agent);
    }
}

/// Hears what is noted beside a subagent's file.
pub(super) fn meta(emitter: &mut Emitter<'_>, agent: &AgentId, text: &str) {
    let Ok(noted) = serde_json::from_str::<AgentMeta<'_>>(text) else {
        emitter.report_loss("the notes beside a subagent's file are not readable");
        return;
    };
    let Some(call) = noted.tool_use_id.as_deref() else { return };
    let caller = noted.parent_agent_id.as_deref().map(ConversationId::from);
    let background = noted.request_shape.as_deref() == Some("background");
    let known = emitter.memory.calls.get_mut(call);
    let stands = known.is_some();
    match known {
        Some(known) => {
            known.background |= background;
            known.agent = Some(agent.bare().into());
            known.spawned = true;
        }
        None => {
            let entry = AgentCall {
                caller: caller.unwrap_or_else(ConversationId::main),
                prompt: None,
                subagent_type: noted.agent_type.as_deref().map(Into::into),
                description: noted.description.as_deref().map(Into::into),
                background,
                agent: Some(agent.bare().into()),
                spawned: true,
                failed: false,
            };
            emitter.memory.calls.insert(call.into(), entry);
        }
    }
    emitter.memory.agents.insert(agent.bare().into(), call.into());
    if stands {
        spawned(emitter, call, Some(agent.bare()));
    }
}

/// Hears the result of a call. Says whether it is a subagent's, and so no block of its own.
pub(super) fn answered(
    emitter: &mut Emitter<'_>,
    line: &Line<'_>,
    call: &str,
    block: &ContentBlock<'_>,
) -> bool {
    let Some(known) = emitter.memory.calls.get_mut(call) else { return false };
    let structured: Option<AgentResult<'_>> =
        line.tool_use_result.and_then(|raw| serde_json::from_str(raw.get()).ok());
    let failed = block.is_error.unwrap_or(false);
    let agent = structured.as_ref().and_then(|result| result.agent_id.as_deref());
    if failed && agent.is_none() && !known.spawned {
        known.failed = true;
        waits_no_more(emitter, call);
        return false;
    }
    let launched = structured.as_ref().is_some_and(|result| {
        result.is_async || result.status.as_deref() == Some("async_launched")
    });
    if launched {
        known.background = true;
    }
    spawned(emitter, call, agent);
    if launched {
        return true;
    }
    let output = match &structured {
        Some(AgentResult { content: Some(content), harness_note_count, .. }) => {
            words(content, *harness_note_count)
        }
        _ => block.content.map(|content| words(content, 0)).unwrap_or(Json::string("")),
    };
    let duration_ms = structured.and_then(|result| result.total_duration_ms);
    completed(emitter, call, failed, Some(output), duration_ms);
    true
}

/// Returns content as text where it is nothing but text, without the harness's first notes.
fn words(content: &RawValue, notes: usize) -> Json {
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

/// Tells how a subagent ended.
pub(super) fn completed(
    emitter: &mut Emitter<'_>,
    call: &str,
    failed: bool,
    output: Option<Json>,
    duration_ms: Option<u64>,
) {
    let Some(known) = emitter.memory.calls.get(call).cloned() else { return };
    let agent_id = known.agent.as_deref().map(AgentId::from);
    emitter.emit_in(
        &known.caller,
        Payload::SubagentCompleted(SubagentCompleted {
            tool_use_id: call_id(call),
            agent_id,
            subagent_id: None,
            status: if failed { CompletedStatus::Error } else { CompletedStatus::Completed },
            output,
            duration_ms,
        }),
    );
    if emitter.is_stream {
        emitter.emit_idle_in(&ConversationId::from(call));
    }
}

/// Hears from the stream that a task ended. A foreground one is answered by its result.
pub(super) fn task_ended(emitter: &mut Emitter<'_>, line: &Line<'_>) {
    let status = line
        .status
        .as_deref()
        .or_else(|| line.patch.as_ref().and_then(|patch| patch.status.as_deref()));
    let failed = match status {
        Some("completed") => false,
        Some("failed" | "stopped" | "killed") => true,
        _ => return,
    };
    let task = line.task_id.as_deref().unwrap_or("");
    let Some(call) = emitter.memory.agents.get(task).cloned() else { return };
    if emitter.memory.calls.get(&call).is_none_or(|known| !known.background) {
        return;
    }
    #[derive(serde::Deserialize)]
    struct Usage {
        duration_ms: Option<u64>,
    }
    let usage: Option<Usage> = line.usage.and_then(|raw| serde_json::from_str(raw.get()).ok());
    let output = line.summary.as_deref().map(Json::string);
    completed(emitter, &call, failed, output, usage.and_then(|usage| usage.duration_ms));
}

/// Hears from a file that a task ended: the harness tells the model so.
pub(super) fn notified(emitter: &mut Emitter<'_>, text: &str) {
    let tag = |name: &str| -> Option<&str> {
        let start = text.find(&format!("<{name}>"))? + name.len() + 2;
        let end = text[start..].rfind(&format!("</{name}>"))? + start;
        Some(&text[start..end])
    };
    let by_task = tag("task-id").and_then(|task| emitter.memory.agents.get(task).cloned());
    let Some(call) = by_task.or_else(|| tag("tool-use-id").map(Into::into)) else { return };
    if emitter.memory.calls.get(&call).is_none_or(|known| !known.spawned) {
        return;
    }
    let failed = tag("status").is_some_and(|status| status != "completed");
    let output = tag("result").map(Json::string);
    let duration_ms = tag("duration_ms").and_then(|text| text.parse().ok());
    completed(emitter, &call, failed, output, duration_ms);
}

/// Finds the call of a subagent by its first words, where nothing else tells.
pub(super) fn call_of_opening(emitter: &mut Emitter<'_>, words: &str) -> Option<Arc<str>> {
    let place = emitter.memory.waiting.iter().position(|(prompt, _)| **prompt == *words)?;
    Some(emitter.memory.waiting.remove(place).1)
}
