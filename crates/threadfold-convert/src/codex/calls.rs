//! Calls and outputs as the model wrote and saw them: response items of a rollout.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::value::RawValue;
use threadfold_core::Json;

use super::emitter::Emitter;
use super::files;
use super::items::{search_input, states_output};
use super::memory::Call;
use super::names;
use super::outputs::{self, ModelOutput};
use super::subagents::{self, SpawnReport};
use super::tools::{self, CallReport, ResultReport};
use super::wire::{Object, agent_states, script_of};

/// Converts a call. Returns whether it has an id.
pub(super) fn convert_call(emitter: &mut Emitter<'_>, kind: &str, item: &Object<'_>) -> bool {
    let Some(id) = item.text("call_id").or_else(|| item.text("id")) else { return false };
    let (name, input) = match kind {
        "function_call" => {
            let arguments = item.text("arguments").unwrap_or_default();
            let input = Json::parse(&arguments).unwrap_or_else(|_| Json::string(&arguments));
            (called_name(item, &input), Some(input))
        }
        "custom_tool_call" => {
            (called_name(item, &Json::of(&())), item.get("input").map(Json::from))
        }
        "local_shell_call" => ("shell".to_owned(), item.get("action").map(Json::from)),
        "tool_search_call" => ("tool_search".to_owned(), item.get("arguments").map(Json::from)),
        _ => return false,
    };
    let name: Arc<str> = name.into();
    let arguments = input.as_ref().and_then(|it| Object::read(it.raw()));
    let script =
        arguments.as_ref().and_then(|it| script_of(it.get("cmd").or_else(|| it.get("command"))?));
    let call = CallReport {
        id: id.as_ref().into(),
        name: name.clone(),
        input: input.clone(),
        script: script.map(Into::into),
        is_rejected: false,
        is_unlisted: !is_listed(&name),
    };
    let patch = input.as_ref().filter(|_| is_patch(&name)).and_then(patch_of);
    let content = content_of(emitter, &call, patch.as_deref(), arguments.as_ref());
    let is_known = emitter.thread().calls.contains_key(&*id);
    let replaces = match content {
        Some(content) if !is_known => names::store(emitter, &name, &content, &id),
        _ if emitter.conversation.is_main() => {
            emitter.memory.names.note_main_place(&id);
            None
        }
        _ => None,
    };
    let remembered = Call {
        name,
        patch: patch.map(Into::into),
        input,
        script: call.script.clone(),
        is_unlisted: call.is_unlisted,
        ..Call::default()
    };
    if is_known {
        // History that was copied into the file, or an item that came first.
        let known = emitter.thread().calls.entry(id.as_ref().into()).or_default();
        *known = Call { has_item: known.has_item, is_spawn: known.is_spawn, ..remembered };
        emitter.emit_again(tools::call_block(&call));
    } else {
        emitter.thread().calls.insert(id.as_ref().into(), remembered);
        emitter.emit_renamed(tools::call_block(&call), replaces);
        tools::rename_result(emitter, &id);
    }
    true
}

/// Returns the name of a tool as live views report it.
fn called_name(item: &Object<'_>, input: &Json) -> String {
    let name = item.text("name").unwrap_or_default();
    let is_of_agents = || Object::read(input.raw()).is_some_and(|it| it.get("ids").is_some());
    match item.text("namespace").as_deref() {
        Some(server) if server.starts_with("mcp__") => {
            format!("{}__{name}", server.trim_end_matches('_'))
        }
        None | Some("multi_agent_v1" | "collaboration" | "functions") => match &*name {
            "wait" if is_of_agents() => "wait_agent".to_owned(),
            _ => name.into_owned(),
        },
        Some(namespace) => format!("{namespace}.{name}"),
    }
}

/// Returns whether live views list the calls of a tool; the others are in the file alone.
fn is_listed(name: &str) -> bool {
    let listed = [
        "exec_command",
        "shell",
        "shell_command",
        "apply_patch",
        "spawn_agent",
        "wait_agent",
        "send_input",
        "close_agent",
        "resume_agent",
        "view_image",
    ];
    listed.contains(&name) || name.starts_with("mcp__")
}

fn is_patch(name: &str) -> bool {
    name == "apply_patch"
}

/// Returns the patch of a call: its input, or an argument of it.
fn patch_of(input: &Json) -> Option<String> {
    if let Some(text) = input.to_text() {
        return Some(text);
    }
    Object::read(input.raw())?.text("input").map(Cow::into_owned)
}

