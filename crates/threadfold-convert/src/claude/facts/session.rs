//! Records beside the messages: runs, tasks, retries, compactions, cost.

use serde_json::{Map, Value};
use threadfold_core::Json;

use super::{Reader, text};
use crate::parity::{RecordName, normalize};

/// The name of what fills the model's context.
pub(in crate::claude) const CONTEXT: &str = "context";

/// Reads the metadata file of a subagent.
pub(super) fn read_meta(reader: &mut Reader, agent: &str, meta: &Map<String, Value>) {
    let name = RecordName::new("meta", agent);
    reader.facts.evidence.tasks.insert(agent.to_owned());
    if let (Some("background"), Some(call)) = (text(meta, "requestShape"), text(meta, "toolUseId"))
    {
        reader.facts.background.insert(call.to_owned());
    }
    for field in ["toolUseId", "agentType", "description"] {
        if let Some(value) = meta.get(field) {
            reader.facts.agree(&name, field, value);
        }
    }
}

/// Reads a record that is no message.
pub(super) fn read(reader: &mut Reader, kind: &str, record: &Map<String, Value>, is_stream: bool) {
    match (kind, text(record, "subtype").unwrap_or("")) {
        ("control_response", _) => reader.has_host_request = true,
        ("conversation_reset", _) => reader.has_reset = true,
        ("system", "init") => reader.begin_turn(),
        ("system", "status") => reader.read_status(record),
        ("system", "permission_denied") => reader.read_denial(text(record, "tool_use_id")),
        ("result", _) if is_stream => read_result(reader, record),
        ("cost-state", _) => {
            let session = text(record, "sessionId").unwrap_or("");
            if let Some(cost) = record.get("totalCostUSD") {
                reader.facts.set(&RecordName::new("session", session), "costUsd", cost);
            }
            reader.compare_cost(session, record);
            reader.state_totals(session, record.get("modelUsage"));
            reader.facts.evidence.has_account = true;
            reader.facts.evidence.is_account_early = false;
        }
        ("system", "api_retry") => {
            let fields = [
                ("attempt", "attempt"),
                ("max_retries", "maxRetries"),
                ("retry_delay_ms", "retryInMs"),
                ("error_status", "status"),
            ];
            read_retry(reader, |wanted| {
                let (from, _) = fields.iter().find(|(_, to)| *to == wanted)?;
                record.get(*from).cloned()
            });
        }
        ("system", "api_error") => {
            let status = record.get("error").and_then(|error| error.get("status")).cloned();
            read_retry(reader, |wanted| match wanted {
                "attempt" => record.get("retryAttempt").cloned(),
                "status" => status.clone(),
                other => record.get(other).cloned(),
            });
        }
        ("control_request", _) => read_question(reader, record),
        ("system", "local_command") => {
            reader.read_output(text(record, "content").unwrap_or(""));
            read_context(reader, record, "contextUsage");
        }
        ("queue-operation", _) => reader.read_queue(record),
        ("system", "task_started") => {
            reader.read_task("task_started", record);
            read_task_start(reader, record);
        }
        ("system", "task_notification") => {
            reader.read_task("task_notification", record);
            let is_stopped = matches!(text(record, "status"), Some("stopped" | "killed"));
            let call = text(record, "tool_use_id").filter(|_| is_stopped);
            reader.facts.stopped.extend(call.map(str::to_owned));
        }
        ("system", subtype @ ("task_updated" | "task_progress")) => {
            reader.read_task(subtype, record)
        }
        ("system", "hook_started") => reader.read_hook("hook_started", record),
        ("system", "hook_response") => {
            reader.read_hook("hook_response", record);
            read_streamed_hook(reader, record);
        }
        ("attachment", _) => {
            reader.read_attachment(record);
            read_stored_hook(reader, record);
        }
        ("system", "compact_boundary") => {
            reader.read_compaction();
            if let Some(uuid) = text(record, "uuid") {
                let name = RecordName::new("system/compact_boundary", uuid);
                for (field, value) in record.iter().filter(|(field, _)| *field != "type") {
                    reader.facts.set(&name, &normalize(field), value);
                }
            }
        }
        _ => {}
    }
}

/// Reads a question whether a call may run: it names the tool of the call.
fn read_question(reader: &mut Reader, record: &Map<String, Value>) {
    let Some(request) = record.get("request").filter(|it| it["subtype"] == "can_use_tool") else {
        return;
    };
    if let (Some(call), Some(tool)) = (request["tool_use_id"].as_str(), request.get("tool_name")) {
        reader.call_fields.push((call.to_owned(), "message.content.name", tool.clone()));
        if !reader.facts.has(&RecordName::new("assistant", call)) {
            reader.before_calls.insert(("control_request", call.to_owned()));
        }
    }
}

/// Reads what fills the model's context, which a command reports beside its output. Its line has the
/// same `uuid` on both sides.
pub(super) fn read_context(reader: &mut Reader, record: &Map<String, Value>, field: &str) {
    if let (Some(uuid), Some(usage)) = (text(record, "uuid"), record.get(field)) {
        reader.facts.set(&RecordName::new(CONTEXT, uuid), "usage", usage);
    }
}

