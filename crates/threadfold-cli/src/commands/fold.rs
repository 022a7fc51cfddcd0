//! `threadfold fold`: from events to the state that they end in.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, StdoutLock, Write};
use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::Args;
use serde::Serialize;
use threadfold_core::{BlockBody, Change, ConversationState, Json, Outcome, Payload, SessionEvent};

use crate::error::{CommandError, say};
use crate::input::Input;
use crate::printable::printable;
use crate::source::{Format, Opened, open};

/// Fold a session into the state of its conversations
///
/// Reads a stream or a transcript of Claude Code (the files of its subagents are found), the
/// events, an export, the database or the older folder of OpenCode, or Threadfold's own events,
/// one JSON object a line, and prints the state that they end in as one line of JSON. What the
/// input is, it finds out by itself. A line that is not an event stops it, with nothing printed; a
/// line of an agent's that is not understood is kept as a block.
#[derive(Args)]
pub(crate) struct FoldArgs {
    /// Read from this file or folder; from standard input if it is `-` or absent
    file: Option<PathBuf>,
    /// Say what the input is
    #[arg(long, value_name = "FORMAT")]
    from: Option<Format>,
    /// Take this session of OpenCode's, where the input holds several
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Stop after N events
    #[arg(long, value_name = "N")]
    at: Option<u64>,
    /// Print what each event changed, one JSON object a line
    #[arg(long, group = "shown")]
    changes: bool,
    /// Print what was odd, one line each, and their number on standard error
    #[arg(long, group = "shown")]
    anomalies: bool,
    /// Print the hash of the state
    #[arg(long, group = "shown")]
    hash: bool,
    /// Print which records were not understood: their kinds, and how many of each
    #[arg(long, group = "shown")]
    unknown: bool,
    /// Print the state indented
    #[arg(long, group = "shown")]
    pretty: bool,
    /// Leave out lines that are not events, and tell at the end which they were
    #[arg(long)]
    keep_going: bool,
}

pub(crate) fn run(args: &FoldArgs) -> Result<(), CommandError> {
    let opened = open(args.file.as_deref(), args.from)?.of_session(args.session.as_deref())?;
    match opened.format.agent() {
        Some(_) => run_raw(args, opened),
        None => run_events(args, Input::new(opened.name, opened.reader)),
    }
}

/// Folds what an agent said or kept.
fn run_raw(args: &FoldArgs, opened: Opened) -> Result<(), CommandError> {
    let name = opened.name.clone();
    let hides_files = opened.path.is_none() && opened.format == Format::ClaudeTranscript;
    let mut fold = Fold::new(args);
    let mut losses = BadLines::default();
    opened.convert(&mut |line, event| {
        if let Payload::Log(log) = &event.payload {
            losses.add_told(log.message.as_deref().unwrap_or(""));
        }
        match args.at {
            Some(at) if fold.steps >= at => Ok(()),
            _ => fold.step(event, line),
        }
    })?;
    let enough = fold.reached(args.at, &name);
    if enough.is_ok() {
        fold.finish()?;
    }
    fold.out.flush()?;
    losses.tell(
        "could not be used, and is kept as a block",
        "could not be used, and are kept as blocks",
    );
    if hides_files {
        fold.tell_unseen(&name);
    }
    enough
}

fn run_events(args: &FoldArgs, mut input: Input) -> Result<(), CommandError> {
    let mut fold = Fold::new(args);
    let mut bad = BadLines::default();

    while args.at.is_none_or(|at| fold.steps < at) {
        if input.may_wait() {
            fold.out.flush()?;
        }
        let Some(line) = input.next_line()? else {
            break;
        };
        match read_event(line) {
            Ok(None) => {}
            Ok(Some(event)) => fold.step(&event, input.number())?,
            Err(error) if args.keep_going => bad.add(input.number(), &error),
            Err(error) => {
                fold.out.flush()?;
                let place = format!("line {} of {} is not an event", input.number(), input.name());
                return Err(CommandError::new(
                    error.context(place),
                    "`--keep-going` leaves out lines that are not events",
                ));
            }
        }
    }

    let enough = fold.reached(args.at, input.name());
    if enough.is_ok() {
        fold.finish()?;
    }
    fold.out.flush()?;
    bad.tell("was left out", "were left out");
    enough
}

/// Returns the event of a line; nothing if the line is empty.
fn read_event(line: &[u8]) -> Result<Option<SessionEvent>> {
    let text = match str::from_utf8(line) {
        Ok(text) => text.trim_ascii(),
        Err(error) => {
            let at = error.valid_up_to();
            let found = line[at];
            return Err(anyhow!(
                "expected UTF-8, found the byte 0x{found:02x} at column {}",
                at + 1
            ));
        }
    };
    if text.is_empty() {
        return Ok(None);
    }
    Ok(Some(SessionEvent::from_json(text)?))
}

/// The fold as it goes on.
struct Fold<'a> {
    args: &'a FoldArgs,
    out: BufWriter<StdoutLock<'static>>,
    state: ConversationState,
    steps: u64,
    anomalies: u64,
}

impl<'a> Fold<'a> {
    fn new(args: &'a FoldArgs) -> Self {
        Self {
            args,
            out: BufWriter::new(io::stdout().lock()),
            state: ConversationState::default(),
            steps: 0,
            anomalies: 0,
        }
    }