/// Returns the content by which a stream without names finds a call.
fn content_of(
    emitter: &mut Emitter<'_>,
    call: &CallReport,
    patch: Option<&str>,
    arguments: Option<&Object<'_>>,
) -> Option<String> {
    match (&*call.name, patch) {
        ("exec_command" | "shell" | "shell_command", _) => {
            call.script.as_deref().map(str::to_owned)
        }
        (_, Some(patch)) => {
            let folder = emitter.thread().settings.get("cwd").cloned();
            let changes = tools::patched_files(patch, folder.as_deref());
            tools::changed_files(&changes).map(|it| it.as_str().to_owned())
        }
        ("spawn_agent", _) => arguments?.text("message").map(Cow::into_owned),
        ("wait_agent" | "send_input" | "close_agent" | "resume_agent", _) => Some(String::new()),
        (name, _) if name.starts_with("mcp__") => call.input.as_ref().map(Json::canonical),
        _ => None,
    }
}

/// Converts what a call returned to the model. Returns whether it names its call.
pub(super) fn convert_output(emitter: &mut Emitter<'_>, item: &Object<'_>) -> bool {
    let Some(id) = item.text("call_id") else { return false };
    let raw = item.get("output").or_else(|| item.get("tools"));
    let known = emitter.thread().calls.get(&*id).cloned().unwrap_or_default();
    let is_aborted = raw.is_some_and(outputs::is_aborted);
    if let Some(call) = emitter.thread().calls.get_mut(&*id) {
        call.is_aborted = is_aborted;
        call.input = None;
        call.patch = None;
    }
    let is_spawn_call = &*known.name == "spawn_agent";
    // The item has the whole output, and the model saw the beginning of it.
    if (known.has_item || known.is_spawn) && !is_spawn_call {
        return true;
    }
    let told = raw.map(ModelOutput::read).unwrap_or_default();
    if is_spawn_call && convert_spawn(emitter, &id, &known, told.body.as_deref()) {
        return true;
    }
    if known.has_item || known.is_spawn {
        return true;
    }
    // The call stays open, and the end of the turn closes it.
    if told.is_aborted {
        let body = told.body.as_deref().unwrap_or("");
        emit_aborted(emitter, &id, &known, body);
        return true;
    }
    let result = match &*known.name {
        "exec_command" | "shell" | "shell_command" | "user_shell" => shell_result(&told, raw),
        "apply_patch" => patch_result(emitter, (&id, &known), &told, raw),
        "wait_agent" => wait_result(emitter, &told, raw),
        "close_agent" | "resume_agent" => state_result(&known, &told, raw),
        name if name.starts_with("mcp__") => {
            let output = raw.map(outputs::server_result);
            ResultReport { output, ..ResultReport::default() }
        }
        "view_image" => {
            let model_output = raw.map(Json::from);
            ResultReport { model_output, ..ResultReport::default() }
        }
        _ => {
            let is_unlisted = known.is_unlisted;
            ResultReport { output: raw.map(Json::from), is_unlisted, ..ResultReport::default() }
        }
    };
    if result.is_rejected {
        reject(emitter, &id, &known);
    }
    tools::emit_result(emitter, &id, result);
    true
}

/// Emits a call again that a person interrupted.
fn emit_aborted(emitter: &mut Emitter<'_>, id: &str, known: &Call, body: &str) {
    let call = CallReport {
        id: id.into(),
        name: known.name.clone(),
        input: known.input.clone(),
        script: known.script.clone(),
        ..CallReport::default()
    };
    let mut block = tools::call_block(&call);
    block.metadata.insert("aborted", Json::string(body));
    emitter.emit_again(block);
}

/// Emits a call again that never ran, so that readers can tell it from one that failed.
fn reject(emitter: &mut Emitter<'_>, id: &str, known: &Call) {
    let call = CallReport {
        id: id.into(),
        name: known.name.clone(),
        input: known.input.clone(),
        script: known.script.clone(),
        is_rejected: true,
        is_unlisted: known.is_unlisted,
    };
    let content = content_of(emitter, &call, known.patch.as_deref(), None);
    if let Some(content) = content {
        emitter.memory.names.forget(&known.name, &content, id);
    }
    emitter.emit_again(tools::call_block(&call));
}

fn shell_result(told: &ModelOutput<'_>, raw: Option<&RawValue>) -> ResultReport {
    let output = match &told.body {
        Some(body) => Some(Json::string(body)).filter(|_| !body.is_empty()),
        None => raw.map(Json::from),
    };
    let is_rejected = !told.has_header && told.body.is_some() && !told.is_aborted;
    ResultReport {
        output,
        is_error: told.exit_code.is_some_and(|it| it != 0) || is_rejected || told.is_aborted,
        exit_code: told.exit_code,
        is_rejected,
        ..ResultReport::default()
    }
}

