//! `threadfold verify`: does the stream tell the state that the transcript tells?

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use serde::Serialize;
use threadfold_core::{ConversationState, Json, Payload, SessionId};
use threadfold_engine::{FoundSession, InputOptions, detect_input, open_one, records_of};
use threadfold_fold::parity::{Comparison, Difference, Lack, Replay, Verdict, compare, replay};
use threadfold_fold::{Agent, Detection, Fold, Record, RecordKind, Shape, Slices};

use crate::error::CommandError;
use crate::printable::printable;
use crate::runtime::Waiter;

/// Prove that a stream and a transcript tell one state
///
/// Folds both, compares all that they show field by field, and prints each difference. Which agent
/// they are of, it finds out by itself; both must be of the same. What the agent itself does not
/// keep on one side is a short table (`--explain`). Exit 0: equal, or partial where one side must
/// lack something, which is named; 1: different; 2: error.
#[derive(Args)]
pub(crate) struct VerifyArgs {
    /// What the agent streamed
    #[arg(long, value_name = "FILE", required_unless_present = "explain")]
    stream: Option<PathBuf>,
    /// What the agent kept; files of Claude Code's subagents are found. May be given more than
    /// once: exports of OpenCode's children are files of their own
    #[arg(long, value_name = "FILE", required_unless_present = "explain")]
    transcript: Vec<PathBuf>,
    /// Take this session of OpenCode's; without it, the first that the stream tells of
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Print the table of what the agent does not keep, with reasons
    #[arg(long)]
    explain: bool,
    /// Prove the merge, too: prefixes of the stream, the files, the rest, in many interleavings
    #[arg(long)]
    replay: bool,
    /// A partial verdict is a failure
    #[arg(long)]
    strict: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    verdict: Verdict,
    #[serde(flatten)]
    comparison: &'a Comparison,
    #[serde(skip_serializing_if = "Option::is_none")]
    replay: Option<&'a Replay>,
}

pub(crate) fn run(args: &VerifyArgs) -> Result<(), CommandError> {
    let mut out = io::stdout().lock();
    let Some(stream) = args.stream.as_ref().filter(|_| !args.transcript.is_empty()) else {
        for agent in Agent::all().filter(|agent| !agent.parity_rules().is_empty()) {
            writeln!(out, "{}:", agent.name())?;
            explain(&mut out, agent)?;
        }
        return Ok(());
    };
    let waiter = Waiter::single()?;
    let pair = Pair::open(stream, &args.transcript, args.session.as_deref())?;
    if args.explain {
        explain(&mut out, pair.agent)?;
    }
    let records = waiter.wait(pair.records())?;
    let streamed = Side::fold(&pair.session, &records.stream, &pair.stream_name)?;
    let stored = Side::fold(&pair.session, &records.transcript, &pair.transcript_name)?;
    same_session(pair.agent, &streamed, &stored)?;
    let comparison = compare(pair.agent, &streamed.state, &stored.state);
    let replayed = args.replay.then(|| replay(&pair.session, &records.stream, &records.transcript));
    let mut verdict = comparison.verdict();
    // A run that came to its end was not killed, so its file lacks what it should have.
    if streamed.has_ended && comparison.lacking.contains_key(&Lack::FileEndsAtKill) {
        verdict = Verdict::Different;
    }
    if replayed.as_ref().is_some_and(|replayed| !replayed.holds()) {
        verdict = Verdict::Different;
    }
    if args.json {
        let report = Report { verdict, comparison: &comparison, replay: replayed.as_ref() };
        serde_json::to_writer(&mut out, &report)?;
        writeln!(out)?;
    } else {
        print(&mut out, verdict, &comparison, replayed.as_ref())?;
    }
    match (verdict, args.strict) {
        (Verdict::Equal, _) | (Verdict::Partial, false) => Ok(()),
        _ => Err(CommandError::No),
    }
}

