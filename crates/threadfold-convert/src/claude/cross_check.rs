//! Compares what the report of a run sums up with the answers that it sums up, and finds lines of a
//! file for which there is no evidence.

mod tasks;
mod totals;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde_json::Value;
use threadfold_core::Json;

use super::facts::COUNTS;
use crate::parity::{
    Answer, CrossCheck, Facts, RecordName, RunReport, Versions, is_within, normalize,
};

/// The hooks of these events are streamed even if the host does not ask for hooks.
const ALWAYS_STREAMED: [&str; 2] = ["SessionStart", "Setup"];

/// The versions whose report of a run has the stop reason of an error.
const REASONS_OF_ERRORS: Versions = Versions::seen("2.1.50", "2.1.325").after("2.1.30");

/// The versions that begin a turn for the end of a task without a report of the turn before.
const LACKS_REPORTS: Versions = Versions::seen("2.1.50", "2.1.160").before("2.1.197");

/// The versions whose report of a run counts the turns of its main conversation only.
const COUNTS_OWN_TURNS: Versions = Versions::seen("2.0.76", "2.1.325").after("1.0.128");

/// The versions whose report of a command counts messages of the history as turns.
const COUNTS_HISTORY: Versions = Versions::seen("2.1.50", "2.1.100").before("2.1.120");

/// The message of a command without output.
const NO_OUTPUT: &str = "(no content)";

/// The input of a call.
const INPUT: &str = "message.content.input";

/// The most answers of a run of which it is not known whether its report counts them.
const MOST_UNCERTAIN: usize = 10;

pub(super) fn compare(stream: &Facts, transcript: &Facts) -> CrossCheck {
    let mut check = CrossCheck::default();
    compare_reports(&mut check, stream, transcript);
    compare_denials(&mut check, stream, transcript);
    tasks::check_events(&mut check, stream, transcript);
    tasks::check_notices(&mut check, stream, transcript);
    check_queue(&mut check, stream, transcript);
    check_parents(&mut check, stream, transcript);
    check_hooks(&mut check, stream, transcript);
    totals::compare_models(&mut check, stream, transcript);
    totals::compare_messages(&mut check, stream, transcript);
    check
}

/// Compares each report with the answers of its run.
///
/// A report may come late, after answers of the next run: then it sums up the first of the answers that
/// no report before it sums up.
fn compare_reports(check: &mut CrossCheck, stream: &Facts, transcript: &Facts) {
    let answers = &stream.evidence.answers;
    let reports = &stream.evidence.reports;
    let is_shown = answers.iter().any(|it| it.is_streamed);
    let mut sides = Sides { stream, transcript, is_shown, usages: Vec::new() };
    sides.usages = answers.iter().map(|it| sides.usage(it)).collect();
    let version = stream.version.as_deref();
    let mut first = 0;
    for (number, report) in reports.iter().enumerate() {
        let may_be_late = number + 1 < reports.len() || !stream.background.is_empty();
        let earliest = if may_be_late { first } else { report.answers };
        let is_right = |run: Range<usize>| sides.wrong_counts(report, run).is_empty();
        // A turn that the end of a task interrupts has no report, and no report counts its answers.
        let may_lack = !stream.background.is_empty() && LACKS_REPORTS.include(version);
        let turn = report.answers_before_turn;
        let is_after_another = may_lack && first < turn && is_right(turn..report.answers);
        if is_after_another {
            first = turn;
        }
        let mut ends = (earliest.max(first)..=report.answers).rev();
        let end = ends.find(|end| is_right(first..*end));
        let run = first..end.unwrap_or(report.answers);
        for (field, found, sum) in sides.wrong_counts(report, run.clone()) {
            check.refute(&report.record, &field, found, sum);
        }
        sides.compare_outcome(check, report, answers[run.clone()].last());
        totals::compare_cost(check, report);
        if end.is_none_or(|end| end == report.answers) {
            let earlier = if is_after_another { report.lines_before_turn } else { 0 };
            compare_turns(check, stream, (report, report.lines_to_model - earlier), &answers[run]);
        }
        first = end.unwrap_or(report.answers);
    }
}

/// The counts of answers, in the order of [`COUNTS`]; nothing if one of the answers has no such count.
type Usage = [Option<u64>; COUNTS.len()];

/// Both sides of a comparison.
struct Sides<'a> {
    stream: &'a Facts,
    transcript: &'a Facts,
    /// The stream shows messages while they arrive.
    is_shown: bool,
    /// The counts of each answer.
    usages: Vec<Usage>,
}