fn patch_result(
    emitter: &mut Emitter<'_>,
    (id, call): (&str, &Call),
    told: &ModelOutput<'_>,
    raw: Option<&RawValue>,
) -> ResultReport {
    let failed = told.exit_code.is_some_and(|it| it != 0);
    if told.has_header && !failed {
        let folder = emitter.thread().settings.get("cwd").cloned();
        let changes = tools::patched_files(call.patch.as_deref().unwrap_or(""), folder.as_deref());
        files::emit(emitter, id, &changes);
        let output = tools::changed_files(&changes);
        return ResultReport { output, ..ResultReport::default() };
    }
    let result = shell_result(told, raw);
    ResultReport { is_rejected: result.is_rejected, exit_code: None, ..result }
}

/// Returns the result of waiting for subagents: the state of each.
fn wait_result(
    emitter: &mut Emitter<'_>,
    told: &ModelOutput<'_>,
    raw: Option<&RawValue>,
) -> ResultReport {
    let states = told.body.as_deref().and_then(|body| {
        let raw: &RawValue = serde_json::from_str(body).ok()?;
        let answer = Object::read(raw)?;
        match answer.get("status") {
            Some(states) => agent_states(states),
            None => answer.get("timed_out").map(|_| Default::default()),
        }
    });
    // Live views report a wait as failed if a subagent did.
    let is_error = states.iter().flatten().any(|(_, state)| state.status == "errored");
    let output = match &states {
        Some(states) => {
            subagents::emit_states(emitter, states);
            Some(states_output(states))
        }
        None => raw.map(Json::from),
    };
    ResultReport { output, is_error, ..ResultReport::default() }
}

/// Returns the result of closing or resuming a subagent: its state.
fn state_result(call: &Call, told: &ModelOutput<'_>, raw: Option<&RawValue>) -> ResultReport {
    let arguments = call.input.as_ref().and_then(|it| Object::read(it.raw()));
    let thread = arguments.and_then(|it| it.text("target").or_else(|| it.text("id")));
    let answer: Option<&RawValue> =
        told.body.as_deref().and_then(|it| serde_json::from_str(it).ok());
    let status = answer
        .and_then(Object::read)
        .and_then(|it| it.get("previous_status").or_else(|| it.get("status")));
    let output = match (thread, status) {
        (Some(thread), Some(status)) => {
            let mut states = threadfold_core::Fields::default();
            states.insert(&thread, Json::from(status));
            Some(Json::of(&states))
        }
        _ => raw.map(Json::from),
    };
    ResultReport { output, ..ResultReport::default() }
}

/// Converts what a spawn returned: the subagent's thread. Returns whether it names one.
fn convert_spawn(emitter: &mut Emitter<'_>, id: &str, call: &Call, body: Option<&str>) -> bool {
    let raw: Option<&RawValue> = body.and_then(|it| serde_json::from_str(it).ok());
    let Some(answer) = raw.and_then(Object::read) else { return false };
    let Some(thread) = answer.text("agent_id") else { return false };
    let arguments = call.input.as_ref().and_then(|it| Object::read(it.raw()));
    let prompt = arguments.as_ref().and_then(|it| it.text("message"));
    let spawn = SpawnReport { call: id, thread: &thread, prompt: prompt.as_deref(), role: None };
    subagents::emit_spawned(emitter, &spawn);
    true
}

/// Converts a search of the web, or an image that the provider made: call and result in one.
pub(super) fn convert_provider_call(emitter: &mut Emitter<'_>, kind: &str, item: &Object<'_>) {
    let is_search = kind == "web_search_call";
    let name: Arc<str> = if is_search { "web_search" } else { "image_generation" }.into();
    let id = emitter.thread().name(&name, item.text("id").as_deref());
    if emitter.thread().calls.contains_key(id.as_str()) {
        return;
    }
    let input = match is_search {
        true => search_input(item),
        false => item.text("revised_prompt").map(|it| {
            let mut fields = threadfold_core::Fields::default();
            fields.insert("prompt", Json::string(&it));
            Json::of(&fields)
        }),
    };
    let output = item.get("result").map(Json::from);
    let call =
        CallReport { id: id.as_str().into(), name: name.clone(), input, ..CallReport::default() };
    let remembered = Call { name: name.clone(), has_item: true, ..Call::default() };
    emitter.thread().calls.insert(call.id.clone(), remembered);
    let content = call.input.as_ref().map(Json::canonical).unwrap_or_default();
    let replaces = match emitter.conversation.is_main() && is_search {
        true => names::store(emitter, &name, &content, &call.id),
        false => None,
    };
    emitter.emit_renamed(tools::call_block(&call), replaces);
    tools::emit_result(
        emitter,
        &call.id,
        ResultReport { output, is_unlisted: !is_search, ..ResultReport::default() },
    );
}