/// Reads the end of a run: a run that reports its result was not killed.
fn read_result(reader: &mut Reader, record: &Map<String, Value>) {
    reader.facts.has_ended = true;
    // A host that interrupts gets an answer; a signal does not.
    reader.facts.was_interrupted =
        text(record, "subtype") == Some("error_during_execution") && !reader.has_host_request;
    let has_messages = reader.facts.records().keys().any(|name| name.kind == "assistant");
    reader.facts.has_empty_run |= !has_messages;
    let session = text(record, "session_id").unwrap_or("");
    reader.state_totals(session, record.get("modelUsage"));
    if let Some(cost) = record.get("total_cost_usd") {
        reader.facts.set(&RecordName::new("session", session), "costUsd", cost);
    }
    reader.keep_report(record);
    let id = text(record, "uuid").unwrap_or("");
    match text(record, "result") {
        Some(result) if !result.is_empty() => {
            reader.results.push((id.to_owned(), result.to_owned()));
        }
        _ => {}
    }
}

/// Retries have no common id, and come in the same order on both sides.
fn read_retry(reader: &mut Reader, field: impl Fn(&str) -> Option<Value>) {
    let name = RecordName::new("system/api_retry", &reader.retries.to_string());
    reader.retries += 1;
    for name_of_field in ["attempt", "maxRetries", "retryInMs", "status"] {
        if let Some(value) = field(name_of_field).filter(|value| !value.is_null()) {
            reader.facts.set(&name, name_of_field, &value);
        }
    }
}

/// Reads the output of a hook from the stream, which also has the hooks of subagents.
///
/// Both sides name a hook, but not which of its runs is which, so the file's output must be that of
/// one of the streamed runs.
fn read_streamed_hook(reader: &mut Reader, record: &Map<String, Value>) {
    let Some(hook) = text(record, "hook_name") else { return };
    let name = RecordName::new("hook", hook);
    reader.facts.set(&hooks_of_event(hook), "areReported", &true.into());
    if let Some(event) = record.get("hook_event") {
        reader.facts.agree(&name, "hookEvent", event);
    }
    for (from, to) in [("stdout", "stdout"), ("stderr", "stderr"), ("exit_code", "exitCode")] {
        if let Some(value) = record.get(from) {
            reader.facts.allow(&name, to, Json::of(value));
        }
    }
    if let Some(output) = text(record, "output") {
        reader.facts.allow(&name, "content", Json::string(output.trim()));
    }
}

/// Returns the name of all hooks of an event. The name of a hook is its event, and often a detail:
/// `PreToolUse:Bash`.
pub(in crate::claude) fn hooks_of_event(hook: &str) -> RecordName {
    RecordName::new("hooks", hook.split(':').next().unwrap_or(hook))
}

fn read_stored_hook(reader: &mut Reader, record: &Map<String, Value>) {
    let Some(hook) = record.get("attachment").and_then(Value::as_object) else { return };
    if text(hook, "type") != Some("hook_success") {
        return;
    }
    let (hook_name, event) = (text(hook, "hookName").unwrap_or(""), text(hook, "hookEvent"));
    let name = RecordName::new("hook", hook_name);
    let of_event = hooks_of_event(hook_name);
    if Some(of_event.id.as_str()) != event {
        let (first, second) = (Json::of(&event), Json::string(hook_name));
        reader.facts.contradict(&name, "hookName", first, second);
    }
    reader.facts.set(&of_event, "areReported", &true.into());
    let run = reader.hooks;
    reader.hooks += 1;
    if let Some(event) = hook.get("hookEvent") {
        reader.facts.agree(&name, "hookEvent", event);
    }
    for field in ["stdout", "stderr", "exitCode", "content"] {
        let value = match hook.get(field).unwrap_or(&Value::Null) {
            Value::String(shown) if field == "content" => Value::from(shown.trim()),
            other => other.clone(),
        };
        reader.facts.set(&name, &format!("{field}[{run}]"), &value);
    }
}

fn read_task_start(reader: &mut Reader, record: &Map<String, Value>) {
    if text(record, "task_type").is_some_and(|kind| kind != "local_agent") {
        return;
    }
    let Some(task) = text(record, "task_id") else { return };
    let call = text(record, "tool_use_id");
    if let Some(call) = call {
        let first = reader.first_calls.entry(task.to_owned()).or_insert_with(|| call.to_owned());
        if first != call {
            return read_rerun(reader, task, call, record);
        }
    }
    let name = RecordName::new("meta", task);
    for (from, to) in [
        ("tool_use_id", "toolUseId"),
        ("subagent_type", "agentType"),
        ("description", "description"),
    ] {
        if let Some(value) = record.get(from) {
            reader.facts.agree(&name, to, value);
        }
    }
    if let (Some(call), None) = (call, record.get("subagent_type")) {
        reader.untyped_tasks.push((task.to_owned(), call.to_owned()));
    }
    if let (Some(Value::Bool(true)), Some(call)) =
        (record.get("is_backgrounded"), text(record, "tool_use_id"))
    {
        reader.facts.background.insert(call.to_owned());
    }
    if let (Some(call), Some(prompt)) = (call, record.get("prompt")) {
        reader.call_fields.push((call.to_owned(), "message.content.input.prompt", prompt.clone()));
    }
}

/// Reads that a message ran a subagent again. The metadata of the subagent is about its first run.
fn read_rerun(reader: &mut Reader, task: &str, call: &str, record: &Map<String, Value>) {
    reader.facts.background.insert(call.to_owned());
    if let Some(prompt) = record.get("prompt") {
        reader.call_fields.push((call.to_owned(), "message.content.input.message", prompt.clone()));
    }
    reader.resumed.push((call.to_owned(), Value::from(task)));
}
