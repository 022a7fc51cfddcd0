//! Folds: raw records of agents in, events and states out.

use serde::{Deserialize, Serialize};
use threadfold_core::{SessionEvent, SessionId};
use threadfold_fold::{
    Agent, Cutter, Fold, LogId, Record, RecordKind, SessionFile, Slices, Snapshot, SnapshotHeader,
    SourceRole, SourceSpec, Step, detect, parse_transcript,
};

use crate::engine::Engine;
use crate::input::{Parts, text};

/// The fold of one session, with a cutter for each of its sources.
pub(crate) struct SessionFold {
    fold: Fold,
    agent: Agent,
    cutters: Vec<Cutter>,
}

/// What the host says about a session.
#[derive(Deserialize)]
struct SessionOptions<'a> {
    agent: &'a str,
    #[serde(default)]
    session: String,
}

/// What the host says about a source.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SourceOptions {
    kind: SourceRole,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    agent_id: Option<String>,
}

/// Returns an agent by its name or by one that another program gave it.
pub(crate) fn find_agent(name: &str) -> Result<Agent, String> {
    let unknown = || {
        let known: Vec<_> = Agent::all().map(Agent::name).collect();
        format!("the agent `{name}` is unknown; known are `{}`", known.join("`, `"))
    };
    Agent::from_any_name(name).ok_or_else(unknown)
}

/// Returns the fold of a session without records.
pub(crate) fn open(engine: &mut Engine, input: &[u8]) -> Result<i32, String> {
    let options: SessionOptions<'_> =
        serde_json::from_str(text(input)?).map_err(|error| error.to_string())?;
    let agent = find_agent(options.agent)?;
    let fold = Fold::new(SessionId::from(options.session.as_str()), Slices::default());
    Ok(engine.folds.add(SessionFold { fold, agent, cutters: Vec::new() }))
}

/// Declares a source, and returns its number.
pub(crate) fn add_source(engine: &mut Engine, handle: u32, input: &[u8]) -> Result<i32, String> {
    let options: SourceOptions =
        serde_json::from_str(text(input)?).map_err(|error| error.to_string())?;
    let SessionFold { fold, agent, cutters } = engine.fold(handle)?;
    let number = fold.next_source();
    let name = options.name.unwrap_or_else(|| "stream".to_owned());
    let mut spec = match options.kind {
        SourceRole::Events => SourceSpec::of_events(name),
        kind => SourceSpec::new(*agent, kind, name),
    };
    if let Some(agent) = options.agent_id {
        spec = spec.of_subagent(agent.as_str().into());
    }
    push(fold, Record::new(RecordKind::Source, number, 0, spec.to_json()));
    cutters.push(Cutter::new(number));
    i32::try_from(number).map_err(|_| "there are too many sources".to_owned())
}

/// Pushes bytes of a source, cut anywhere, and writes the events of the lines that are complete.
pub(crate) fn push_bytes(
    engine: &mut Engine,
    handle: u32,
    source: u32,
    input: &[u8],
) -> Result<i32, String> {
    let it = engine.fold(handle)?;
    let mut records = Vec::new();
    it.cutter(source)?.push(input, &mut records);
    let events = push_all(&mut it.fold, records);
    Ok(write_events(engine, &events))
}

/// Ends a source, and writes the events of its end.
pub(crate) fn finish(engine: &mut Engine, handle: u32, source: u32) -> Result<i32, String> {
    let it = engine.fold(handle)?;
    let mut records = Vec::new();
    let cutter = it.cutter(source)?;
    cutter.finish(&mut records);
    records.push(Record::new(RecordKind::End, source, cutter.end(), ""));
    let events = push_all(&mut it.fold, records);
    Ok(write_events(engine, &events))
}

fn push(fold: &mut Fold, record: Record) -> Step {
    let seq = fold.seq() + 1;
    fold.push(&record.at(seq))
}

fn push_all(fold: &mut Fold, records: Vec<Record>) -> Vec<SessionEvent> {
    records.into_iter().flat_map(|record| push(fold, record).events).collect()
}

/// Writes a list of events. Not lines: an event holds JSON of its agent as it came, with line ends.
fn write_events(engine: &mut Engine, events: &[SessionEvent]) -> i32 {
    engine.write_json(&events);
    i32::from(!events.is_empty())
}

impl SessionFold {
    fn cutter(&mut self, source: u32) -> Result<&mut Cutter, String> {
        let found = self.cutters.iter_mut().find(|it| it.source() == source);
        found.ok_or_else(|| format!("there is no source {source}"))
    }
}

