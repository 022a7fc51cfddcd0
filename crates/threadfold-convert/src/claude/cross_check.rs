//! Compares what the report of a run sums up with the answers that it sums up, and finds lines of a
//! file for which there is no evidence.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use threadfold_core::Json;

use super::facts::COUNTS;
use crate::parity::{Answer, CrossCheck, Facts, RecordName, RunReport, normalize};

/// The hooks of these events are streamed even if the host does not ask for hooks.
const ALWAYS_STREAMED: [&str; 2] = ["SessionStart", "Setup"];

/// The most answers of a run of which it is not known whether its report counts them.
const MOST_UNCERTAIN: usize = 10;

pub(super) fn compare(stream: &Facts, transcript: &Facts) -> CrossCheck {
    let mut check = CrossCheck::default();
    compare_reports(&mut check, stream, transcript);
    compare_denials(&mut check, stream, transcript);
    check_notices(&mut check, stream, transcript);
    check_queue(&mut check, stream, transcript);
    check_hooks(&mut check, stream, transcript);
    check
}

/// Compares each report with the answers of its run.
///
/// A report may come late, after answers of the next run: then it sums up the first of the answers that
/// no report before it sums up.
fn compare_reports(check: &mut CrossCheck, stream: &Facts, transcript: &Facts) {
    let answers = &stream.evidence.answers;
    let reports = &stream.evidence.reports;
    let sides = Sides { stream, transcript, is_shown: answers.iter().any(|it| it.is_streamed) };
    let mut first = 0;
    for (number, report) in reports.iter().enumerate() {
        let may_be_late = number + 1 < reports.len() || !stream.background.is_empty();
        let earliest = if may_be_late { first } else { report.answers };
        let mut ends = (earliest..=report.answers).rev();
        let end = ends.find(|end| sides.wrong_counts(report, &answers[first..*end]).is_empty());
        let run = &answers[first..end.unwrap_or(report.answers)];
        for (field, found, sum) in sides.wrong_counts(report, run) {
            check.refute(&report.record, &field, found, sum);
        }
        sides.compare_outcome(check, report, run.last());
        compare_cost(check, report);
        first = end.unwrap_or(report.answers);
    }
}

/// Both sides of a comparison.
struct Sides<'a> {
    stream: &'a Facts,
    transcript: &'a Facts,
    /// The stream shows messages while they arrive.
    is_shown: bool,
}