fn explain(out: &mut impl Write, agent: Agent) -> io::Result<()> {
    for rule in agent.parity_rules() {
        writeln!(out, "{}\n  {}\n  because {}", rule.name, rule.what, rule.reason)?;
    }
    Ok(())
}

/// A stream and the transcripts of the same session.
struct Pair {
    agent: Agent,
    /// The session that both are read as.
    session: SessionId,
    stream: FoundSession,
    stream_name: String,
    transcripts: Vec<FoundSession>,
    transcript_name: String,
}

/// The records of both sides, with numbers of sources that do not collide.
struct PairRecords {
    stream: Vec<Record>,
    transcript: Vec<Record>,
}

impl Pair {
    fn open(
        stream: &Path,
        transcripts: &[PathBuf],
        session: Option<&str>,
    ) -> Result<Self, CommandError> {
        let detected: Vec<(Agent, &Path)> = std::iter::once(stream)
            .chain(transcripts.iter().map(PathBuf::as_path))
            .filter_map(|path| Some((detect_path(path)?.agent?, path)))
            .filter(|(agent, _)| agent.is_known())
            .collect();
        let Some((agent, first)) = detected.first().copied() else {
            return Err(CommandError::new(
                anyhow!("`{}` is in no format of a known agent", stream.display()),
                "give a stream and a transcript of one agent",
            ));
        };
        if let Some((other, path)) = detected.iter().find(|(other, _)| *other != agent) {
            return Err(CommandError::new(
                anyhow!(
                    "`{}` is of {}, `{}` of {}: they are not one session",
                    first.display(),
                    agent.title(),
                    path.display(),
                    other.title()
                ),
                "give a stream and a transcript of the same agent",
            ));
        }
        // Lines of a stream and of a transcript may look alike, so it counts what they are given
        // as, unless they are surely in another form.
        let as_shape = |path: &Path, shapes: &[Shape]| {
            let detected = detect_path(path).filter(|it| it.agent == Some(agent));
            let is_container = |it: &Detection| {
                matches!(it.shape(), Shape::Database | Shape::Folder | Shape::Export)
            };
            let format = shapes.iter().find_map(|shape| agent.format(*shape));
            let asked = format.map(|format| Detection { agent: Some(agent), format });
            detected.filter(is_container).or(asked)
        };
        let options = |path: &Path, shapes: &[Shape], session| InputOptions {
            format: as_shape(path, shapes),
            session,
            any: false,
        };
        let holds_several = agent.format(Shape::Export).is_some();
        let streams = &[Shape::Stream];
        let stream_session = open_one(stream, &options(stream, streams, session))?;
        let id = session.map_or_else(|| stream_session.id.clone(), SessionId::from);
        let named = holds_several.then(|| id.as_str());
        let mut found = Vec::new();
        for path in transcripts {
            let shapes = &[Shape::Transcript, Shape::Export];
            // A file of one session has no say in which one it is.
            let is_export = as_shape(path, shapes).is_some_and(|it| it.shape() == Shape::Export);
            let wanted = named.filter(|_| !is_export);
            found.push(open_one(path, &options(path, shapes, wanted))?);
        }
        Ok(Self {
            agent,
            session: id,
            stream: stream_session,
            stream_name: format!("`{}`", stream.display()),
            transcripts: found,
            transcript_name: format!("`{}`", transcripts[0].display()),
        })
    }

    async fn records(&self) -> Result<PairRecords, CommandError> {
        let stream = records_of(&self.session, std::slice::from_ref(&self.stream)).await?;
        let mut transcript = records_of(&self.session, &self.transcripts).await?;
        let used = stream.iter().map(|it| it.source).max().unwrap_or_default();
        transcript.iter_mut().for_each(|it| it.source += used);
        Ok(PairRecords { stream: ended(stream), transcript: ended(transcript) })
    }
}

fn detect_path(path: &Path) -> Option<Detection> {
    detect_input(path).ok().flatten()
}

