//! `threadfold verify`: does the stream tell the state that the transcript tells?

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use serde::Serialize;
use threadfold_convert::lines::lines;
use threadfold_convert::parity::{
    Comparison, Difference, Lack, Replay, Verdict, compare, replay_with, rules,
};
use threadfold_convert::{Agent, Feed, FeedKind, Record, SessionFile};
use threadfold_core::{ConversationState, Json, Payload, SessionId};

use crate::error::CommandError;
use crate::printable::printable;
use crate::source::{Format, Opened, convert_together, converter_of, open};

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
        for agent in [Agent::Claude, Agent::Opencode] {
            writeln!(out, "{}:", agent.name())?;
            explain(&mut out, agent)?;
        }
        return Ok(());
    };
    let (agent, streams, transcripts) = open_sides(stream, &args.transcript)?;
    if args.explain {
        explain(&mut out, agent)?;
    }
    let Told { state: streamed, session: of_stream, ended } =
        folded(of_session(streams, args.session.as_deref())?)?;
    // A database holds many sessions; the stream tells which of them is meant.
    let session = args.session.clone().or(of_stream.as_ref().map(ToString::to_string));
    let session = session.filter(|_| args.session.is_some() || agent == Agent::Opencode);
    let Told { state: told, session: of_file, .. } =
        folded(of_session(transcripts, session.as_deref())?)?;
    if agent == Agent::Claude {
        same_session(of_stream.as_ref(), of_file.as_ref())?;
    }
    let comparison = compare(agent, &streamed, &told);
    let replayed = match args.replay {
        true => Some(replay_files(stream, &args.transcript, session.as_deref())?),
        false => None,
    };
    let mut verdict = comparison.verdict();
    // A run that came to its end was not killed, so its file lacks what it should have.
    if ended && comparison.lacking.contains_key(&Lack::FileEndsAtKill) {
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
    for rule in rules(agent) {
        writeln!(out, "{}\n  {}\n  because {}", rule.name, rule.what, rule.reason)?;
    }
    Ok(())
}

/// Opens both sides, and finds out whose they are.
fn open_sides(
    stream: &Path,
    transcripts: &[PathBuf],
) -> Result<(Agent, Vec<Opened>, Vec<Opened>), CommandError> {
    let mut streams = vec![open(Some(stream), None)?];
    let mut kept = Vec::new();
    for path in transcripts {
        kept.push(open(Some(path), None)?);
    }
    let known: Vec<(Agent, &str)> = streams
        .iter()
        .chain(&kept)
        .filter_map(|it| Some((it.format.agent()?, it.name.as_str())))
        .collect();
    let agent = known.first().map_or(Agent::Claude, |(agent, _)| *agent);
    if let (Some((_, first)), Some((other, name))) =
        (known.first(), known.iter().find(|(other, _)| *other != agent))
    {
        return Err(CommandError::new(
            anyhow!(
                "{first} is of {}, {name} of {}: they are not one session",
                agent.name(),
                other.name()
            ),
            "give a stream and a transcript of the same agent",
        ));
    }
    // OpenCode's forms are told apart by what is in them. Claude Code's lines look much the same
    // in both, so there it counts what they are given as.
    let form = |it: &mut Opened, claude: Format, opencode: Format| match agent {
        Agent::Opencode if it.format == Format::Events => it.format = opencode,
        Agent::Opencode => {}
        _ => it.format = claude,
    };
    for it in &mut streams {
        form(it, Format::ClaudeStream, Format::OpencodeEvents);
    }
    for it in &mut kept {
        form(it, Format::ClaudeTranscript, Format::OpencodeExport);
    }
    Ok((agent, streams, kept))
}

fn of_session(sources: Vec<Opened>, session: Option<&str>) -> Result<Vec<Opened>, CommandError> {
    sources.into_iter().map(|it| it.of_session(session)).collect()
}

fn replay_files(
    stream: &Path,
    transcripts: &[PathBuf],
    session: Option<&str>,
) -> Result<Replay, CommandError> {
    let (agent, streams, kept) = open_sides(stream, transcripts)?;
    let mut sides = [Vec::new(), Vec::new()];
    for (side, sources) in sides.iter_mut().zip([streams, kept]) {
        for source in of_session(sources, session)? {
            side.extend(source.into_files()?);
        }
    }
    let [streamed, files] = sides;
    let feed = Feed::new(agent, FeedKind::Stream, &stream.to_string_lossy());
    let records: Vec<_> = streamed
        .iter()
        .flat_map(|(_, bytes)| lines(bytes))
        .map(|line| Record { feed: &feed, line: line.number, bytes: line.bytes })
        .collect();
    let files: Vec<_> = files.iter().map(|(path, bytes)| SessionFile { path, bytes }).collect();
    let begin = converter_of(agent, session);
    Ok(replay_with(agent, begin.as_ref(), &records, &files))
}

/// What sources of one session tell.
struct Told {
    state: ConversationState,
    session: Option<SessionId>,
    /// The last thing that was asked of the agent came to its end.
    ended: bool,
}

/// Refuses two sides that say that they are of different sessions.
fn same_session(stream: Option<&SessionId>, file: Option<&SessionId>) -> Result<(), CommandError> {
    match (stream, file) {
        (Some(stream), Some(file)) if stream != file => Err(CommandError::new(
            anyhow!("the stream is of session `{stream}`, the transcript of `{file}`"),
            "give a stream and a transcript of the same session",
        )),
        _ => Ok(()),
    }
}

/// Returns what sources of one session tell.
fn folded(sources: Vec<Opened>) -> Result<Told, CommandError> {
    let mut state = ConversationState::default();
    let mut session = None;
    let mut ended = false;
    let mut events = 0_u64;
    let name = sources.first().map_or(String::new(), |it| it.name.clone());
    convert_together(sources, &mut |_, event| {
        events += 1;
        if session.is_none() {
            session = event.context.session_id.clone();
        }
        match &event.payload {
            Payload::QueryStarted(_) => ended = false,
            Payload::QueryCompleted(_) | Payload::QueryFailed(_) => ended = true,
            _ => {}
        }
        // Odd events are for `threadfold fold --anomalies`; what they leave is compared here.
        state.extend([event]);
        Ok(())
    })?;
    if events == 0 {
        return Err(CommandError::new(
            anyhow!("{name} holds nothing to compare"),
            "give the file that the agent wrote",
        ));
    }
    Ok(Told { state, session, ended })
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
        writeln!(out, "  lacking: {} ({count})", lack.tell())?;
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
