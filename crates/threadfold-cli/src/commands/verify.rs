//! `threadfold verify`: checks that a stream and a transcript fold to the same state.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use serde::Serialize;
use threadfold_core::{Json, SessionId};
use threadfold_engine::{FoundSession, InputOptions, detect_input, ended, open_one, records_of};
use threadfold_fold::parity::{
    Comparison, Difference, KnownGap, Replay, Side, SideState, Verdict, compare_sides, replay,
};
use threadfold_fold::{Agent, Detection, Record, Shape};

use crate::error::{CommandError, print_note};
use crate::printable::printable;
use crate::runtime::Waiter;
use crate::view::count;

/// Verify that a stream and a transcript fold to the same state
///
/// Folds both, compares every visible field, and prints each difference. The agent is detected,
/// and must be the same for both. Differences that the agent itself causes, because it does not
/// store or stream something, are listed by `--explain`. Exit 0: equal or partial (one side lacks
/// data for a known, reported reason); 1: different; 2: error.
#[derive(Args)]
pub(crate) struct VerifyArgs {
    /// The recorded stream
    #[arg(long, value_name = "FILE", required_unless_present = "explain")]
    stream: Option<PathBuf>,
    /// The transcript; files of subagents beside it are included. Repeat it for child sessions that
    /// are exported as separate files, and for each session that `/clear` began
    #[arg(long, value_name = "FILE", required_unless_present = "explain")]
    transcript: Vec<PathBuf>,
    /// Compare this session, if the stream has several; default: the first one
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Print the differences that the agent causes, with reasons
    #[arg(long)]
    explain: bool,
    /// Also verify the merge: stream prefix, files, rest of the stream, in many interleavings
    #[arg(long)]
    replay: bool,
    /// Treat a partial verdict as a failure
    #[arg(long)]
    strict: bool,
}

