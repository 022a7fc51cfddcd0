//! `threadfold fold`: from events to the state that they end in.

use std::io::{self, BufWriter, StdoutLock, Write};
use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::Args;
use serde::Serialize;
use threadfold_core::{Change, ConversationState, Outcome, SessionEvent};

use crate::error::{CommandError, say};
use crate::input::Input;
use crate::printable::printable;

/// Fold events into the state of a conversation
///
/// Reads session events, one JSON object a line, and prints the state that they end in as one
/// line of JSON. A line that is not an event stops it, with nothing printed; only `--changes`
/// and `--anomalies` print while they read.
#[derive(Args)]
pub(crate) struct FoldArgs {
    /// Read events from this file; from standard input if it is `-` or absent
    file: Option<PathBuf>,
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
    /// Print the state indented
    #[arg(long, group = "shown")]
    pretty: bool,
    /// Leave out lines that are not events, and tell at the end which they were
    #[arg(long)]
    keep_going: bool,
}

pub(crate) fn run(args: &FoldArgs) -> Result<(), CommandError> {
    let mut input = Input::open(args.file.as_deref())?;
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
    bad.tell();
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
        let FoldArgs { changes, anomalies, hash, pretty, .. } = self.args;
        if *anomalies {
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

    fn tell(&self) {
        if self.count == 0 {
            return;
        }
        say(format_args!("{} left out:", count(self.count, "line was", "lines were")));
        self.first.iter().for_each(|line| say(format_args!("  {line}")));
        let more = self.count - self.first.len() as u64;
        if more > 0 {
            say(format_args!("  and {more} more"));
        }
    }
}
