//! Compares the totals of the models with each other, with their costs, and with the messages.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use threadfold_core::Json;

use super::is_success;
use crate::claude::facts::{COUNTS, is_cost, sum_of_costs};
use crate::parity::{CrossCheck, Facts, RecordName, RunReport, Variant, Versions, normalize};

/// The counts of a model's totals, in the order of [`COUNTS`].
const TOTALS: [&str; 4] =
    ["inputTokens", "cacheCreationInputTokens", "cacheReadInputTokens", "outputTokens"];

/// The sums over the messages of each model, in the order of [`COUNTS`].
type Sums = BTreeMap<String, [u64; 4]>;

/// The searches of the web that a model's requests made.
const SEARCHES: &str = "webSearchRequests";

/// The versions whose totals have all messages: versions before them drop those that were cut off.
const HAS_ALL_MESSAGES: Versions = Versions::seen("2.1.50", "2.1.325").after("2.1.30");

/// Finds totals of models that only one side has, where both have totals.
pub(super) fn compare_models(check: &mut CrossCheck, stream: &Facts, transcript: &Facts) {
    let totals = |facts: &Facts, record: &RecordName| -> BTreeMap<String, Json> {
        let fields = facts.records().get(record).into_iter().flatten();
        let totals = fields.filter(|(field, _)| field.starts_with("modelUsage."));
        totals.map(|(field, value)| (field.clone(), value.clone())).collect()
    };
    for record in stream.records().keys().filter(|it| it.kind == "session") {
        let (streamed, stored) = (totals(stream, record), totals(transcript, record));
        if streamed.is_empty() || stored.is_empty() {
            continue;
        }
        let fields: BTreeSet<&String> = streamed.keys().chain(stored.keys()).collect();
        for field in fields {
            if streamed.contains_key(field) != stored.contains_key(field) {
                let (found, implied) =
                    (Json::of(&streamed.get(field)), Json::of(&stored.get(field)));
                check.refute(record, field, found, implied);
            }
        }
    }
}

/// Compares the cost of a run with the sum over its models.
pub(super) fn compare_cost(check: &mut CrossCheck, report: &RunReport) {
    let sum = sum_of_costs(report.fields.get("modelUsage"));
    let found = report.fields.get("total_cost_usd");
    if !is_cost(found, sum) {
        check.refute(&report.record, "total_cost_usd", Json::of(&found), Json::of(&sum));
    }
}

/// Compares the totals of each model at the end of a stream with its messages in the whole session,
/// those of subagents included.
///
/// Totals may have more: requests of the agent itself, such as a compaction, are no messages. Such a
/// request has input and output, so both are higher then. They have less than the messages if a
/// subagent goes on in the background after the last report.
pub(super) fn compare_messages(check: &mut CrossCheck, stream: &Facts, transcript: &Facts) {
    let Some(report) = stream.evidence.reports.last() else { return };
    let Some(models) = report.fields.get("modelUsage").and_then(Value::as_object) else { return };
    let may_search = may_search(stream) || may_search(transcript);
    for (model, totals) in models {
        check_fields(check, report, model, totals);
        let (path, found) = (format!("modelUsage.{model}.{SEARCHES}"), &totals[SEARCHES]);
        if !may_search && *found != 0 {
            check.refute(&report.record, &path, Json::of(found), Json::of(&0));
        }
    }
    let Some(sums) = sums_of_messages(stream, transcript, None) else { return };
    if !is_regular(stream, transcript) || !sums.keys().all(|model| models.contains_key(model)) {
        return;
    }
    // A host may begin another session. The totals of some versions go on then, those of others begin
    // again.
    let session = report.fields.get("session_id").and_then(Value::as_str);
    let session = session.filter(|_| stream.successive_sessions.len() > 1);
    let sums_of_session = session.and_then(|it| sums_of_messages(stream, transcript, Some(it)));
    let may_lack =
        !stream.background.is_empty() || !HAS_ALL_MESSAGES.include(stream.version.as_deref());
    for (model, totals) in models {
        let found = TOTALS.map(|field| totals[field].as_u64().unwrap_or(0));
        let of_model = |sums: &Sums| sums.get(model).copied().unwrap_or_default();
        let mut possible = sums_of_session.iter().chain([&sums]).map(of_model);
        if !possible.any(|sum| may_sum_up(&found, &sum, may_lack)) {
            let field = format!("modelUsage.{model}");
            let object = |counts: &[u64; 4]| -> BTreeMap<&str, u64> {
                TOTALS.into_iter().zip(counts.iter().copied()).collect()
            };
            let (found, implied) = (Json::of(&object(&found)), Json::of(&object(&of_model(&sums))));
            check.refute(&report.record, &field, found, implied);
        }
    }
}

