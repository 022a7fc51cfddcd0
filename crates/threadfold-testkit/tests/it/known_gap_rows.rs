//! Every row of known gaps is shown by recordings: its fields, and the first and last of its versions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;
use threadfold_convert::{Agent, claude, codex, opencode};
use threadfold_fold::parity::{KnownGap, Side, is_within, normalize};
use threadfold_testkit::parity_pairs::identity::{RawPart, RawSide, leaves_of, parts};
use threadfold_testkit::parity_pairs::mutate::{json, records, texts, unwrapped};
use threadfold_testkit::parity_pairs::mutation_count::{
    CONVERSATION, PROVIDER_GAPS, kinds_of_field, raw,
};
use threadfold_testkit::parity_pairs::{RecordedPair, read_pairs};

/// Objects that hold most of a record: a row that names one of them would cover the whole record.
const CONTAINERS: [&str; 11] = [
    "message",
    "properties",
    "attachment",
    "data",
    "row",
    "payload",
    "payload.item",
    "params",
    "params.item",
    "item",
    "result",
];

const AGENTS: [Agent; 3] = [claude::AGENT, codex::AGENT, opencode::AGENT];

/// A recording, with the raw records of both sides.
struct Recording {
    pair: RecordedPair,
    version: String,
    sides: [RawSide; 2],
    /// The ends of streamed messages, and whether the file has them.
    ends: Vec<(String, bool)>,
}

impl Recording {
    fn new(pair: RecordedPair) -> Self {
        let version = version_of(&pair).unwrap_or_else(|| panic!("{}: no version", pair.name));
        let sides = [raw(&pair, Side::Stream), raw(&pair, Side::Transcript)];
        let ends = ends_of(&pair);
        Self { pair, version, sides, ends }
    }

    fn is_named(&self, name: &str) -> bool {
        self.pair.name == name || self.pair.name.starts_with(&format!("{name} with its "))
    }

    fn other(&self, side: Side) -> &RawSide {
        match side {
            Side::Stream => &self.sides[1],
            Side::Transcript => &self.sides[0],
        }
    }
}

fn recordings(agent: Agent) -> Vec<Recording> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../threadfold-convert/tests/data");
    let pairs = read_pairs(&root.join(agent.name())).unwrap();
    pairs.into_iter().map(Recording::new).collect()
}

/// Returns the version that the raw records name.
fn version_of(pair: &RecordedPair) -> Option<String> {
    let mut found = None;
    for side in [Side::Transcript, Side::Stream] {
        each_part(pair, side, |part| {
            let names = ["version", "claude_code_version"].map(|name| &part.object[name]);
            // The first record of a rollout, and the event that begins a session of OpenCode 2.
            let inner = [&part.object["payload"]["cli_version"], &part.object["data"]["version"]];
            let version = names.into_iter().chain(inner).find_map(Value::as_str).map(str::to_owned);
            let is_named = part.kind != "row/session" || part.object["parent_id"].is_null();
            found = found.take().or(version.filter(|_| is_named));
        });
    }
    found
}