    fn step(&mut self, event: &SessionEvent, line: u64) -> Result<(), CommandError> {
        self.steps += 1;
        let kind = event.payload.kind();
        let outcome = if self.args.changes {
            let mut changes = Vec::new();
            let outcome = self.state.apply_with(event, &mut changes);
            let anomaly = outcome.anomaly().map(ToString::to_string);
            let outcome_name = name(&outcome);
            let step = StepLine {
                step: self.steps,
                kind,
                outcome: outcome_name,
                anomaly,
                changes: &changes,
            };
            serde_json::to_writer(&mut self.out, &step)?;
            writeln!(self.out)?;
            outcome
        } else {
            self.state.apply(event)
        };
        if let Some(anomaly) = outcome.anomaly() {
            self.anomalies += 1;
            if self.args.anomalies {
                let told = format!("line {line}: {kind} {}: {anomaly}", name(&outcome));
                writeln!(self.out, "{}", printable(&told))?;
            }
        }
        Ok(())
    }

    /// Tells of subagents that have files of their own, which nobody sees from `source`.
    fn tell_unseen(&self, source: &str) {
        let subagents = self.state.subagents();
        let unseen = subagents.iter().filter(|it| it.blocks().is_empty()).count();
        if unseen > 0 {
            let what = count(unseen as u64, "subagent", "subagents");
            say(format_args!(
                "the files of {what} cannot be seen from {source}; give the transcript's path"
            ));
        }
    }

    /// Says whether there were as many events as were asked for.
    fn reached(&self, at: Option<u64>, source: &str) -> Result<(), CommandError> {
        match at {
            Some(at) if self.steps < at => Err(CommandError::new(
                anyhow!(
                    "{source} has {}, and `--at` asks for {at}",
                    count(self.steps, "event", "events")
                ),
                format!("`--at {}` is the state after all of them", self.steps),
            )),
            _ => Ok(()),
        }
    }

    /// Prints what is only known at the end.
    fn finish(&mut self) -> Result<(), CommandError> {
        let FoldArgs { changes, anomalies, hash, pretty, unknown, .. } = self.args;
        if *unknown {
            for (kind, number) in unknown_kinds(&self.state) {
                writeln!(self.out, "{number}\t{}", printable(&kind))?;
            }
        } else if *anomalies {
            let found = count(self.anomalies, "anomaly", "anomalies");
            self.out.flush()?;
            say(format_args!("{found} in {}", count(self.steps, "event", "events")));
        } else if *hash {
            writeln!(self.out, "{}", self.state.hash())?;
        } else if *pretty {
            serde_json::to_writer_pretty(&mut self.out, &self.state)?;
            writeln!(self.out)?;
        } else if !changes {
            serde_json::to_writer(&mut self.out, &self.state)?;
            writeln!(self.out)?;
        }
        Ok(())
    }
}

/// Returns the kinds of records that were not understood, and how many there are of each.
fn unknown_kinds(state: &ConversationState) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    let subagents = state.subagents();
    let all = std::iter::once(state.blocks()).chain(subagents.iter().map(|it| it.blocks()));
    for block in all.flat_map(|blocks| blocks.iter()) {
        if let BlockBody::Unknown(unknown) = &block.body {
            *kinds.entry(kind_of(&unknown.record)).or_default() += 1;
        }
    }
    kinds
}

fn kind_of(record: &Json) -> String {
    #[derive(serde::Deserialize)]
    struct Kind {
        #[serde(rename = "type")]
        kind: Option<String>,
        subtype: Option<String>,
    }
    match serde_json::from_str(record.as_str()) {
        Ok(Kind { kind: Some(kind), subtype: Some(subtype) }) => format!("{kind}/{subtype}"),
        Ok(Kind { kind: Some(kind), subtype: None }) => kind,
        _ => "damaged".to_owned(),
    }
}

/// A line of `--changes`.
#[derive(Serialize)]
struct StepLine<'a> {
    step: u64,
    #[serde(rename = "type")]
    kind: &'a str,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    anomaly: Option<String>,
    changes: &'a [Change],
}

fn name(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Applied => "applied",
        Outcome::Noted(_) => "noted",
        Outcome::Unchanged => "unchanged",
        Outcome::Ignored(_) => "ignored",
    }
}

fn count(number: u64, one: &str, many: &str) -> String {
    match number {
        0 => format!("no {many}"),
        1 => format!("1 {one}"),
        _ => format!("{number} {many}"),
    }
}

/// Lines that were left out; only the first are remembered.
#[derive(Default)]
struct BadLines {
    count: u64,
    first: Vec<String>,
}

impl BadLines {
    const SHOWN: usize = 10;

    fn add(&mut self, line: u64, error: &anyhow::Error) {
        self.count += 1;
        if self.first.len() < Self::SHOWN {
            self.first.push(format!("line {line}: {error}"));
        }
    }

    fn add_told(&mut self, told: &str) {
        self.count += 1;
        if self.first.len() < Self::SHOWN {
            self.first.push(told.to_owned());
        }
    }

    fn tell(&self, one: &str, many: &str) {
        if self.count == 0 {
            return;
        }
        let what = if self.count == 1 { one } else { many };
        say(format_args!("{} {what}:", count(self.count, "line", "lines")));
        self.first.iter().for_each(|line| say(format_args!("  {line}")));
        let more = self.count - self.first.len() as u64;
        if more > 0 {
            say(format_args!("  and {more} more"));
        }
    }
}
