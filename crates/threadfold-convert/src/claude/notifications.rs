//! Notifications: how the harness reports the end of a background task to the model.
//!
//! They are the only report of it in files. Their form changed over the versions, and so did the
//! words around the outcome, which are not part of it.

use threadfold_core::{CompletedStatus, Json};

use super::emitter::Emitter;
use super::memory::PendingEnd;
use super::subagents::{Completion, emit_completed};

/// The notification of 2.0, which has the subagent's id only.
const OLDER_TAG: &str = "<agent-notification>";
const TAGS: [&str; 2] = ["<task-notification>", OLDER_TAG];

/// Returns whether a text to the model is the harness's notification that a task ended.
pub(super) fn is_task_notification(text: &str) -> bool {
    notification_in(text).is_some()
}

/// Returns the notification in a text. 2.1.220 puts a preamble before it.
fn notification_in(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let text = text.strip_prefix("<system-reminder>").map_or(text, str::trim_start);
    let has_preamble = text.starts_with("[SYSTEM NOTIFICATION");
    TAGS.iter().find_map(|tag| {
        let at = if has_preamble { text.find(tag)? } else { text.starts_with(tag).then_some(0)? };
        Some(&text[at..])
    })
}

/// The task that a notification names, with the call that started it and how it ended.
pub(super) struct NamedTask {
    pub(super) task: Option<String>,
    pub(super) call: Option<String>,
    pub(super) status: Option<String>,
    pub(super) output_file: Option<String>,
}

/// Returns the task that a text to the model names, if it is a notification.
pub(super) fn named_task(text: &str) -> Option<NamedTask> {
    let text = notification_in(text)?;
    Some(NamedTask {
        task: tag(text, "task-id").or_else(|| tag(text, "agent-id")).map(str::to_owned),
        call: tag(text, "tool-use-id").map(str::to_owned),
        status: tag(text, "status").map(str::to_owned),
        output_file: tag(text, "output-file").map(str::to_owned),
    })
}

/// Converts the notification to the model that a task ended.
pub(super) fn convert_task_notification(emitter: &mut Emitter<'_>, text: &str) {
    let Some(text) = notification_in(text) else { return };
    let task = tag(text, "task-id").or_else(|| tag(text, "agent-id"));
    let call = tag(text, "tool-use-id");
    let summary = tag(text, "summary");
    let end = PendingEnd {
        is_error: tag(text, "status").is_some_and(|status| status != "completed"),
        output: None,
        duration_ms: last_tag(text, "duration_ms").and_then(|text| text.parse().ok()),
    };
    let output = outcome(end.is_error, summary, result(text));
    let end = PendingEnd { output, ..end };
    let known = call_of_task(emitter, call, task);
    match known {
        Some(call) => emit_completed(emitter, &call, end.into()),
        // The file of the caller is read after the main file, which has the notification.
        None if text.starts_with(OLDER_TAG)
            || summary.is_some_and(|it| it.starts_with("Agent \"")) =>
        {
            if let Some(name) = call.or(task) {
                emitter.memory.ends.insert(name.into(), end);
            }
        }
        // Shell commands in the background are tasks as well.
        None => {}
    }
}

/// Emits the end of a run that was reported before the run itself.
pub(super) fn emit_pending_end(emitter: &mut Emitter<'_>, call: &str, agent: Option<&str>) {
    if emitter.memory.ends.is_empty() {
        return;
    }
    let ends = &mut emitter.memory.ends;
    let end = ends.remove(call).or_else(|| ends.remove(agent?));
    if let Some(end) = end {
        emit_completed(emitter, call, end.into());
    }
}

/// Returns the call that ran a task: the one that is named, else the latest one of the task.
pub(super) fn call_of_task(
    emitter: &Emitter<'_>,
    call: Option<&str>,
    task: Option<&str>,
) -> Option<std::sync::Arc<str>> {
    let memory = &emitter.memory;
    let is_run = |call: &str| memory.calls.get(call).is_some_and(|known| known.spawned);
    let by_task = || memory.agents.get(task?).filter(|call| is_run(call)).cloned();
    call.filter(|call| is_run(call)).map(Into::into).or_else(by_task)
}

/// Returns the output of a task: its error if it failed, else its result.
///
/// The stream puts either into the summary; files and older versions put words around them.
pub(super) fn outcome(is_error: bool, summary: Option<&str>, result: Option<&str>) -> Option<Json> {
    let is_stock = |text: &&str| text.starts_with("Agent \"");
    let said = match (is_error, summary) {
        (true, Some(summary)) if is_stock(&summary) => {
            summary.split_once("\" failed: ").map(|(_, error)| error).or(result)
        }
        (true, summary) => summary.or(result),
        (false, summary) => result.or(summary.filter(|it| !is_stock(it))),
    };
    said.map(Json::string)
}

/// Returns the content of the first tag with this name.
fn tag<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let start = text.find(&format!("<{name}>"))? + name.len() + 2;
    let end = text[start..].find(&format!("</{name}>"))? + start;
    Some(&text[start..end])
}

/// Returns the content of the last tag with this name: numbers come after the result.
fn last_tag<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let start = text.rfind(&format!("<{name}>"))?;
    tag(&text[start..], name)
}

/// Returns the result. The last closing tag counts: a result may contain tags of the same name.
fn result(text: &str) -> Option<&str> {
    let start = text.find("<result>")? + "<result>".len();
    let end = text[start..].rfind("</result>")? + start;
    Some(&text[start..end])
}

impl From<PendingEnd> for Completion {
    fn from(end: PendingEnd) -> Self {
        let status = if end.is_error { CompletedStatus::Error } else { CompletedStatus::Completed };
        Self { status, output: end.output, duration_ms: end.duration_ms }
    }
}