/// Returns a state with everything that was folded so far.
pub(crate) fn state(engine: &mut Engine, handle: u32) -> Result<i32, String> {
    let state = engine.fold(handle)?.fold.conversation().clone();
    Ok(engine.states.add(state))
}

/// Returns a state as if every source ended here.
pub(crate) fn settled_state(engine: &mut Engine, handle: u32) -> Result<i32, String> {
    let state = engine.fold(handle)?.fold.settled();
    Ok(engine.states.add(state))
}

/// Writes title, model, tokens and cost of the session.
pub(crate) fn read_metadata(engine: &mut Engine, handle: u32) -> Result<i32, String> {
    let metadata = engine.fold(handle)?.fold.metadata().clone();
    Ok(engine.write_json(&metadata))
}

/// A fold and its open lines, for a host that continues it later.
#[derive(Serialize, Deserialize)]
struct FoldText<S> {
    agent: String,
    /// For each source: its number, the bytes that were cut, the bytes of its open line.
    sources: Vec<(u32, u64, Vec<u8>)>,
    snapshot: S,
}

/// The log of a fold that no store holds.
const NO_LOG: &str = "none";

/// Writes everything that is needed to continue the fold.
pub(crate) fn snapshot(engine: &mut Engine, handle: u32) -> Result<i32, String> {
    let it = engine.fold(handle)?;
    let header = SnapshotHeader {
        created_at: String::new(),
        log_id: NO_LOG.into(),
        tags: Default::default(),
    };
    let open = |cutter: &Cutter| {
        let partial = cutter.unfinished().map(|it| it.bytes.to_vec()).unwrap_or_default();
        (cutter.source(), cutter.position(), partial)
    };
    let sources = it.cutters.iter().map(open).collect();
    let snapshot: Snapshot = it.fold.snapshot(header);
    let text = FoldText { agent: it.agent.name().to_owned(), sources, snapshot };
    Ok(engine.write_json(&text))
}

/// Returns the fold of a snapshot.
pub(crate) fn restore(engine: &mut Engine, input: &[u8]) -> Result<i32, String> {
    let found: FoldText<&serde_json::value::RawValue> =
        serde_json::from_str(text(input)?).map_err(|error| error.to_string())?;
    let agent = find_agent(&found.agent)?;
    let fold = Fold::new(SessionId::from(""), Slices::default())
        .from_snapshot(found.snapshot.get(), &LogId::from(NO_LOG))
        .map_err(|error| error.to_string())?;
    let mut cutters = Vec::new();
    for (source, position, open) in found.sources {
        let mut cutter = Cutter::resume(source, position, false);
        // An open line has no end, so nothing is cut.
        cutter.push(&open, &mut Vec::new());
        cutters.push(cutter);
    }
    Ok(engine.folds.add(SessionFold { fold, agent, cutters }))
}

/// The files of a session: for each the lengths of path and content, then both.
pub(crate) fn read_files<'a>(parts: &mut Parts<'a>) -> Result<Vec<SessionFile<'a>>, String> {
    let count = parts.length();
    let mut files = Vec::new();
    for _ in 0..count {
        let (path, length) = (parts.length(), parts.length());
        files.push(SessionFile { path: parts.text(path)?, bytes: parts.bytes(length) });
    }
    Ok(files)
}

/// Returns the state of a session from one text that holds all of it.
pub(crate) fn parse_text(engine: &mut Engine, input: &[u8], agent: usize) -> Result<i32, String> {
    let mut parts = Parts::new(input);
    let agent = find_agent(parts.text(agent)?)?;
    let state = parse_transcript(agent, text(parts.rest())?);
    Ok(engine.states.add(state))
}

/// Returns the state of a session from its files.
pub(crate) fn parse_files(engine: &mut Engine, input: &[u8], agent: usize) -> Result<i32, String> {
    let mut parts = Parts::new(input);
    let agent = find_agent(parts.text(agent)?)?;
    let state = parse_transcript(agent, &read_files(&mut parts)?);
    Ok(engine.states.add(state))
}

/// What an input was recognized as.
#[derive(Serialize)]
struct DetectedFormat {
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'static str>,
    format: &'static str,
}

/// Writes the agent and the format of an input; 1 if they are unknown.
pub(crate) fn detect_format(engine: &mut Engine, input: &[u8]) -> Result<i32, String> {
    let Some(found) = detect(input) else { return Ok(1) };
    let agent = found.agent.map(Agent::name);
    Ok(engine.write_json(&DetectedFormat { agent, format: found.format.name }))
}

impl Engine {
    fn fold(&mut self, handle: u32) -> Result<&mut SessionFold, String> {
        self.folds.get_mut(handle).ok_or_else(|| format!("there is no fold {handle}"))
    }
}
