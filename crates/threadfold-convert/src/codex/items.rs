//! Items: what all three views report of a turn, in one form.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::value::RawValue;
use threadfold_core::{
    Block, BlockId, Content, Fields, ImagePart, Json, Part, PartBody, SystemBlock, UserMessageBlock,
};

use super::compaction;
use super::emitter::Emitter;
use super::files;
use super::names;
use super::outputs;
use super::subagents::{self, SpawnReport};
use super::tools::{self, CallReport, ResultReport};
use super::wire::{AgentState, Item, ItemKind, Object, with_underscores};

/// How far an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Started,
    Completed,
}

/// Returns the name of the tool that an item is a call of; nothing if it is no call.
pub(super) fn tool_name(item: &Item<'_>) -> Option<Cow<'static, str>> {
    let fixed = match item.kind {
        ItemKind::Command if is_of_user(item) => Some("user_shell"),
        ItemKind::Command => Some("exec_command"),
        ItemKind::FileChange => Some("apply_patch"),
        ItemKind::WebSearch => Some("web_search"),
        ItemKind::ImageView => Some("view_image"),
        ItemKind::ImageGeneration => Some("image_generation"),
        _ => None,
    };
    if let Some(name) = fixed {
        return Some(Cow::Borrowed(name));
    }
    Some(Cow::Owned(match item.kind {
        ItemKind::Mcp => {
            let invocation = item.fields().object("invocation");
            let field = |name| item.text(name).or_else(|| invocation.as_ref()?.text(name));
            format!("mcp__{}__{}", field("server")?, field("tool")?)
        }
        ItemKind::Dynamic => match item.text("namespace") {
            Some(namespace) => format!("{namespace}.{}", item.text("tool")?),
            None => item.text("tool")?.into_owned(),
        },
        ItemKind::Collaboration => match with_underscores(&item.text("tool")?).as_str() {
            "wait" => "wait_agent".to_owned(),
            other => other.to_owned(),
        },
        _ => return None,
    }))
}

/// Returns whether a person ran the command, and not the model.
fn is_of_user(item: &Item<'_>) -> bool {
    item.text("source").is_some_and(|it| with_underscores(&it) == "user_shell")
}

/// Returns the arguments of a call, where its item has them as the model wrote them.
pub(super) fn tool_input(item: &Item<'_>) -> Option<Json> {
    match item.kind {
        ItemKind::Mcp | ItemKind::Dynamic => {
            let invocation = item.fields().object("invocation");
            let own = item.get("arguments");
            own.or_else(|| invocation?.get("arguments")).map(Json::from)
        }
        ItemKind::WebSearch => search_input(item.fields()),
        ItemKind::ImageView => {
            let path = item.get("path")?;
            Json::parse(&format!("{{\"path\":{}}}", path.get())).ok()
        }
        _ => None,
    }
}

/// Returns what was searched for; views differ in the fields that they leave out.
pub(super) fn search_input(search: &Object<'_>) -> Option<Json> {
    let action = search.object("action")?;
    let mut input = Fields::default();
    for (name, value) in action.fields().filter(|(_, value)| value.get() != "null") {
        input.insert(name, Json::from(value));
    }
    Some(Json::of(&input))
}

/// Returns a call as its item reports it.
pub(super) fn call_of(item: &Item<'_>, id: &str, name: &str) -> CallReport {
    CallReport {
        id: id.into(),
        name: name.into(),
        input: tool_input(item),
        script: item.script().filter(|_| item.kind == ItemKind::Command).map(Into::into),
        is_rejected: is_rejected(item),
        is_unlisted: false,
    }
}

/// Returns whether a person did not let the call run.
fn is_rejected(item: &Item<'_>) -> bool {
    item.text("status").as_deref() == Some("declined")
}

/// Returns the result of a call as its item reports it.
pub(super) fn result_of(item: &Item<'_>) -> ResultReport {
    let status = item.text("status");
    let failed = matches!(status.as_deref(), Some("failed" | "declined" | "error"));
    let mut result = ResultReport {
        is_error: failed,
        duration_ms: item.duration_ms(),
        ..ResultReport::default()
    };
    match item.kind {
        ItemKind::Command => {
            result.output = item.get("aggregated_output").and_then(outputs::command_output);
            result.exit_code = item.fields().signed("exit_code");
            result.is_error |= result.exit_code.is_some_and(|it| it != 0);
            result.is_rejected = status.as_deref() == Some("declined");
        }
        ItemKind::FileChange => {
            let changes = item.changes();
            result.output = tools::changed_files(&changes);
            result.diffs = tools::diffs(&changes);
            let success = item.get("success").map(RawValue::get);
            result.is_error |= success == Some("false");
        }
        ItemKind::Mcp => {
            let (output, is_error) = server_result(item);
            result.output = output;
            result.is_error |= is_error;
        }
        ItemKind::Dynamic => {
            let content = item.get("content_items").map(Json::from);
            result.output = content;
            result.is_error |= item.get("success").map(RawValue::get) == Some("false");
        }
        ItemKind::Collaboration => {
            let states = item.agent_states().unwrap_or_default();
            result.output = Some(states_output(&states));
        }
        ItemKind::ImageGeneration => {
            result.output = item.text("result").as_deref().map(Json::string);
        }
        _ => {}
    }
    result
}

/// Returns the states of subagents in the form of a rollout.
pub(super) fn states_output<'a>(
    states: impl IntoIterator<Item = (&'a String, &'a AgentState)>,
) -> Json {
    let mut all = Fields::default();
    for (thread, state) in states {
        let value = match &state.message {
            None => Json::string(&state.status),
            Some(message) => {
                let mut fields = Fields::default();
                fields.insert(&state.status, Json::string(message));
                Json::of(&fields)
            }
        };
        all.insert(thread, value);
    }
    Json::of(&all)
}

