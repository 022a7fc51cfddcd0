//! Compares the records about tasks: their starts and ends in the stream, and the notifications of
//! their ends in the files.

use threadfold_core::Json;

use crate::parity::{CrossCheck, Facts, RecordName, TaskEvent, TaskNotice};

/// The status of a task that ended as it should.
const COMPLETED: &str = "completed";

/// Finds progress and ends of tasks that the stream did not start, or started by another call, and ends
/// that no notification of the files repeats.
pub(super) fn check_events(check: &mut CrossCheck, stream: &Facts, transcript: &Facts) {
    let nothing = || Json::of(&serde_json::Value::Null);
    for event in &stream.evidence.task_events {
        let is_streamed = |call: &String| stream.has(&RecordName::new("assistant", call));
        match stream.evidence.task_starts.get(&event.task) {
            Some(calls) if event.names_call && !calls.contains(&event.call) => {
                let (found, implied) = (Json::of(&event.call), Json::of(calls));
                check.refute(&event.record, "tool_use_id", found, implied);
            }
            Some(_) => {}
            // A task of an earlier run may end in this one.
            None if event.call.as_ref().is_none_or(is_streamed) => {
                check.refute(&event.record, "task_id", Json::string(&event.task), nothing());
            }
            None => {}
        }
        let notices = &transcript.evidence.task_notices;
        // A task may run again, and end again by another call.
        let is_of_run = |it: &&TaskNotice| {
            it.task.as_ref() == Some(&event.task) && (it.call.is_none() || it.call == event.call)
        };
        let mut of_task = notices.iter().filter(is_of_run);
        let is_end = event.status.is_some() && event.names_call;
        if is_end && of_task.clone().next().is_some() && !of_task.any(|it| is_same(event, it)) {
            let found = Json::of(&[&event.status, &event.call, &event.output_file]);
            check.refute(&event.record, "status", found, nothing());
        }
        compare_end(check, stream, event);
    }
}

/// Compares the end of a task with the result of its call, and with the other reports of its end.
fn compare_end(check: &mut CrossCheck, stream: &Facts, event: &TaskEvent) {
    let Some(status) = &event.status else { return };
    let ends = stream.evidence.task_ends.get(&event.task);
    if ends.is_some_and(|ends| !ends.iter().any(|end| is_same_end(end, status))) {
        check.refute(&event.record, "patch.status", Json::string(status), Json::of(&ends));
    }
    let Some(call) = &event.call else { return };
    let result = |field| stream.get(&RecordName::new("tool_result", call), field);
    let is_completed =
        result("toolUseResult.status").is_some_and(|it| *it == Json::string(COMPLETED));
    let is_error = result("message.content.isError").is_some_and(|it| *it == Json::of(&true));
    if (is_completed && status != COMPLETED) || (is_error && status == COMPLETED) {
        let implied = if is_completed { COMPLETED } else { "failed" };
        check.refute(&event.record, "status", Json::string(status), Json::string(implied));
    }
    let calls = result("toolUseResult.totalToolUseCount").filter(|_| is_completed);
    let found = event.tool_uses.map(|it| Json::of(&it));
    if let (Some(found), Some(calls)) = (found, calls)
        && found != *calls
    {
        check.refute(&event.record, "usage.tool_uses", found, calls.clone());
    }
}

/// Returns whether a notification of the files is about the same end. A field that it lacks is not
/// compared: earlier versions have fewer.
fn is_same(event: &TaskEvent, notice: &TaskNotice) -> bool {
    let is_equal = |first: &Option<String>, second: &Option<String>| {
        second.is_none() || first.as_deref().unwrap_or("") == second.as_deref().unwrap_or("")
    };
    let ends = event.status.as_ref().zip(notice.status.as_ref());
    is_equal(&event.call, &notice.call)
        && is_equal(&event.output_file, &notice.output_file)
        && ends.is_none_or(|(streamed, stored)| is_same_end(streamed, stored))
}

/// Finds notifications of tasks that neither side knows, or that ended otherwise in the stream.
pub(super) fn check_notices(check: &mut CrossCheck, stream: &Facts, transcript: &Facts) {
    for notice in &transcript.evidence.task_notices {
        let is_call = |facts: &Facts, id: &str| facts.has(&RecordName::new("assistant", id));
        let is_known = |id: &String| {
            [stream, transcript].iter().any(|it| it.evidence.tasks.contains(id) || is_call(it, id))
        };
        if !notice.task.iter().chain(&notice.call).any(is_known) {
            check.reject(&notice.record, Json::of(&notice.task));
        }
        let ends = notice.task.as_ref().and_then(|task| stream.evidence.task_ends.get(task));
        if let (Some(ends), Some(status)) = (ends, &notice.status)
            && !ends.iter().any(|end| is_same_end(end, status))
        {
            check.refute(&notice.record, "status", Json::of(ends), Json::of(status));
        }
    }
}

/// Returns whether two words name one end of a task: a task that was killed is one that was stopped.
fn is_same_end(first: &str, second: &str) -> bool {
    let is_stop = |end: &str| matches!(end, "killed" | "stopped");
    first == second || (is_stop(first) && is_stop(second))
}