impl Sides<'_> {
    /// Returns the counts of a report that are not the sum of its answers.
    ///
    /// An answer that was cut off, and the whole one that replaces it, may or may not be counted. A
    /// stream that does not show messages while they arrive does not show which these are.
    fn wrong_counts(&self, report: &RunReport, run: &[Answer]) -> Vec<(String, Json, Json)> {
        let Some(usage) = report.fields.get("usage").and_then(Value::as_object) else {
            return Vec::new();
        };
        let is_plain = |it: &Answer| !it.is_whole && !it.is_synthetic;
        let is_exact = run.iter().all(is_plain) && !report.is_interrupted && is_success(report);
        let is_counted = |it: &&Answer| match self.is_shown {
            true => it.is_streamed && it.reason.is_some(),
            false => is_exact,
        };
        let answers = run.iter().filter(|it| !it.is_synthetic);
        let (counted, open): (Vec<&Answer>, Vec<&Answer>) = answers.partition(is_counted);
        let wrong = |more: &[&Answer]| {
            let all: Vec<&Answer> = counted.iter().chain(more).copied().collect();
            let fields = COUNTS.iter().filter_map(|field| Some((*field, self.sum(&all, field)?)));
            let wrong = fields
                .filter(|(field, sum)| usage.get(*field).and_then(Value::as_u64) != Some(*sum));
            let shown = |(field, sum): (&str, u64)| {
                (format!("usage.{field}"), Json::of(&usage.get(field)), Json::of(&sum))
            };
            wrong.map(shown).collect::<Vec<_>>()
        };
        let open = &open[..open.len().min(MOST_UNCERTAIN)];
        let choices = (0..1_usize << open.len()).map(|choice| {
            let is_chosen = |(number, _): &(usize, &&Answer)| choice >> number & 1 == 1;
            let chosen = open.iter().enumerate().filter(is_chosen);
            chosen.map(|(_, it)| *it).collect::<Vec<_>>()
        });
        let is_right = choices.into_iter().any(|choice| wrong(&choice).is_empty());
        if is_right { Vec::new() } else { wrong(&[]) }
    }

    /// Returns the sum of a count over answers, if both sides together report it.
    fn sum(&self, answers: &[&Answer], field: &str) -> Option<u64> {
        let path = format!("message.usage.{}", normalize(field));
        let mut sum = 0;
        for answer in answers {
            let name = RecordName::new("assistant", &answer.id);
            let stated =
                || self.transcript.get(&name, &path).or_else(|| self.stream.get(&name, &path));
            sum += match answer.is_streamed {
                true => answer.usage.get(field).copied().unwrap_or(0),
                false => stated()?.as_str().parse::<u64>().ok()?,
            };
        }
        Some(sum)
    }

    /// Compares how a run ended by its report with how its last answer ended.
    fn compare_outcome(&self, check: &mut CrossCheck, report: &RunReport, last: Option<&Answer>) {
        let fields = &report.fields;
        let mut expect = |field: &str, implied: Value| {
            let found = fields.get(field).unwrap_or(&Value::Null);
            if *found != implied {
                check.refute(&report.record, field, Json::of(found), Json::of(&implied));
            }
        };
        let reason = last.and_then(|it| self.reason(it));
        // Later versions report why a run stopped, and always with the reason of its last answer.
        let is_newer = fields.contains_key("terminal_reason");
        if report.is_interrupted {
            expect("subtype", "error_during_execution".into());
        } else if self.transcript.evidence.has_turn_limit && reason.as_deref() == Some("tool_use") {
            expect("subtype", "error_max_turns".into());
        } else if matches!(reason.as_deref(), Some("end_turn" | "stop_sequence")) || last.is_none()
        {
            expect("subtype", "success".into());
        }
        if is_success(report) {
            expect("is_error", last.is_some_and(|it| self.is_error(it)).into());
            if !fields.get("result").is_some_and(Value::is_string) {
                expect("result", "".into());
            }
        } else if is_newer {
            expect("is_error", true.into());
        }
        if is_newer || fields.get("stop_reason").is_some_and(|it| !it.is_null()) {
            expect("stop_reason", reason.into());
        }
    }

    /// Returns why an answer ended.
    fn reason(&self, answer: &Answer) -> Option<String> {
        if answer.reason.is_some() || self.is_shown {
            return answer.reason.clone();
        }
        let name = RecordName::new("assistant", &answer.id);
        self.transcript.get(&name, "message.stopReason").and_then(Json::to_text)
    }

    /// Returns whether an answer is the report of an error, which some versions mark in the file only.
    fn is_error(&self, answer: &Answer) -> bool {
        let line = RecordName::new("assistant", &format!("{}:0", answer.id));
        let is_marked = |facts: &Facts| {
            facts.get(&line, "isApiErrorMessage").is_some_and(|it| *it == Json::of(&true))
        };
        answer.is_error || is_marked(self.transcript) || is_marked(self.stream)
    }
}

fn is_success(report: &RunReport) -> bool {
    report.fields.get("subtype").and_then(Value::as_str) == Some("success")
}

/// Compares the cost of a run with the sum over its models.
fn compare_cost(check: &mut CrossCheck, report: &RunReport) {
    let Some(models) = report.fields.get("modelUsage").and_then(Value::as_object) else { return };
    let sum: f64 = models.values().map(|it| it["costUSD"].as_f64().unwrap_or(0.0)).sum();
    let found = report.fields.get("total_cost_usd");
    let is_right = found.and_then(Value::as_f64).is_some_and(|cost| (cost - sum).abs() < 1e-6);
    if !is_right {
        check.refute(&report.record, "total_cost_usd", Json::of(&found), Json::of(&sum));
    }
}