/// Returns whether the totals of a model may be those of messages with this sum.
fn may_sum_up(found: &[u64; 4], sum: &[u64; 4], may_lack: bool) -> bool {
    let input =
        |counts: &[u64; 4]| counts[..3].iter().fold(0_u64, |sum, it| sum.saturating_add(*it));
    match (input(found).cmp(&input(sum)), found[3].cmp(&sum[3])) {
        (Ordering::Equal, Ordering::Equal) => found == sum,
        (Ordering::Greater, Ordering::Greater) => true,
        (Ordering::Less, Ordering::Less) => may_lack,
        _ => false,
    }
}

/// Checks that the totals of a model have all counts.
fn check_fields(check: &mut CrossCheck, report: &RunReport, model: &str, totals: &Value) {
    for field in TOTALS {
        if !totals[field].is_u64() {
            let path = format!("modelUsage.{model}.{field}");
            let (found, implied) = (Json::of(&totals[field]), Json::of(&0));
            check.refute(&report.record, &path, found, implied);
        }
    }
}

/// Returns whether a call may have searched the web.
fn may_search(facts: &Facts) -> bool {
    let field = |name, field| facts.get(name, field).and_then(Json::to_text);
    facts.records().keys().filter(|name| name.kind == "assistant").any(|name| {
        field(name, "message.content.name").is_some_and(|it| it == "WebSearch")
            || field(name, "message.content.type").is_some_and(|it| it == "server_tool_use")
    })
}

/// Returns whether the stream shows one whole run of the agent: nothing was interrupted, cut off or
/// asked again, and the files have no earlier messages.
///
/// Of a message that was cut off, 2.1.328 counts more than the message says.
fn is_regular(stream: &Facts, transcript: &Facts) -> bool {
    let is_retry = |facts: &Facts| facts.records().keys().any(|it| it.kind == "system/api_retry");
    let is_other = stream.successive_sessions.iter().any(|it| !transcript.sessions.contains(it));
    let answers = &stream.evidence.answers;
    let is_shown = answers.iter().any(|it| it.is_streamed);
    let is_cut = answers
        .iter()
        .any(|it| !it.is_synthetic && is_shown && (!it.is_streamed || it.reason.is_none()));
    let is_earlier = |name: &&RecordName| {
        !transcript.evidence.subagent_messages.contains(*name) && !stream.has(name)
    };
    stream.has_ended
        && !stream.was_interrupted
        && stream.evidence.reports.iter().all(|it| is_success(it) && !it.is_interrupted)
        && stream.replaced_answers.is_empty()
        && !is_retry(stream)
        && !is_retry(transcript)
        && !has_api_error(stream)
        && !has_api_error(transcript)
        && !is_other
        && !is_cut
        && !messages(transcript).any(|name| is_earlier(&name))
}

/// Returns whether a request failed, that of a subagent included.
fn has_api_error(facts: &Facts) -> bool {
    let is_marked = |name: &RecordName| {
        facts.get(name, "error").is_some()
            || facts.get(name, "isApiErrorMessage").is_some_and(|it| *it == Json::of(&true))
    };
    facts.records().keys().filter(|name| name.kind == "assistant").any(is_marked)
}

/// Returns the messages that a model gave.
fn messages(facts: &Facts) -> impl Iterator<Item = &RecordName> {
    let is_message = |name: &&RecordName| {
        name.kind == "assistant"
            && facts.get(name, "message.usage.inputTokens").is_some()
            && facts.variants.get(*name) != Some(&Variant::Synthetic)
    };
    facts.records().keys().filter(is_message)
}

/// Returns the sum over the messages of each model on both sides, or over those of one session; nothing
/// if one of them has no output tokens at its end.
fn sums_of_messages(stream: &Facts, transcript: &Facts, session: Option<&str>) -> Option<Sums> {
    let names: BTreeSet<&RecordName> = messages(transcript).chain(messages(stream)).collect();
    let mut sums = Sums::new();
    for name in names {
        let stated = |path: &str| transcript.get(name, path).or_else(|| stream.get(name, path));
        let is_other = |it| stated("sessionId").and_then(Json::to_text).as_deref() != Some(it);
        if session.is_some_and(is_other) {
            continue;
        }
        let sum = sums.entry(stated("message.model")?.to_text()?).or_default();
        for (field, sum) in COUNTS.iter().zip(sum) {
            // Some providers do not count what a cache holds.
            let count = match stated(&format!("message.usage.{}", normalize(field))) {
                Some(count) => count.as_str().parse::<u64>().ok()?,
                None if field.starts_with("cache_") => 0,
                None => return None,
            };
            *sum = sum.saturating_add(count);
        }
    }
    Some(sums)
}