/// Adds the end of every source: nothing more comes from a file that is compared.
fn ended(mut records: Vec<Record>) -> Vec<Record> {
    let sources = records.iter().filter(|it| it.kind == RecordKind::Source).map(|it| it.source);
    let sources: Vec<u32> = sources.collect();
    let end = |source| Record::new(RecordKind::End, source, 0, "");
    records.extend(sources.into_iter().map(end));
    records
}

/// The state of one side.
struct Side {
    state: ConversationState,
    session: Option<SessionId>,
    /// The last thing that was asked of the agent came to its end.
    has_ended: bool,
}

impl Side {
    fn fold(session: &SessionId, records: &[Record], name: &str) -> Result<Self, CommandError> {
        let mut fold = Fold::new(session.clone(), Slices::default()).conversation_only();
        let (mut has_ended, mut events) = (false, 0);
        for record in records {
            let seq = fold.seq() + 1;
            for event in fold.push(&record.clone().at(seq)).events {
                events += 1;
                match &event.payload {
                    Payload::QueryStarted(_) => has_ended = false,
                    Payload::QueryCompleted(_) | Payload::QueryFailed(_) => has_ended = true,
                    _ => {}
                }
            }
        }
        if events == 0 {
            return Err(CommandError::new(
                anyhow!("{name} holds nothing to compare"),
                "give the file that the agent wrote, of the same session",
            ));
        }
        let (state, session) = (fold.settled(), fold.agent_session());
        Ok(Self { state, session, has_ended })
    }
}

/// Refuses two sides that say that they are of different sessions.
fn same_session(agent: Agent, stream: &Side, transcript: &Side) -> Result<(), CommandError> {
    match (&stream.session, &transcript.session) {
        (Some(stream), Some(transcript)) if stream != transcript && agent.has_one_main_file() => {
            Err(CommandError::new(
                anyhow!("the stream is of session `{stream}`, the transcript of `{transcript}`"),
                "give a stream and a transcript of the same session",
            ))
        }
        _ => Ok(()),
    }
}

fn print(
    out: &mut impl Write,
    verdict: Verdict,
    comparison: &Comparison,
    replayed: Option<&Replay>,
) -> io::Result<()> {
    let word = match verdict {
        Verdict::Equal => "equal",
        Verdict::Partial => "partial",
        Verdict::Different => "different",
    };
    let Comparison { blocks, subagents, fields, .. } = comparison;
    writeln!(out, "{word}: {blocks} blocks, {subagents} subagents, {fields} fields compared")?;
    for (lack, count) in &comparison.lacking {
        writeln!(out, "  lacking: {} ({count})", lack.description())?;
    }
    for (rule, count) in &comparison.explained {
        writeln!(out, "  not kept: {rule} ({count})")?;
    }
    if let Some(replayed) = replayed {
        let held = if replayed.holds() { "one state" } else { "NOT one state" };
        writeln!(out, "  merge: {} interleavings, {held}", replayed.tried)?;
        for at in replayed.astray.iter().take(SHOWN) {
            writeln!(
                out,
                "    the first {at} lines of the stream, the files, the rest: another state"
            )?;
        }
    }
    for difference in comparison.differences.iter().take(SHOWN) {
        print_difference(out, difference)?;
    }
    let more = comparison.differences.len().saturating_sub(SHOWN);
    if more > 0 {
        writeln!(out, "  and {more} more (`--json` has them all)")?;
    }
    Ok(())
}

const SHOWN: usize = 50;

fn print_difference(out: &mut impl Write, difference: &Difference) -> io::Result<()> {
    let side = |json: &Option<Json>| match json {
        Some(json) => cut(&printable(json.as_str())),
        None => "nothing".to_owned(),
    };
    let block = difference.block.as_ref().map_or(String::new(), |block| format!(" block {block}"));
    let place = format!("{}{block}: {}", difference.conversation, difference.field);
    writeln!(out, "  differs: {}", printable(&place))?;
    writeln!(out, "    stream:     {}", side(&difference.stream))?;
    writeln!(out, "    transcript: {}", side(&difference.transcript))
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