/// Returns what an MCP server returned: its structured result, else its content.
fn server_result(item: &Item<'_>) -> (Option<Json>, bool) {
    if let Some(error) = item.get("error") {
        return (Some(Json::from(error)), true);
    }
    let Some(result) = item.fields().object("result") else { return (None, false) };
    // Events of older rollouts have the result inside `Ok` or `Err`.
    if let Some(error) = result.get("Err") {
        return (Some(Json::from(error)), true);
    }
    let result = result.object("Ok").unwrap_or(result);
    let output = result.get("structured_content").or_else(|| result.get("content"));
    (output.map(Json::from), result.is_true("is_error"))
}

/// Converts an item that is a call, in a view that has its id.
pub(super) fn convert_call(emitter: &mut Emitter<'_>, item: &Item<'_>, stage: Stage) -> bool {
    let (Some(id), Some(name)) = (item.id(), tool_name(item)) else { return false };
    if item.kind == ItemKind::WebSearch {
        return convert_search(emitter, item, &id, stage);
    }
    let known = emitter.thread().calls.get(&*id).cloned();
    // Most items follow their call, and repeat it.
    let call = || call_of(item, &id, &name);
    match &known {
        None => {
            let call = call();
            let replaces = store_name(emitter, item, &call);
            let new = super::memory::Call { name: call.name.clone(), ..Default::default() };
            emitter.thread().calls.insert(id.as_ref().into(), new);
            emitter.emit_renamed(tools::call_block(&call), replaces);
            tools::rename_result(emitter, &id);
        }
        // The item shows that live views list the call.
        Some(known) if known.is_unlisted => {
            emitter.emit_again(tools::call_block(&CallReport {
                input: known.input.clone(),
                ..call()
            }));
            if let Some(known) = emitter.thread().calls.get_mut(&*id) {
                known.is_unlisted = false;
            }
        }
        Some(_) if emitter.is_stream && is_rejected(item) => {
            emitter.emit_again(tools::call_block(&call()));
        }
        // A shell that ran a patch reports the patch.
        Some(known) if *known.name != *name && item.kind == ItemKind::FileChange => {
            let call = call();
            store_name(emitter, item, &call);
            let input = known.input.clone();
            emitter.emit_again(tools::call_block(&CallReport { input, ..call.clone() }));
            if let Some(known) = emitter.thread().calls.get_mut(&*id) {
                known.name = call.name.clone();
            }
        }
        Some(_) => {}
    }
    if item.kind == ItemKind::Collaboration {
        convert_collaboration(emitter, item, &id, &name, stage);
    }
    if stage == Stage::Started {
        return true;
    }
    // A call that was interrupted has its result; its item only follows because the process ended.
    let is_aborted = known.as_ref().is_some_and(|it| it.is_aborted);
    let is_spawn = emitter.thread().calls.get(&*id).is_some_and(|it| it.is_spawn);
    if let Some(call) = emitter.thread().calls.get_mut(&*id) {
        call.has_item = true;
        call.input = None;
    }
    if !is_aborted && !is_spawn {
        tools::emit_result(emitter, &id, result_of(item));
        files::emit_of_item(emitter, &id, item);
    }
    true
}

/// Converts a search of the web: the query is known when it ends.
fn convert_search(emitter: &mut Emitter<'_>, item: &Item<'_>, own: &str, stage: Stage) -> bool {
    if stage == Stage::Started {
        return true;
    }
    let has_no_ids = emitter.is_stream && emitter.memory.has_no_ids;
    let own = Some(own).filter(|_| !has_no_ids);
    let id = emitter.thread().name("web_search", own);
    let call = call_of(item, id.as_str(), "web_search");
    let replaces = store_name(emitter, item, &call);
    let new = super::memory::Call { name: call.name.clone(), has_item: true, ..Default::default() };
    emitter.thread().calls.insert(call.id.clone(), new);
    emitter.emit_renamed(tools::call_block(&call), replaces);
    tools::emit_result(emitter, id.as_str(), result_of(item));
    true
}

/// Notes the name of a call that only items report, for a stream without names.
fn store_name(emitter: &mut Emitter<'_>, item: &Item<'_>, call: &CallReport) -> Option<BlockId> {
    let content = content_of(item, call)?;
    names::store(emitter, &call.name, &content, &call.id)
}