/// Compares the denials that reports list with the calls and their results.
fn compare_denials(check: &mut CrossCheck, stream: &Facts, transcript: &Facts) {
    let mut listed = BTreeSet::new();
    for report in &stream.evidence.reports {
        let denials = report.fields.get("permission_denials").and_then(Value::as_array);
        if denials.is_none() {
            let (found, implied) = (Json::of(&Value::Null), Json::of(&Value::Array(Vec::new())));
            check.refute(&report.record, "permission_denials", found, implied);
        }
        for denial in denials.into_iter().flatten() {
            let call = denial["tool_use_id"].as_str().unwrap_or("");
            listed.insert(call.to_owned());
            let is_right = is_denied(stream, call, denial) || is_denied(transcript, call, denial);
            if !is_right {
                let (found, implied) = (Json::of(denial), Json::of(&Value::Null));
                check.refute(&report.record, "permission_denials", found, implied);
            }
        }
    }
    for call in stream.evidence.denied.difference(&listed) {
        let last = stream.evidence.reports.last().filter(|_| stream.has_ended);
        if let Some(report) = last {
            let (found, implied) = (Json::of(&Value::Null), Json::string(call));
            check.refute(&report.record, "permission_denials", found, implied);
        }
    }
}

/// Returns whether a side has the call of a denial, and its result is an error.
fn is_denied(facts: &Facts, call: &str, denial: &Value) -> bool {
    let (name, result) = (RecordName::new("assistant", call), RecordName::new("tool_result", call));
    let mut stated = Facts::default();
    stated.set(&name, "message.content.input", &denial["tool_input"]);
    let mut input = stated.records().get(&name).into_iter().flatten();
    facts.get(&name, "message.content.name") == Some(&Json::of(&denial["tool_name"]))
        && facts.get(&result, "message.content.isError") == Some(&Json::of(&true))
        && denial["tool_input"].is_object()
        && input.all(|(field, value)| facts.get(&name, field) == Some(value))
}

/// Finds notifications of tasks that neither side knows, or that ended otherwise in the stream.
fn check_notices(check: &mut CrossCheck, stream: &Facts, transcript: &Facts) {
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

/// Finds prompts that were delivered while the agent was at work, without an answer after them or
/// without having been queued.
fn check_queue(check: &mut CrossCheck, stream: &Facts, transcript: &Facts) {
    let evidence = &transcript.evidence;
    let was_ended = stream.has_ended && !stream.was_interrupted;
    let delivered = evidence.enqueued.saturating_sub(evidence.dequeued + evidence.queued_notices);
    for (number, (record, words, is_answered)) in evidence.queued_prompts.iter().enumerate() {
        let was_queued = evidence.enqueued == 0 || number < delivered;
        if (was_ended && !is_answered) || !was_queued {
            check.reject(record, Json::string(words));
        }
    }
}

/// Finds stored hooks without a streamed one.
///
/// A host that asks for hooks gets those of all events. Without that, a stored hook must follow a line
/// that both sides have, or a prompt.
fn check_hooks(check: &mut CrossCheck, stream: &Facts, transcript: &Facts) {
    let events = &stream.evidence.hook_events;
    let was_asked = events.iter().any(|event| !ALWAYS_STREAMED.contains(&event.as_str()));
    let mut missing: BTreeMap<&RecordName, &str> = BTreeMap::new();
    for hook in &transcript.evidence.stored_hooks {
        if events.contains(&hook.event) {
            continue;
        }
        let is_prompt = |line: &str| {
            let name = RecordName::new("user", line);
            transcript.has(&name) && !stream.has(&name)
        };
        let follows = |line: &String| stream.evidence.lines.contains(line) || is_prompt(line);
        let is_always = ALWAYS_STREAMED.contains(&hook.event.as_str());
        let is_supported = hook.line.as_ref().is_some_and(follows) || (hook.is_start && is_always);
        if was_asked || !is_supported {
            missing.insert(&hook.record, &hook.event);
        } else {
            check.unstreamed_hooks += 1;
        }
    }
    for (record, event) in missing {
        check.reject(record, Json::string(event));
    }
}