impl Sides<'_> {
    /// Returns the counts of a report that are not the sum of its answers.
    ///
    /// An answer that was cut off, and the whole one that replaces it, may or may not be counted. A
    /// stream that does not show messages while they arrive does not show which these are.
    fn wrong_counts(&self, report: &RunReport, run: Range<usize>) -> Vec<(String, Json, Json)> {
        let Some(usage) = report.fields.get("usage").and_then(Value::as_object) else {
            return Vec::new();
        };
        let answers = &self.stream.evidence.answers;
        let is_plain = |it: &Answer| !it.is_whole && !it.is_synthetic;
        let is_exact = answers[run.clone()].iter().all(is_plain)
            && !report.is_interrupted
            && is_success(report);
        let is_counted = |it: &Answer| match self.is_shown {
            true => it.is_streamed && it.reason.is_some(),
            false => is_exact,
        };
        let (mut counted, mut open) = ([Some(0); COUNTS.len()], Vec::new());
        for number in run.filter(|number| !answers[*number].is_synthetic) {
            match is_counted(&answers[number]) {
                true => counted = plus(&counted, &self.usages[number]),
                false => open.push(&self.usages[number]),
            }
        }
        if open.len() > MOST_UNCERTAIN {
            return Vec::new();
        }
        let found = COUNTS.map(|field| usage.get(field).and_then(Value::as_u64));
        let is_wrong =
            |sum: &Usage, number: usize| sum[number].is_some() && sum[number] != found[number];
        let is_right = (0..1_usize << open.len()).any(|choice| {
            let chosen = open.iter().enumerate().filter(|(number, _)| choice >> number & 1 == 1);
            let sum = chosen.fold(counted, |sum, (_, it)| plus(&sum, it));
            !(0..COUNTS.len()).any(|number| is_wrong(&sum, number))
        });
        let wrong = (0..COUNTS.len()).filter(|number| !is_right && is_wrong(&counted, *number));
        let shown = |number: usize| {
            let field = COUNTS[number];
            (format!("usage.{field}"), Json::of(&usage.get(field)), Json::of(&counted[number]))
        };
        wrong.map(shown).collect()
    }

    /// Returns the counts of an answer, if both sides together report them.
    fn usage(&self, answer: &Answer) -> Usage {
        let name = RecordName::new("assistant", &answer.id);
        COUNTS.map(|field| {
            if answer.is_streamed {
                return Some(answer.usage.get(field).copied().unwrap_or(0));
            }
            let path = format!("message.usage.{}", normalize(field));
            let stated = self.transcript.get(&name, &path);
            let stated = stated.or_else(|| self.stream.get(&name, &path));
            stated?.as_str().parse::<u64>().ok()
        })
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
        } else if matches!(reason.as_deref(), Some("end_turn" | "stop_sequence"))
            && !is_limited(report)
        {
            expect("subtype", "success".into());
        } else if last.is_none() && (!is_failure(report) || fields.contains_key("result")) {
            // A command that the agent runs itself has no answer, nor has a run that failed at once.
            expect("subtype", "success".into());
        }
        if is_success(report) {
            expect("is_error", last.is_some_and(|it| self.is_error(it)).into());
            expect("api_error", last.and_then(|it| it.api_error.clone()).into());
            // The result of a run is what its last answer ends with.
            let is_text = fields.get("result").is_some_and(Value::is_string);
            match last.and_then(|it| it.last_text.as_deref()) {
                Some(words) if last.is_some_and(|it| it.is_synthetic) => {
                    // The output of a command is trimmed in the message, and not in the result.
                    let found = fields.get("result").and_then(Value::as_str).unwrap_or("").trim();
                    let words = if words == NO_OUTPUT { "" } else { words.trim() };
                    if !is_text || found != words {
                        expect("result", words.into());
                    }
                }
                Some(words) => expect("result", words.into()),
                None if !is_text => expect("result", "".into()),
                None => {}
            }
        } else if is_newer {
            expect("is_error", true.into());
        }
        let has_reason = is_newer
            || fields.get("stop_reason").is_some_and(|it| !it.is_null())
            || (last.is_some_and(|it| self.is_error(it))
                && REASONS_OF_ERRORS.include(self.stream.version.as_deref()));
        // Where the stream does not show the ends of messages, the file need not have them.
        if has_reason && (reason.is_some() || self.is_shown || last.is_none()) {
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

fn plus(first: &Usage, second: &Usage) -> Usage {
    std::array::from_fn(|number| first[number]?.checked_add(second[number]?))
}

/// Compares the turns that a report counts with the lines to the model that its run streamed: each of
/// them begins a turn, and so does the prompt. A command that the agent runs itself has no turn.
fn compare_turns(
    check: &mut CrossCheck,
    stream: &Facts,
    (report, lines): (&RunReport, usize),
    run: &[Answer],
) {
    // The stream of 1.0 does not name its version.
    let is_known = |version| COUNTS_OWN_TURNS.include(Some(version));
    if !stream.version.as_deref().is_some_and(is_known) || report.has_compaction {
        return;
    }
    let found = report.fields.get("num_turns").unwrap_or(&Value::Null);
    let turns = lines + 1;
    let is_command = run.iter().all(|it| it.is_synthetic);
    let is_error = report.fields.get("is_error").and_then(Value::as_bool).unwrap_or(false);
    let counts_history = COUNTS_HISTORY.include(stream.version.as_deref()) && !is_error;
    let is_right = *found == turns
        || is_command && (*found == 0 || counts_history && found.as_u64().is_some());
    if !is_right {
        check.refute(&report.record, "num_turns", Json::of(found), Json::of(&turns));
    }
}

fn subtype(report: &RunReport) -> &str {
    report.fields.get("subtype").and_then(Value::as_str).unwrap_or("")
}

fn is_success(report: &RunReport) -> bool {
    subtype(report) == "success"
}

fn is_failure(report: &RunReport) -> bool {
    subtype(report) == "error_during_execution" || is_limited(report)
}

/// Returns whether a run reached a limit (of turns, cost, or attempts), which it may do after an answer
/// that would have ended its turn.
fn is_limited(report: &RunReport) -> bool {
    subtype(report).starts_with("error_max_")
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
    stated.set(&name, INPUT, &denial["tool_input"]);
    let input = |facts: &Facts| -> BTreeMap<String, Json> {
        let fields = facts.records().get(&name).into_iter().flatten();
        let fields = fields.filter(|(field, _)| is_within(INPUT, field));
        fields.map(|(field, value)| (field.clone(), value.clone())).collect()
    };
    facts.get(&name, "message.content.name") == Some(&Json::of(&denial["tool_name"]))
        && facts.get(&result, "message.content.isError") == Some(&Json::of(&true))
        && denial["tool_input"].is_object()
        && input(&stated) == input(facts)
}

/// Finds prompts that were delivered while the agent was at work, without an answer after them or
/// without having been queued, and prompts that were taken from the queue and not delivered.
fn check_queue(check: &mut CrossCheck, stream: &Facts, transcript: &Facts) {
    let evidence = &transcript.evidence;
    let last = stream.evidence.reports.last();
    let was_ended = stream.has_ended && !stream.was_interrupted && last.is_some_and(is_success);
    let delivered = evidence.enqueued.saturating_sub(evidence.taken + evidence.queued_notices);
    let is_named = |words: &String| {
        evidence.enqueued_silently > 0 || transcript.queued_prompts.contains(words)
    };
    for (number, prompt) in evidence.queued_prompts.iter().enumerate() {
        // Some versions do not report what they put into the queue.
        let was_queued = evidence.enqueued == 0 || (number < delivered && is_named(&prompt.words));
        if (was_ended && !prompt.is_answered) || !was_queued {
            check.reject(&prompt.record, Json::string(&prompt.words));
        }
    }
    for (block, words) in &evidence.absorbed {
        let is_delivered = match block {
            Some(block) => evidence.delivered.contains(block),
            None => evidence.queued_prompts.iter().any(|it| it.words == *words),
        };
        if !is_delivered {
            let record = RecordName::new("queue-operation", block.as_deref().unwrap_or(""));
            check.reject(&record, Json::string(words));
        }
    }
}

/// Finds lines that follow a line which no file has, such as a prompt that was removed. The file of
/// another session, which may not have been given, may have it.
fn check_parents(check: &mut CrossCheck, stream: &Facts, transcript: &Facts) {
    if stream.successive_sessions.iter().any(|it| !transcript.sessions.contains(it)) {
        return;
    }
    for (record, parent) in &transcript.evidence.orphans {
        check.miss(record, parent);
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
    let lines = &stream.evidence.lines;
    let common = transcript.evidence.lines.iter().filter(|(line, _)| lines.contains_key(*line));
    let first = common.map(|(_, number)| *number).min();
    // What precedes the first line of both sides is of the turns before the stream began.
    let is_earlier = |line: &String| {
        let number = transcript.evidence.lines.get(line);
        first.is_none_or(|first| number.is_some_and(|number| *number < first))
    };
    for hook in &transcript.evidence.stored_hooks {
        if events.contains(&hook.event) {
            continue;
        }
        let is_prompt = |line: &str| {
            let name = RecordName::new("user", line);
            transcript.has(&name) && !stream.has(&name)
        };
        let follows = |line: &String| lines.contains_key(line) || is_prompt(line);
        let is_always = ALWAYS_STREAMED.contains(&hook.event.as_str());
        let is_supported = hook.line.as_ref().is_some_and(follows) || (hook.is_start && is_always);
        if hook.line.as_ref().is_some_and(|line| is_earlier(line) && !is_prompt(line)) {
            continue;
        }
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
