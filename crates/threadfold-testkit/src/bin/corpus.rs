//! Checks every Claude Code session below a folder: no panic, nothing dropped, every tool use and
//! result once, and a prefix folded, then the rest, equal to the whole.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;

use threadfold_core::{
    BlockBody, ConversationState, Payload, SessionEvent, Snapshot, fold, reduce,
};
use threadfold_testkit::raw_count::RawCount;
use threadfold_testkit::sessions_on_disk::{SessionOnDisk, read_sessions};

fn main() -> ExitCode {
    let Some(folder) = std::env::args().nth(1) else {
        eprintln!("error: which folder?\nhint: `cargo xtask corpus PATH`");
        return ExitCode::from(2);
    };
    let sessions = match read_sessions(Path::new(&folder)) {
        Ok(sessions) => sessions,
        Err(error) => {
            eprintln!("error: {folder} cannot be read\ncause: {error}");
            return ExitCode::from(2);
        }
    };
    let mut totals = Totals::default();
    for (number, session) in sessions.iter().enumerate() {
        eprint!("\r{} of {} ", number + 1, sessions.len());
        let checked = catch_unwind(AssertUnwindSafe(|| check(session, &mut totals)));
        let findings = checked.unwrap_or_else(|_| vec!["it panicked".to_owned()]);
        for finding in findings {
            println!("{}: {finding}", session.name);
            totals.findings += 1;
        }
    }
    eprintln!();
    println!(
        "{} sessions, {} events, {} blocks, {} unknown blocks, {} losses, {} findings",
        sessions.len(),
        totals.events,
        totals.blocks,
        totals.unknown.values().sum::<usize>(),
        totals.losses,
        totals.findings
    );
    for (kind, count) in &totals.unknown {
        println!("  unknown {kind}: {count}");
    }
    for (kind, count) in &totals.anomalies {
        println!("  anomaly {kind}: {count}");
    }
    if totals.findings == 0 && !sessions.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[derive(Default)]
struct Totals {
    events: usize,
    blocks: usize,
    losses: usize,
    findings: usize,
    unknown: BTreeMap<String, usize>,
    anomalies: BTreeMap<String, usize>,
}

fn check(session: &SessionOnDisk, totals: &mut Totals) -> Vec<String> {
    let events = session.events();
    totals.events += events.len();
    totals.losses += events.iter().filter(|event| matches!(event.payload, Payload::Log(_))).count();
    let mut state = ConversationState::default();
    for event in &events {
        if let Some(anomaly) = state.apply(event).anomaly() {
            let kind = format!("{anomaly:?}").split_whitespace().next().unwrap_or("").to_owned();
            *totals.anomalies.entry(kind).or_default() += 1;
        }
    }
    let mut findings = Vec::new();
    count(session, &state, totals, &mut findings);
    prefixes(&events, &state, &mut findings);
    findings
}

/// Every call and every result that the raw lines hold is there, once in its conversation.
fn count(
    session: &SessionOnDisk,
    state: &ConversationState,
    totals: &mut Totals,
    findings: &mut Vec<String>,
) {
    let mut raw = RawCount::default();
    for (path, bytes) in &session.files {
        if path.ends_with(".jsonl") {
            raw.add(bytes);
        }
    }
    let mut calls: BTreeMap<String, usize> = BTreeMap::new();
    let mut results: BTreeMap<String, usize> = BTreeMap::new();
    let conversations =
        std::iter::once(state.blocks()).chain(state.subagents().into_iter().map(|it| it.blocks()));
    for blocks in conversations {
        totals.blocks += blocks.len();
        for block in blocks.iter() {
            match &block.body {
                BlockBody::ToolUse(call) => {
                    *calls.entry(call.tool_use_id.to_string()).or_default() += 1;
                }
                BlockBody::Subagent(edge) => {
                    let call = edge.tool_use_id.as_ref().map(ToString::to_string);
                    *calls.entry(call.clone().unwrap_or_default()).or_default() += 1;
                    *results.entry(call.unwrap_or_default()).or_default() += 1;
                }
                BlockBody::ToolResult(result) => {
                    *results.entry(result.tool_use_id.to_string()).or_default() += 1;
                }
                BlockBody::Unknown(unknown) => {
                    let kind = serde_json::from_str::<serde_json::Value>(unknown.record.as_str())
                        .ok()
                        .and_then(|it| {
                            Some(format!(
                                "{}/{}",
                                it["type"].as_str()?,
                                it["subtype"].as_str().unwrap_or("")
                            ))
                        });
                    *totals.unknown.entry(kind.unwrap_or("damaged".into())).or_default() += 1;
                }
                _ => {}
            }
        }
    }
    let missing = |wanted: &std::collections::BTreeSet<String>, have: &BTreeMap<String, usize>| {
        wanted.iter().filter(|id| !have.contains_key(*id)).count()
    };
    let (no_call, no_result) = (missing(&raw.calls, &calls), missing(&raw.results, &results));
    if no_call + no_result > 0 {
        findings.push(format!("{no_call} tool uses and {no_result} results are missing"));
    }
}

/// A prefix folded, kept and restored, then the rest, is the whole.
fn prefixes(events: &[SessionEvent], whole: &ConversationState, findings: &mut Vec<String>) {
    for part in 1..4 {
        let at = events.len() * part / 4;
        let prefix = fold(&events[..at]);
        let json = serde_json::to_string(&prefix.snapshot()).expect("a snapshot is plain data");
        let back = serde_json::from_str::<Snapshot>(&json)
            .map_err(|error| error.to_string())
            .and_then(|it| ConversationState::restore(&it).map_err(|error| error.to_string()));
        match back {
            Ok(back) if events[at..].iter().fold(back.clone(), reduce).hash() == whole.hash() => {}
            Ok(_) => findings.push(format!("the first {at} events, then the rest, differ")),
            Err(error) => findings.push(format!("a snapshot cannot be restored: {error}")),
        }
    }
}
