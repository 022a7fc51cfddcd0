//! Compares what the records of both sides state, including what no block shows.

use std::collections::BTreeSet;

use threadfold_convert::Agent;
use threadfold_convert::parity::{Facts, RecordName, Side, Variant, normalize};
use threadfold_core::{BlockId, ConversationId, Json};

use super::pair::was_killed;
use super::{Comparison, Difference, RunGap};

/// Compares the records of both sides that have one name, field by field.
///
/// Records on one side only are compared as blocks, because only the state shows whether one side
/// must have them.
pub(super) fn compare_facts(
    comparison: &mut Comparison,
    agent: Agent,
    stream: &Facts,
    transcript: &Facts,
) {
    for side in [stream, transcript] {
        for found in side.contradictions() {
            let (first, second) = (Some(found.first.clone()), Some(found.second.clone()));
            push(comparison, &found.record, &found.field, first, second);
        }
    }
    for (record, text) in &stream.unspoken_results {
        if !transcript.command_outputs.contains(text) {
            push(comparison, record, "result", Some(Json::string(text)), None);
        }
    }
    let check = agent.cross_check(stream, transcript);
    for found in check.refuted {
        push(comparison, &found.record, &found.field, found.stream, found.transcript);
    }
    if check.unstreamed_hooks > 0 {
        *comparison.lacking.entry(RunGap::UnstreamedHooks).or_default() += check.unstreamed_hooks;
    }
    compare_orders(comparison, stream, transcript);
    let version = transcript.version.as_deref().or(stream.version.as_deref());
    compare_presence(comparison, agent, (stream, transcript), version);
    // At a signal an agent may write its account before it counts what it streamed last.
    let is_account_early = transcript.evidence.is_account_early
        && stream.was_interrupted
        && agent.loses_end_at_signal(version);
    for (record, stored) in transcript.records() {
        let Some(streamed) = stream.records().get(record) else { continue };
        let fields: BTreeSet<&String> = streamed.keys().chain(stored.keys()).collect();
        for field in fields {
            let values = (streamed.get(field), stored.get(field));
            let side = match values {
                (Some(streamed), Some(stored)) if streamed == stored => {
                    comparison.fields += 1;
                    continue;
                }
                (Some(_), Some(_)) => None,
                (Some(_), None) => Some(Side::Stream),
                _ => Some(Side::Transcript),
            };
            comparison.fields += 1;
            // The tokens of what the stream does not report are counted in the file.
            if record.kind == "usage"
                && comparison.unfinished.contains(&ConversationId::from(record.id.as_str()))
                && number(values.0) < number(values.1)
            {
                *comparison.lacking.entry(RunGap::AfterInterruption).or_default() += 1;
                continue;
            }
            if is_account_early && record.kind == "session" && is_uncounted(values) {
                *comparison.lacking.entry(RunGap::FileEndsAtSignal).or_default() += 1;
                continue;
            }
            let is_renamed = stream.renamed.contains(record) || transcript.renamed.contains(record);
            if side.is_some() && field == "uuid" && is_renamed {
                *comparison.explained.entry("own-uuid").or_default() += 1;
                continue;
            }
            if let Some(side) = side {
                let (own, other) = match side {
                    Side::Stream => (streamed, transcript),
                    Side::Transcript => (stored, stream),
                };
                let is_allowed = other.choices(record, field).map(|it| it.contains(&own[field]));
                if is_allowed == Some(true) {
                    continue;
                }
                let kinds = gap_kinds(record, stream, transcript);
                let mut gaps = kinds
                    .iter()
                    .filter(|_| is_allowed.is_none())
                    .filter_map(|kind| agent.explain_record(kind, field, (side, false), version));
                if let Some(gap) = gaps.next() {
                    *comparison.explained.entry(gap.name).or_default() += 1;
                    continue;
                }
                let is_copied = is_copied(record, stream, transcript);
                // In a copy a field without a value is like no field.
                if is_copied && own[field] == Json::of(&()) {
                    continue;
                }
                let is_shared = agent.is_shared(&record.kind, &normalize(field), version);
                if !is_shared && !is_copied && is_allowed.is_none() {
                    let name = format!("{}.{}", record.kind, normalize(field));
                    *comparison.unlisted.entry(name).or_default() += 1;
                    continue;
                }
            }
            push(comparison, record, field, values.0.cloned(), values.1.cloned());
        }
    }
}

/// Compares the order of the messages that both sides have.
fn compare_orders(comparison: &mut Comparison, stream: &Facts, transcript: &Facts) {
    for (session, stored) in &transcript.orders {
        let Some(streamed) = stream.orders.get(session) else { continue };
        let common = |own: &[String], other: &[String]| -> Vec<String> {
            let other: BTreeSet<&String> = other.iter().collect();
            own.iter().filter(|it| other.contains(it)).cloned().collect()
        };
        let (streamed, stored) = (common(streamed, stored), common(stored, streamed));
        if streamed != stored {
            let record = RecordName { kind: "session".to_owned(), id: session.clone() };
            let values = (Some(Json::of(&streamed)), Some(Json::of(&stored)));
            push(comparison, &record, "order", values.0, values.1);
        }
    }
}