/// The output of `--json`.
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
        for agent in Agent::all().filter(|agent| !agent.known_gaps().is_empty()) {
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
    let PairRecords { stream, transcript } = &records;
    let streamed = SideState::fold_stream(pair.agent, &pair.session, stream, transcript);
    let streamed = check_side(streamed, &pair.stream_name)?;
    let stored = SideState::fold(pair.agent, &pair.session, transcript);
    let stored = check_side(stored, &pair.transcript_name)?;
    same_session(pair.agent, &streamed, &stored)?;
    let mut comparison = compare_sides(pair.agent, &streamed, &stored);
    let replayed = args.replay.then(|| replay(&pair.session, &records.stream, &records.transcript));
    if let Some(replayed) = &replayed {
        comparison.add_replay(replayed);
    }
    let verdict = comparison.verdict();
    if verdict == Verdict::Equal && comparison.fields == 0 {
        let (stream, transcript) = (printable(&pair.stream_name), printable(&pair.transcript_name));
        return Err(CommandError::new(
            anyhow!("nothing was compared: {stream} and {transcript} have no record in common"),
            "give the whole stream and all files of the session; they may be cut off",
        ));
    }
    let shown = if args.json {
        let report = Report { verdict, comparison: &comparison, replay: replayed.as_ref() };
        let written = serde_json::to_writer(&mut out, &report).map_err(io::Error::from);
        written.and_then(|()| writeln!(out))
    } else {
        print(&mut out, verdict, &comparison, replayed.as_ref())
    };
    match (verdict, args.strict, shown) {
        (_, _, Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        // Whoever reads no further still gets the verdict.
        (Verdict::Equal, ..) | (Verdict::Partial, false, _) => Ok(()),
        _ => Err(CommandError::No),
    }
}

fn explain(out: &mut impl Write, agent: Agent) -> io::Result<()> {
    for gap in agent.known_gaps() {
        let KnownGap { name, record, fields, side, versions, recording, reason, .. } = gap;
        let side = match side {
            Side::Stream => "the stream",
            Side::Transcript => "the transcript",
        };
        let fields = fields.join(", ");
        writeln!(out, "{name}\n  only {side} has, in {record}: {fields}")?;
        let until = versions.until.map_or(String::new(), |it| format!(", not in {it}"));
        let after = versions.after.map_or(String::new(), |it| format!(", not in {it}"));
        let seen = match versions.first == versions.last {
            true => versions.first.to_owned(),
            false => format!("{} to {}", versions.first, versions.last),
        };
        writeln!(out, "  seen in {seen}{after}{until}; recording {recording}")?;
        writeln!(out, "  because {reason}")?;
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
                anyhow!("`{}` is not in a format of a known agent", stream.display()),
                "give a stream and a transcript of one agent",
            ));
        };
        if let Some((other, path)) = detected.iter().find(|(other, _)| *other != agent) {
            return Err(CommandError::new(
                anyhow!(
                    "`{}` is from {}, but `{}` is from {}",
                    first.display(),
                    agent.title(),
                    path.display(),
                    other.title()
                ),
                "give a stream and a transcript of the same agent",
            ));
        }
        // Lines of a stream and of a transcript may look alike, so the option decides how they are
        // read, unless the file is certainly in another format.
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
            // A file with a single session needs no selection.
            let is_export = as_shape(path, shapes).is_some_and(|it| it.shape() == Shape::Export);
            let wanted = named.filter(|_| !is_export);
            found.push(open_one(path, &options(path, shapes, wanted))?);
        }
        // A file of a thread comes with those of its subagents, so one of another thread is of a fork
        // or of a review, which are sessions of their own.
        let has_thread_files = !holds_several && !agent.has_one_main_file();
        let is_own = |it: &FoundSession| it.id == id || it.parent.as_ref() == Some(&id);
        let (own, others): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|it| !has_thread_files || is_own(it));
        // Without a file of the session, `same_session` and the comparison report what was given.
        let found = if own.is_empty() {
            others
        } else {
            report_others(&own, &others)?;
            own
        };
        Ok(Self {
            agent,
            session: id,
            stream: stream_session,
            stream_name: format!("`{}`", stream.display()),
            transcripts: without_included(found)?,
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

/// Returns the files that a session is read from.
fn files_of(session: &FoundSession) -> Result<BTreeSet<PathBuf>, CommandError> {
    let origins = session.content.origins()?.into_iter();
    Ok(origins.map(|path| fs::canonicalize(&path).unwrap_or(path)).collect())
}

/// Reports the files that are of other sessions. Those of subagents are read with the session.
fn report_others(own: &[FoundSession], others: &[FoundSession]) -> Result<(), CommandError> {
    let mut read = BTreeSet::new();
    for session in own {
        read.append(&mut files_of(session)?);
    }
    for other in others {
        if !files_of(other)?.is_subset(&read) {
            let (place, session) = (other.place.display(), &other.id);
            let what = format!("`{place}` is of session `{session}`");
            print_note(format_args!("note: {what} and is not compared"));
        }
    }
    Ok(())
}

/// Removes the transcripts that another one includes: the files of subagents beside their main file.
fn without_included(found: Vec<FoundSession>) -> Result<Vec<FoundSession>, CommandError> {
    let files: Vec<_> = found.iter().map(files_of).collect::<Result<_, _>>()?;
    let is_included = |number: usize| {
        let others = files.iter().enumerate().filter(|(other, _)| *other != number);
        let own = &files[number];
        others
            .into_iter()
            .any(|(other, it)| own.is_subset(it) && (own.len() < it.len() || other < number))
    };
    // Sessions of one database have the same file.
    let is_kept =
        |number: usize, it: &FoundSession| it.content.is_in_database() || !is_included(number);
    let kept = found.into_iter().enumerate().filter(|(number, it)| is_kept(*number, it));
    Ok(kept.map(|(_, it)| it).collect())
}

fn detect_path(path: &Path) -> Option<Detection> {
    detect_input(path).ok().flatten()
}

/// Fails if a side has nothing to compare.
fn check_side(side: SideState, name: &str) -> Result<SideState, CommandError> {
    if side.events == 0 {
        return Err(CommandError::new(
            anyhow!("{name} contains nothing to compare"),
            "use the agent's own file of the same session",
        ));
    }
    Ok(side)
}

/// Fails if both sides name different sessions.
fn same_session(
    agent: Agent,
    stream: &SideState,
    transcript: &SideState,
) -> Result<(), CommandError> {
    // A command may begin another session in the same stream.
    let is_streamed = |session: &SessionId| {
        stream.facts.successive_sessions.iter().any(|it| it == session.as_str())
    };
    match (&stream.session, &transcript.session) {
        (Some(_), Some(transcript)) if is_streamed(transcript) => Ok(()),
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
    let label = match verdict {
        Verdict::Equal => "equal",
        Verdict::Partial => "partial",
        Verdict::Different => "different",
    };
    let Comparison { blocks, subagents, fields, .. } = comparison;
    let blocks = count(*blocks, "block", "blocks");
    let subagents = count(*subagents, "subagent", "subagents");
    let fields = count(*fields, "field", "fields");
    writeln!(out, "{label}: {blocks}, {subagents}, {fields} compared")?;
    for (lack, count) in &comparison.lacking {
        writeln!(out, "  lacking: {} ({count})", lack.description())?;
    }
    for early in &comparison.early_lines {
        let lines = count(early.lines, "line", "lines");
        writeln!(out, "    in `{}`: {lines}", printable(&early.file))?;
    }
    for (gap, count) in &comparison.explained {
        writeln!(out, "  explained: {gap} ({count})")?;
    }
    for (field, count) in &comparison.unlisted {
        writeln!(out, "  unlisted: {} on one side only ({count})", printable(field))?;
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
        for conversation in replayed.out_of_order.iter().take(SHOWN) {
            writeln!(out, "    {}: not in the order of the files", printable(conversation))?;
        }
        for block in replayed.lost.iter().take(SHOWN) {
            writeln!(out, "    block {}: missing", printable(block.as_str()))?;
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
