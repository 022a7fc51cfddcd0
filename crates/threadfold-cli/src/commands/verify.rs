//! `threadfold verify`: does the stream tell the state that the transcript tells?

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use serde::Serialize;
use threadfold_convert::lines::lines;
use threadfold_convert::parity::{Comparison, Difference, Replay, Verdict, compare, replay, rules};
use threadfold_convert::{Agent, Feed, FeedKind, Record, SessionFile};
use threadfold_core::{ConversationState, Json};

use crate::error::CommandError;
use crate::printable::printable;
use crate::source::{Format, open, subagents_of};

/// Prove that a stream and a transcript tell one state
///
/// Folds both, compares all that they show field by field, and prints each difference. What the
/// agent itself does not keep on one side is a short table (`--explain`). Exit 0: equal, or
/// partial where one side must lack something, which is named; 1: different; 2: error.
#[derive(Args)]
pub(crate) struct VerifyArgs {
    /// What the agent streamed
    #[arg(long, value_name = "FILE", required_unless_present = "explain")]
    stream: Option<PathBuf>,
    /// What the agent kept; its subagents' files are found
    #[arg(long, value_name = "FILE", required_unless_present = "explain")]
    transcript: Option<PathBuf>,
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
    if args.explain {
        for rule in rules(Agent::Claude) {
            writeln!(out, "{}\n  {}\n  because {}", rule.name, rule.what, rule.reason)?;
        }
    }
    let (Some(stream), Some(transcript)) = (&args.stream, &args.transcript) else {
        return Ok(());
    };
    let comparison = compare(
        Agent::Claude,
        &folded(stream, Format::ClaudeStream)?,
        &folded(transcript, Format::ClaudeTranscript)?,
    );
    let replayed = match args.replay {
        true => Some(replay_files(stream, transcript)?),
        false => None,
    };
    let mut verdict = comparison.verdict();
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

/// Returns the state that a file tells.
fn folded(path: &Path, format: Format) -> Result<ConversationState, CommandError> {
    let mut state = ConversationState::default();
    let mut events = 0_u64;
    open(Some(path), Some(format))?.convert(&mut |_, event| {
        events += 1;
        // Odd events are for `threadfold fold --anomalies`; what they leave is compared here.
        state.extend([event]);
        Ok(())
    })?;
    if events == 0 {
        return Err(CommandError::new(
            anyhow!("`{}` holds nothing to compare", path.display()),
            "give the file that the agent wrote",
        ));
    }
    Ok(state)
}

fn replay_files(stream: &Path, transcript: &Path) -> Result<Replay, CommandError> {
    let read = |path: &Path| {
        std::fs::read(path).map_err(|error| {
            let error = anyhow::Error::new(error);
            let told = error.context(format!("`{}` cannot be read", path.display()));
            CommandError::new(told, "give a file that is there")
        })
    };
    let streamed = read(stream)?;
    let mut files = vec![(transcript.to_string_lossy().into_owned(), read(transcript)?)];
    for (_, path) in subagents_of(transcript)? {
        files.push((path.to_string_lossy().into_owned(), read(&path)?));
    }
    let feed = Feed::new(Agent::Claude, FeedKind::Stream, &stream.to_string_lossy());
    let records: Vec<_> = lines(&streamed)
        .map(|line| Record { feed: &feed, line: line.number, bytes: line.bytes })
        .collect();
    let files: Vec<_> = files.iter().map(|(path, bytes)| SessionFile { path, bytes }).collect();
    Ok(replay(Agent::Claude, &records, &files))
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