fn number(value: Option<&Json>) -> Option<u64> {
    value?.as_str().parse().ok()
}

/// Returns whether the file counts less than the stream, or nothing.
fn is_uncounted((streamed, stored): (Option<&Json>, Option<&Json>)) -> bool {
    let amount = |value: &Json| value.as_str().parse::<f64>().ok();
    let Some(streamed) = streamed else { return false };
    stored.is_none_or(|stored| match (amount(stored), amount(streamed)) {
        (Some(stored), Some(streamed)) => stored < streamed,
        _ => false,
    })
}

/// Returns the names under which known gaps may name a record.
///
/// A message that the agent wrote itself, or that arrived as a whole, is one object on both sides, so
/// what a streamed message lacks is no excuse for it.
fn gap_kinds(record: &RecordName, stream: &Facts, transcript: &Facts) -> Vec<String> {
    let kind = &record.kind;
    match variant(record, stream, transcript) {
        Some(Variant::Synthetic) => vec![format!("synthetic/{kind}")],
        Some(Variant::Whole) => vec![format!("whole/{kind}")],
        Some(Variant::Subagent) => vec![format!("subagent/{kind}"), kind.clone()],
        None => vec![kind.clone()],
    }
}

fn variant(record: &RecordName, stream: &Facts, transcript: &Facts) -> Option<Variant> {
    stream.variants.get(record).or_else(|| transcript.variants.get(record)).copied()
}

/// Returns whether both sides have copies of one object, so that they have the same fields.
fn is_copied(record: &RecordName, stream: &Facts, transcript: &Facts) -> bool {
    let variant = variant(record, stream, transcript);
    matches!(variant, Some(Variant::Synthetic | Variant::Whole))
}

/// Adds the records without a counterpart that no block shows.
///
/// A record that follows from another one, as a result from its call, is expected if both sides have
/// that one. A run that was cut off may lack it.
fn compare_presence(
    comparison: &mut Comparison,
    agent: Agent,
    (stream, transcript): (&Facts, &Facts),
    version: Option<&str>,
) {
    let was_cut_off = (was_killed(stream, transcript) && agent.loses_end_at_kill())
        || (stream.was_interrupted && agent.loses_end_at_signal(version));
    let has_sessions = transcript.records().keys().any(|record| is_session(&record.kind));
    for (side, own, other) in
        [(Side::Stream, stream, transcript), (Side::Transcript, transcript, stream)]
    {
        for (record, fields) in own.records() {
            if !agent.is_paired(&record.kind, side) || other.has(record) {
                continue;
            }
            // What the states lack is counted there.
            let block = BlockId::from(format!("result:{}", record.id));
            if comparison.lacking_blocks.contains(&block) {
                continue;
            }
            let cause = agent.cause_of(record);
            let is_effect = cause.is_some();
            let is_expected = cause.is_none_or(|cause| own.has(&cause) && other.has(&cause));
            // A subagent that is stored apart may be missing as a whole, which its blocks show.
            let session = fields.get("sessionID").and_then(Json::to_text);
            let session = session.as_deref().or(own.places.get(record).map(String::as_str));
            let is_stored = match is_session(&record.kind) {
                // Rows of a database have no session object, only its id.
                true => has_sessions && transcript.sessions.contains(&record.id),
                false => session.is_none_or(|session| transcript.sessions.contains(session)),
            };
            let is_expected = is_expected && (is_stored || !agent.stores_subagents_apart());
            // A kill loses the end of the file, and nothing of the stream.
            if !is_expected || (was_cut_off && side == Side::Stream) {
                continue;
            }
            // What a subagent did after its caller was interrupted is counted with its blocks.
            let place = own.places.get(record).map(|it| ConversationId::from(it.as_str()));
            let is_unfinished = place.is_some_and(|it| comparison.unfinished.contains(&it));
            if is_unfinished && side == Side::Transcript {
                continue;
            }
            let covers =
                |field: &String| agent.explain_record(&record.kind, field, (side, true), version);
            // What follows from a record that both sides have is on both sides.
            if let Some(gap) = fields.keys().filter(|_| !is_effect).find_map(covers) {
                *comparison.explained.entry(gap.name).or_default() += 1;
                continue;
            }
            if let Some(gap) = agent.omission_of(record, version) {
                *comparison.explained.entry(gap).or_default() += 1;
                continue;
            }
            let shown = Some(Json::of(fields));
            match side {
                Side::Stream => push(comparison, record, "record", shown, None),
                Side::Transcript => push(comparison, record, "record", None, shown),
            }
        }
    }
}

fn push(
    comparison: &mut Comparison,
    record: &RecordName,
    field: &str,
    stream: Option<Json>,
    transcript: Option<Json>,
) {
    comparison.differences.push(Difference {
        conversation: ConversationId::main(),
        block: (!record.id.is_empty()).then(|| BlockId::from(record.id.as_str())),
        field: format!("{} {field}", record.kind),
        stream,
        transcript,
    });
}

/// Returns whether records of this kind are session objects, of any version of an agent.
fn is_session(kind: &str) -> bool {
    kind == "session" || kind.ends_with("/session")
}
