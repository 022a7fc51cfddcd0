//! Checks every session below a folder, of any agent: no panics, nothing dropped, every tool use
//! and result exactly once, every piece of content as the raw records have it, and folding a prefix
//! and then the rest equals folding the whole.
//!
//! Exit code 0: no problems. 1: problems found, or no sessions. 2: the folder cannot be
//! read.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;

use serde_json::Value;
use threadfold_convert::Agent;
use threadfold_convert::{claude, codex, opencode};
use threadfold_core::{
    Block, BlockBody, ConversationState, Payload, SessionEvent, StateSnapshot, UnknownBlock, fold,
    reduce,
};
use threadfold_testkit::oracle;
use threadfold_testkit::raw_count::RawCount;
use threadfold_testkit::raw_count::opencode::OpencodeCount;
use threadfold_testkit::sessions_on_disk::{SessionOnDisk, read_sessions};

fn main() -> ExitCode {
    let Some(folder) = std::env::args().nth(1) else {
        eprintln!("error: which folder?\nhint: `cargo xtask corpus PATH`");
        return ExitCode::from(2);
    };
    let sessions = match read_sessions(Path::new(&folder)) {
        Ok(sessions) => sessions,
        Err(error) => {
            eprintln!("error: `{folder}` cannot be read\ncause: {error}");
            return ExitCode::from(2);
        }
    };
    let mut totals = Totals::default();
    for (number, session) in sessions.iter().enumerate() {
        eprint!("\r{} of {} ", number + 1, sessions.len());
        for finding in check(session, &mut totals) {
            println!("{}: {finding}", session.name);
            totals.findings += 1;
        }
    }
    eprintln!();
    for agent in [claude::AGENT, opencode::AGENT, codex::AGENT] {
        let count = sessions.iter().filter(|it| it.agent == agent).count();
        println!("{count} sessions of {}", agent.name());
    }
    totals.print(sessions.len());
    if totals.findings == 0 && !sessions.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The totals of all sessions.
#[derive(Default)]
struct Totals {
    events: usize,
    blocks: usize,
    /// Tool uses and results in the raw records.
    calls: usize,
    results: usize,
    losses: usize,
    /// Pieces of content that the oracle compared, and those that differ.
    compared: usize,
    differences: usize,
    findings: usize,
    unknown: BTreeMap<String, usize>,
    anomalies: BTreeMap<String, usize>,
}

impl Totals {
    fn unknown(&mut self, unknown: &UnknownBlock) {
        *self.unknown.entry(kind_of(unknown)).or_default() += 1;
    }

    fn print(&self, sessions: usize) {
        let unknown: usize = self.unknown.values().sum();
        println!(
            "{sessions} sessions, {} events, {} blocks, {unknown} unknown blocks, {} losses, {} findings",
            self.events, self.blocks, self.losses, self.findings
        );
        println!("{} tool uses and {} results in the raw records", self.calls, self.results);
        println!(
            "{} pieces compared with the oracle, {} differences",
            self.compared, self.differences
        );
        for (kind, count) in &self.unknown {
            println!("  unknown {kind}: {count}");
        }
        for (kind, count) in &self.anomalies {
            println!("  anomaly {kind}: {count}");
        }
    }
}

/// Returns the problems of a session; a panic is a problem, too.
fn check(session: &SessionOnDisk, totals: &mut Totals) -> Vec<String> {
    let checked = catch_unwind(AssertUnwindSafe(|| {
        let events = session.events();
        let state = fold_counting(&events, totals);
        let mut findings = check_calls(session, &state, totals);
        findings.extend(check_content(session, &state, totals));
        findings.extend(check_prefixes(&events, &state));
        findings
    }));
    checked.unwrap_or_else(|_| vec!["it panicked".to_owned()])
}

/// Folds the events, and counts losses and anomalies.
fn fold_counting(events: &[SessionEvent], totals: &mut Totals) -> ConversationState {
    totals.events += events.len();
    totals.losses += events.iter().filter(|event| matches!(event.payload, Payload::Log(_))).count();
    let mut state = ConversationState::default();
    for event in events {
        if let Some(anomaly) = state.apply(event).anomaly() {
            let kind = format!("{anomaly:?}").split_whitespace().next().unwrap_or("").to_owned();
            *totals.anomalies.entry(kind).or_default() += 1;
        }
    }
    state
}

/// Checks that every call and result of the raw lines is in the state, once per conversation.
fn check_calls(
    session: &SessionOnDisk,
    state: &ConversationState,
    totals: &mut Totals,
) -> Vec<String> {
    let (calls, results) = raw_calls(session);
    totals.calls += calls.len();
    totals.results += results.len();
    let mut shown = StateCalls::of(session.agent);
    let subagents = state.subagents();
    let conversations =
        std::iter::once(state.blocks()).chain(subagents.iter().map(|it| it.blocks()));
    for blocks in conversations {
        totals.blocks += blocks.len();
        shown.begin_conversation();
        for block in blocks.iter() {
            shown.add(&block, totals);
        }
    }
    let no_call = calls.difference(&shown.calls).count();
    let no_result = results.difference(&shown.results).count();
    let mut findings = Vec::new();
    if no_call + no_result > 0 {
        findings.push(format!("{no_call} tool uses and {no_result} results are missing"));
    }
    if shown.twice > 0 {
        findings.push(format!("{} tool uses or results stand twice", shown.twice));
    }
    findings
}

/// Compares every text, thought, call, output, image and id with the raw records.
fn check_content(
    session: &SessionOnDisk,
    state: &ConversationState,
    totals: &mut Totals,
) -> Vec<String> {
    let (compared, differences) = oracle::compare(session, state);
    totals.compared += compared;
    totals.differences += differences.len();
    let shown = differences.iter().take(SHOWN).map(ToString::to_string);
    let rest = differences.len().saturating_sub(SHOWN);
    shown.chain((rest > 0).then(|| format!("and {rest} more differences"))).collect()
}

/// How many differences of a session are printed.
const SHOWN: usize = 20;

/// Returns the ids of the calls and of those with a result, counted without the converter.
fn raw_calls(session: &SessionOnDisk) -> (BTreeSet<String>, BTreeSet<String>) {
    // The oracle counts these, by thread.
    if session.agent == codex::AGENT {
        return Default::default();
    }
    if let Some(root) = &session.root {
        let mut raw = OpencodeCount::default();
        session.files.iter().for_each(|(_, bytes)| raw.add(bytes));
        return raw.of_root(root);
    }
    let mut raw = RawCount::default();
    for (_, bytes) in session.files.iter().filter(|(path, _)| path.ends_with(".jsonl")) {
        raw.add(bytes);
    }
    (raw.calls, raw.results)
}

/// The calls and results in a state.
struct StateCalls {
    /// The agent: OpenCode's calls are identified by block id, because its call ids repeat.
    agent: Agent,
    calls: BTreeSet<String>,
    results: BTreeSet<String>,
    /// Those of the current conversation; a result has a prefix before its id.
    here: BTreeSet<String>,
    /// How many occur twice in one conversation.
    twice: usize,
}

impl StateCalls {
    fn of(agent: Agent) -> Self {
        let (calls, results, here) = Default::default();
        Self { agent, calls, results, here, twice: 0 }
    }

    /// OpenCode's calls occur in one conversation; copies of Claude's history repeat theirs.
    fn begin_conversation(&mut self) {
        if self.agent != opencode::AGENT {
            self.here.clear();
        }
    }

    fn call(&mut self, id: String) {
        self.twice += usize::from(!self.here.insert(id.clone()));
        self.calls.insert(id);
    }

    fn result(&mut self, id: String) {
        self.twice += usize::from(!self.here.insert(format!("result of {id}")));
        self.results.insert(id);
    }

    fn add(&mut self, block: &Block, totals: &mut Totals) {
        if self.agent == opencode::AGENT {
            return self.add_part(block, totals);
        }
        match &block.body {
            BlockBody::ToolUse(call) => self.call(call.tool_use_id.to_string()),
            BlockBody::ToolResult(result) => self.result(result.tool_use_id.to_string()),
            // It is both the call and its result.
            BlockBody::Subagent(edge) => {
                if let Some(call) = &edge.tool_use_id {
                    self.call(call.to_string());
                    // A message to an agent has a result of its own as well.
                    self.results.insert(call.to_string());
                }
            }
            BlockBody::Unknown(unknown) => totals.unknown(unknown),
            _ => {}
        }
    }

    fn add_part(&mut self, block: &Block, totals: &mut Totals) {
        let id = block.id.to_string();
        match &block.body {
            BlockBody::ToolUse(_) => self.call(id),
            BlockBody::ToolResult(_) => {
                self.result(id.strip_prefix("result:").unwrap_or(&id).to_owned());
            }
            BlockBody::Subagent(_) => {
                self.call(id.clone());
                self.result(id);
            }
            BlockBody::Unknown(unknown) => totals.unknown(unknown),
            _ => {}
        }
    }
}

/// Returns type and subtype of an unknown record.
fn kind_of(unknown: &UnknownBlock) -> String {
    let record: Value = serde_json::from_str(unknown.record.as_str()).unwrap_or_default();
    match record["type"].as_str() {
        Some(kind) => format!("{kind}/{}", record["subtype"].as_str().unwrap_or("")),
        None => "damaged".to_owned(),
    }
}

/// Checks that folding a prefix, restoring its snapshot and folding the rest equals the whole.
fn check_prefixes(events: &[SessionEvent], whole: &ConversationState) -> Vec<String> {
    let quarters = (1..4).map(|part| events.len() * part / 4);
    quarters.filter_map(|at| check_prefix(events, at, whole)).collect()
}

fn check_prefix(events: &[SessionEvent], at: usize, whole: &ConversationState) -> Option<String> {
    let (prefix, rest) = events.split_at(at);
    let json = serde_json::to_string(&fold(prefix).snapshot()).expect("a snapshot is plain data");
    let restored = serde_json::from_str::<StateSnapshot>(&json)
        .map_err(|error| error.to_string())
        .and_then(|it| ConversationState::restore(&it).map_err(|error| error.to_string()));
    match restored {
        Ok(state) if rest.iter().fold(state.clone(), reduce).hash() == whole.hash() => None,
        Ok(_) => Some(format!("the first {at} events, then the rest, differ")),
        Err(error) => Some(format!("a snapshot cannot be restored: {error}")),
    }
}