/// Returns the content by which a stream without names finds a call.
pub(super) fn content_of(item: &Item<'_>, call: &CallReport) -> Option<String> {
    Some(match item.kind {
        ItemKind::Command => call.script.as_deref()?.to_owned(),
        ItemKind::FileChange => tools::changed_files(&item.changes())?.as_str().to_owned(),
        ItemKind::Collaboration if &*call.name == "spawn_agent" => {
            item.text("prompt").unwrap_or_default().into_owned()
        }
        ItemKind::Collaboration => String::new(),
        _ => call.input.as_ref().map(Json::canonical).unwrap_or_default(),
    })
}

fn convert_collaboration(
    emitter: &mut Emitter<'_>,
    item: &Item<'_>,
    id: &str,
    name: &str,
    stage: Stage,
) {
    let states = item.agent_states().unwrap_or_default();
    if name == "spawn_agent" && stage == Stage::Completed {
        let thread = item.fields().texts("receiver_thread_ids").into_iter().next();
        if let Some(thread) = thread.or_else(|| item.text("new_thread_id")) {
            let prompt = item.text("prompt");
            let spawn =
                SpawnReport { call: id, thread: &thread, prompt: prompt.as_deref(), role: None };
            subagents::emit_spawned(emitter, &spawn);
        }
    }
    if stage == Stage::Completed {
        subagents::emit_states(emitter, &states);
    }
}

/// Converts what a subagent does, as its caller sees it.
pub(super) fn convert_activity(emitter: &mut Emitter<'_>, item: &Item<'_>) -> bool {
    let id = item.text("event_id").or_else(|| item.id());
    let (Some(id), Some(thread)) = (id, item.text("agent_thread_id")) else { return false };
    let kind = item.text("kind").unwrap_or_default();
    let path = item.text("agent_path").unwrap_or_default();
    match &*kind {
        "started" => {
            if !emitter.thread().calls.contains_key(&*id) {
                let name: Arc<str> = "spawn_agent".into();
                let call = CallReport { id: id.as_ref().into(), name, ..CallReport::default() };
                emitter.emit_block(tools::call_block(&call));
            }
            let known = emitter.thread().calls.entry(id.as_ref().into()).or_default();
            known.is_spawn = true;
            let spawn = SpawnReport { call: &id, thread: &thread, prompt: None, role: Some(&path) };
            subagents::emit_spawned(emitter, &spawn);
        }
        "completed" => {}
        _ => {
            let subtype = "subagent_activity".into();
            let message = Some(format!("{kind} {path}").into());
            let block = Block::new(format!("activity:{id}"), SystemBlock { subtype, message });
            emitter.emit_block(block);
        }
    }
    true
}

/// Returns what a person sent: text, then images.
pub(super) fn user_block(emitter: &mut Emitter<'_>, texts: &[&str], images: &[String]) -> Block {
    let id = emitter.thread().name("user", None);
    let text = texts.join("\n");
    let content = match images.is_empty() {
        true => Content::Text(text.as_str().into()),
        false => {
            let image = |url: &String| {
                let (media_type, data) = (None, None);
                let url = Some(url.as_str().into());
                Part::from(PartBody::Image(ImagePart { media_type, data, url }))
            };
            let words = (!text.is_empty()).then(|| Part::text(text.as_str()));
            Content::Parts(words.into_iter().chain(images.iter().map(image)).collect())
        }
    };
    Block::new(id, UserMessageBlock { content })
}

/// Converts a message of a person.
pub(super) fn convert_user(emitter: &mut Emitter<'_>, item: &Item<'_>) {
    let parts = item.fields().objects("content");
    let texts: Vec<_> = parts.iter().filter_map(|it| it.text("text")).collect();
    let texts: Vec<&str> = texts.iter().map(|it| &**it).collect();
    let of = |names: [&str; 2]| -> Vec<String> {
        let image = |part: &Object<'_>| {
            let kind = part.text("type")?;
            let is_one = names.contains(&with_underscores(&kind).as_str());
            let place =
                part.text("url").or_else(|| part.text("image_url")).or_else(|| part.text("path"));
            place.filter(|_| is_one).map(|it| it.into_owned())
        };
        parts.iter().filter_map(image).collect()
    };
    let mut images = of(["image", "input_image"]);
    images.extend(of(["local_image", "skill"]));
    let block = user_block(emitter, &texts, &images);
    emitter.emit_block(block);
}

/// Converts a notice of the agent: a plan, a review, a compaction.
pub(super) fn convert_notice(emitter: &mut Emitter<'_>, item: &Item<'_>) -> bool {
    let (subtype, message) = match item.kind {
        ItemKind::Plan => ("plan", item.text("text")),
        ItemKind::ReviewEntered => {
            ("review_started", item.text("review").or_else(|| item.text("user_facing_hint")))
        }
        ItemKind::ReviewExited => ("review_ended", None),
        ItemKind::Compaction => {
            compaction::convert_item(emitter);
            return true;
        }
        _ => return false,
    };
    let id = emitter.thread().name(subtype, None);
    let message = message.map(|it| (&*it).into());
    emitter.emit_block(Block::new(id, SystemBlock { subtype: subtype.into(), message }));
    true
}