/// Calls a function for each part of the raw records of one side.
fn each_part(pair: &RecordedPair, side: Side, mut each: impl FnMut(RawPart<'_>)) {
    for bytes in texts(pair, side) {
        for value in records(bytes).into_iter().filter_map(json) {
            let (_, inner) = unwrapped(&value);
            parts(inner).into_iter().for_each(&mut each);
        }
    }
}

/// How a field of a row is in the recordings of one version.
#[derive(Clone, Copy, Default)]
struct Evidence {
    /// A record has it on the row's side only.
    is_one_sided: bool,
    /// A record has the same value on both sides.
    is_common: bool,
}

/// Returns how each field of a row is in a recording.
fn evidence(gap: &KnownGap, recording: &Recording) -> BTreeMap<String, Evidence> {
    let mut found: BTreeMap<String, Evidence> = BTreeMap::new();
    let other = recording.other(gap.side);
    each_part(&recording.pair, gap.side, |part| {
        let mut all_kinds = part.gap_kinds();
        all_kinds.extend(recording.sides[0].is_whole(&part).then(|| "whole/assistant".to_owned()));
        let beside = recording.sides[0].kinds_beside(&part);
        all_kinds.extend(beside.into_iter().filter(|_| gap.side == Side::Transcript));
        let output = recording.sides[1].kind_of_output(&part);
        all_kinds.extend(output.filter(|_| gap.side == Side::Transcript));
        let ids = evidence_ids(&part);
        if gap.record != "*" && !all_kinds.iter().any(|kind| kind == gap.record) {
            return;
        }
        let mut leaves = Vec::new();
        leaves_of(part.object, "", &mut leaves);
        // The count of a message that has not ended is a fact of its own.
        let begun = leaves.iter().find(|(path, _)| path == "message.usage.output_tokens").cloned();
        leaves.extend(begun.map(|(path, value)| (format!("{path}_at_start"), value)));
        for (path, value) in leaves.into_iter().filter(|(_, value)| gap.whole || value != "null") {
            // What is in a message that the agent wrote itself is not like others.
            let is_own = part.kind == "synthetic/assistant" && path.starts_with("message");
            let kinds =
                if is_own && !gap.whole { vec![part.kind.clone()] } else { all_kinds.clone() };
            let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
            let kinds = kinds_of_field(&kinds, &path);
            if !kinds.iter().any(|kind| gap.covers(kind, &path, gap.side)) {
                continue;
            }
            let value: Value = serde_json::from_str(&value).unwrap();
            let is_common = match gap.whole {
                true => other.has(&part.ids),
                false => {
                    let stored = path.strip_suffix("_at_start").unwrap_or(&path);
                    other.carries(&ids, (&part.kind, stored), &value)
                }
            };
            // Events of OpenCode 2 name their session, and its object is built from them.
            let is_built = part.kind == "v2/session" && gap.side == Side::Transcript;
            // The end of a message is part of the message that files have.
            let is_built = is_built || part.kind == "stream_event/message_delta";
            let is_one_sided = !is_common && (gap.whole || is_built || other.has(&ids));
            let is_one_sided = is_one_sided && !has_closer_row(gap, recording, &part, &path);
            for field in gap.fields.iter().filter(|field| names(field, &path)) {
                let evidence = found.entry(field.clone()).or_default();
                evidence.is_common |= is_common;
                evidence.is_one_sided |= is_one_sided;
            }
        }
    });
    for (path, is_common) in recording.ends.iter().filter(|_| gap.side == Side::Stream) {
        for field in gap.fields.iter().filter(|field| names(field, path)) {
            if gap.covers("assistant", path, gap.side) && gap.record == "assistant" {
                let evidence = found.entry(field.clone()).or_default();
                evidence.is_common |= is_common;
                evidence.is_one_sided |= !is_common;
            }
        }
    }
    found
}

/// Returns whether a row of a variant of the record, such as `subagent/assistant` for `assistant`, names
/// the field in the recorded version: then the record is evidence of that row only.
fn has_closer_row(gap: &KnownGap, recording: &Recording, part: &RawPart<'_>, path: &str) -> bool {
    // The variants come before the kind.
    let kinds = part.gap_kinds();
    let variants = kinds.iter().position(|kind| kind == gap.record).unwrap_or(0);
    recording.pair.agent.known_gaps().iter().any(|row| {
        row.whole == gap.whole
            && row.versions.include(Some(&recording.version))
            && kinds[..variants].iter().any(|kind| kind == row.record)
            && row.covers(row.record, path, gap.side)
    })
}

/// Returns what identifies the record on the other side: an event of OpenCode 2 becomes part of a
/// message, or of its session.
fn evidence_ids(part: &RawPart<'_>) -> Vec<String> {
    let session = part.object["data"]["sessionID"].as_str().filter(|_| part.at.is_empty());
    let session = session.map(|id| format!("v2/session {id}"));
    part.ids.iter().cloned().chain(part.message.clone()).chain(session).collect()
}

/// Returns the stop reasons and counts that a stream reports at the end of its messages, and whether
/// the file has the same on a line of the message.
fn ends_of(pair: &RecordedPair) -> Vec<(String, bool)> {
    let (mut stored, mut messages) = (BTreeSet::new(), BTreeSet::new());
    each_part(pair, Side::Transcript, |part| {
        let message = &part.object["message"];
        messages.insert(message["id"].to_string());
        let values = [&message["stop_reason"], &message["usage"]["output_tokens"]];
        for value in values {
            stored.insert((message["id"].to_string(), value.to_string()));
        }
    });
    let (mut ends, mut open) = (Vec::new(), BTreeMap::new());
    each_part(pair, Side::Stream, |part| {
        let (event, caller) =
            (&part.object["event"], part.object["parent_tool_use_id"].to_string());
        if event["type"] == "message_start" {
            open.insert(caller, event["message"]["id"].to_string());
        } else if let (Some(message), "message_delta") = (
            open.get(&caller).filter(|it| messages.contains(*it)),
            event["type"].as_str().unwrap_or(""),
        ) {
            for (path, value) in [
                ("message.stop_reason", &event["delta"]["stop_reason"]),
                ("message.usage.output_tokens_at_end", &event["usage"]["output_tokens"]),
            ] {
                let is_common = stored.contains(&(message.clone(), value.to_string()));
                ends.push((path.to_owned(), is_common));
            }
        }
    });
    ends
}

/// Returns whether a field of a row is this path, or above it.
fn names(field: &str, path: &str) -> bool {
    let path = normalize(path);
    is_within(field, &path)
}

/// Returns a row as the messages of a test name it.
fn shown(gap: &KnownGap) -> String {
    let side = if gap.side == Side::Stream { "stream" } else { "transcript" };
    format!("[{}] {} of the {side}", gap.name, gap.record)
}

#[test]
fn every_known_gap_is_shown_by_the_recording_that_it_names() {
    let mut unshown = Vec::new();
    for agent in AGENTS {
        let recordings = recordings(agent);
        for gap in agent.known_gaps().iter() {
            let mut named = recordings.iter().filter(|it| it.is_named(gap.recording));
            if !named.any(|it| evidence(gap, it).values().any(|field| field.is_one_sided)) {
                unshown.push(format!("{}: not in {}", shown(gap), gap.recording));
            }
        }
    }
    assert_eq!(unshown, [""; 0]);
}

#[test]
fn every_field_of_a_known_gap_is_in_a_recording() {
    let mut absent = Vec::new();
    for agent in AGENTS {
        let recordings = recordings(agent);
        for gap in agent.known_gaps().iter() {
            // A field may be without a value, and beside a record that both sides have.
            let gap = KnownGap { whole: true, ..gap.clone() };
            let fields: BTreeSet<String> = recordings
                .iter()
                .flat_map(|it| evidence(&gap, it))
                .map(|(field, _)| field)
                .collect();
            let missing = gap.fields.iter().filter(|field| !fields.contains(*field));
            absent.extend(missing.map(|field| format!("{}: {field}", shown(&gap))));
        }
    }
    assert_eq!(absent, [""; 0]);
}

#[test]
fn no_known_gap_names_a_field_that_both_sides_of_its_recording_carry() {
    let mut common = BTreeSet::new();
    for agent in AGENTS {
        let recordings = recordings(agent);
        for gap in agent.known_gaps().iter().filter(|gap| !gap.whole) {
            for recording in recordings.iter().filter(|it| it.is_named(gap.recording)) {
                let fields = evidence(gap, recording).into_iter();
                let both = fields.filter(|(_, evidence)| evidence.is_common);
                common.extend(both.map(|(field, _)| format!("{}: {field}", shown(gap))));
            }
        }
    }
    assert_eq!(common, BTreeSet::new());
}

#[test]
fn no_known_gap_covers_a_whole_record() {
    for agent in AGENTS {
        let recordings = recordings(agent);
        for gap in agent.known_gaps().iter() {
            assert!(!gap.covers(gap.record, "aFieldOfALaterVersion", gap.side), "{}", shown(gap));
            let named: Vec<_> = CONTAINERS
                .iter()
                .filter(|it| gap.fields.iter().any(|field| field == *it))
                .collect();
            // An event may be about nothing, which is an empty object. What Claude Code stores of a
            // request has parameters of its own.
            let named = named.into_iter().filter(|_| gap.record != "api-request");
            for container in named {
                for recording in &recordings {
                    each_part(&recording.pair, gap.side, |part| {
                        let inner = container.split('.').fold(part.object, |it, name| &it[name]);
                        let is_empty = inner.as_object().is_none_or(|it| it.is_empty());
                        let prefixes = ["exec/", "unreported/"];
                        let own = prefixes.iter().find_map(|it| gap.record.strip_prefix(it));
                        let kind = own.unwrap_or(gap.record);
                        let is_named = part.gap_kinds().iter().any(|it| it == kind);
                        assert!(!is_named || is_empty, "{} names `{container}`", shown(gap));
                    });
                }
            }
        }
    }
}

/// Returns whether records of this kind are parts of a conversation.
fn is_conversation(kind: &str) -> bool {
    let own = kind.strip_prefix("exec/").unwrap_or(kind);
    let prefixes = ["response_item/", "item/", "item.completed/", "event_msg/agent_message"];
    CONVERSATION.contains(&kind) || prefixes.iter().any(|it| own.starts_with(it))
}

/// Returns what is wrong with the versions of a row.
fn check_versions(gap: &KnownGap, recordings: &[Recording]) -> Vec<String> {
    let mut versions: BTreeMap<&str, BTreeMap<String, Evidence>> = BTreeMap::new();
    for recording in recordings {
        let fields = versions.entry(&recording.version).or_default();
        for (field, evidence) in evidence(gap, recording) {
            let known = fields.entry(field).or_default();
            known.is_common |= evidence.is_common;
            known.is_one_sided |= evidence.is_one_sided;
        }
    }
    let shows = |version: &str| {
        let fields = versions.get(version);
        fields.is_some_and(|fields| fields.values().any(|field| field.is_one_sided))
    };
    let mut wrong = Vec::new();
    for bound in BTreeSet::from([gap.versions.first, gap.versions.last]) {
        if !shows(bound) {
            wrong.push(format!("{}: no recording of {bound} shows it", shown(gap)));
        }
    }
    for bound in [gap.versions.after, gap.versions.until].into_iter().flatten() {
        // Records of one kind may be on one side only for several reasons.
        if !versions.contains_key(bound) || (!gap.whole && shows(bound)) {
            wrong.push(format!("{}: recordings of {bound} do not contradict it", shown(gap)));
        }
    }
    for (version, fields) in versions.iter().filter(|(it, _)| gap.versions.include(Some(it))) {
        let is_carried = |field: &Evidence| field.is_common && !field.is_one_sided;
        let carried: Vec<_> = fields.iter().filter(|(_, field)| is_carried(field)).collect();
        match gap.whole {
            // A conversation's records are compared one by one, whichever row explains some of them.
            true if is_conversation(gap.record) => {}
            true if !shows(version) && !carried.is_empty() => {
                wrong.push(format!("{}: both sides of {version} have it", shown(gap)));
            }
            true => {}
            // Which of these fields a stream has depends on the provider, and not on the version.
            false if PROVIDER_GAPS.contains(&gap.name) => {}
            false => wrong.extend(carried.iter().map(|(field, _)| {
                format!("{}: both sides of {version} carry {field}", shown(gap))
            })),
        }
    }
    wrong
}

#[test]
fn the_versions_of_a_known_gap_are_those_whose_recordings_show_it() {
    let mut wrong = Vec::new();
    for agent in AGENTS {
        let recordings = recordings(agent);
        wrong.extend(agent.known_gaps().iter().flat_map(|gap| check_versions(gap, &recordings)));
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn a_row_that_claims_a_version_without_the_gap_is_refused() {
    let recordings = recordings(claude::AGENT);
    let is_request = |gap: &&KnownGap| gap.name == "request-id";
    let row = claude::AGENT.known_gaps().iter().find(is_request).unwrap();
    assert_eq!(check_versions(row, &recordings), [""; 0]);

    let mut wider = row.clone();
    (wider.versions.last, wider.versions.until) = ("2.1.325", None);
    let wrong = check_versions(&wider, &recordings);
    assert!(wrong.iter().any(|it| it.ends_with("no recording of 2.1.325 shows it")), "{wrong:?}");
    assert!(
        wrong.iter().any(|it| it.ends_with("both sides of 2.1.325 carry requestId")),
        "{wrong:?}"
    );
}

#[test]
fn a_row_that_claims_every_line_where_only_those_of_subagents_show_it_is_refused() {
    let recordings = recordings(claude::AGENT);
    let names = |gap: &&KnownGap| {
        gap.record == "assistant" && gap.fields.iter().any(|field| field == "apiErrorStatus")
    };
    let row = claude::AGENT.known_gaps().iter().find(names).unwrap();
    assert_eq!(check_versions(row, &recordings), [""; 0]);

    let mut wider = row.clone();
    (wider.versions.last, wider.versions.until) = ("2.1.325", None);
    let wrong = check_versions(&wider, &recordings);
    assert!(wrong.iter().any(|it| it.ends_with("no recording of 2.1.325 shows it")), "{wrong:?}");
}
