//! `threadfold fold`: folds events into their final state.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Stdout, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::anyhow;
use clap::Args;
use serde::Serialize;
use threadfold_core::{BlockBody, Change, ConversationState, Json, Outcome, Payload, SessionEvent};
use threadfold_fold::Step;

use crate::error::{CommandError, print_note};
use crate::input::{FoldedInput, InputArgs, fold_input};
use crate::printable::{printable, write_json, write_json_text};
use crate::runtime::Waiter;

/// Fold a session and print the resulting state
///
/// Reads what an agent emits or stores, or Threadfold's own events, and prints the state as one
/// line of JSON. The format is detected, and files that belong to the session are included. A line
/// that cannot be parsed becomes an `unknown` block and is reported.
#[derive(Args)]
pub(crate) struct FoldArgs {
    /// Read this file or folder; default, or `-`: standard input
    file: Option<PathBuf>,
    #[command(flatten)]
    input: InputArgs,
    /// Stop after N events
    #[arg(long, value_name = "N")]
    at: Option<u64>,
    /// Print the changes of each event, one JSON object per line
    #[arg(long, group = "shown")]
    changes: bool,
    /// Print anomalous events, one per line, and their count on standard error
    #[arg(long, group = "shown")]
    anomalies: bool,
    /// Print the hash of the state
    #[arg(long, group = "shown")]
    hash: bool,
    /// Print the kinds of unknown records, and the number of each
    #[arg(long, group = "shown")]
    unknown: bool,
    /// Print the state indented
    #[arg(long, group = "shown")]
    pretty: bool,
}

pub(crate) fn run(args: &FoldArgs) -> Result<(), CommandError> {
    let waiter = Waiter::single()?;
    let printer = Arc::new(Mutex::new(Printer::new(args)));
    let observer = printer.clone();
    let folded = fold_input(&waiter, args.file.as_deref(), &args.input.options(), move |step| {
        lock(&observer).step(step);
    })?;
    waiter.shut_down();
    let mut printer = lock(&printer);
    let FoldedInput { fold, name, is_pipe } = folded;
    let settled = fold.into_settled_with(|ending| printer.events(ending, 0));
    std::mem::replace(&mut printer.failure, Ok(()))?;
    printer.check_reached(&name)?;
    let state = match printer.state.take() {
        Some(state) => state,
        None => settled,
    };
    printer.finish(&state)?;
    printer.bad_lines.report(|lines, count| {
        let kept = if count == 1 { "is kept as a block" } else { "are kept as blocks" };
        format!("{lines} could not be parsed and {kept}:")
    });
    printer.repeated_lines.report(|lines, count| {
        let verb = if count == 1 { "repeats" } else { "repeat" };
        format!("{lines} {verb} history that was read before:")
    });
    if is_pipe {
        report_unseen(&state, &name);
    }
    Ok(())
}

fn lock(printer: &Mutex<Printer>) -> MutexGuard<'_, Printer> {
    printer.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reports subagents with files of their own, which a pipe does not contain.
fn report_unseen(state: &ConversationState, source: &str) {
    let subagents = state.subagents();
    let unseen = subagents.iter().filter(|it| it.blocks().is_empty()).count();
    if unseen > 0 {
        print_note(format_args!(
            "{source} does not include the files of {}: use the path of the transcript",
            count(unseen as u64, "subagent", "subagents")
        ));
    }
}

/// Prints the requested output, per event and at the end.
struct Printer {
    shown: FoldOutput,
    at: Option<u64>,
    out: BufWriter<Stdout>,
    /// The state after each event, if requested; otherwise the fold's own state is printed.
    state: Option<ConversationState>,
    events: u64,
    anomalies: u64,
    /// Lines that could not be parsed.
    bad_lines: ReportedLines,
    /// Lines whose content was read before.
    repeated_lines: ReportedLines,
    failure: Result<(), CommandError>,
}

/// The requested output.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FoldOutput {
    State,
    Pretty,
    Changes,
    Anomalies,
    Hash,
    Unknown,
}

impl Printer {
    fn new(args: &FoldArgs) -> Self {
        let shown = match args {
            FoldArgs { changes: true, .. } => FoldOutput::Changes,
            FoldArgs { anomalies: true, .. } => FoldOutput::Anomalies,
            FoldArgs { hash: true, .. } => FoldOutput::Hash,
            FoldArgs { unknown: true, .. } => FoldOutput::Unknown,
            FoldArgs { pretty: true, .. } => FoldOutput::Pretty,
            _ => FoldOutput::State,
        };
        let is_stepwise =
            args.at.is_some() || matches!(shown, FoldOutput::Changes | FoldOutput::Anomalies);
        Self {
            shown,
            at: args.at,
            out: BufWriter::new(io::stdout()),
            state: is_stepwise.then(ConversationState::default),
            events: 0,
            anomalies: 0,
            bad_lines: ReportedLines::default(),
            repeated_lines: ReportedLines::default(),
            failure: Ok(()),
        }
    }

    fn step(&mut self, step: &Step) {
        self.events(&step.events, step.line);
    }

    fn events(&mut self, events: &[SessionEvent], line: u64) {
        for event in events {
            if let Payload::Log(log) = &event.payload {
                let lines = match log.level.as_deref() {
                    Some("info") => &mut self.repeated_lines,
                    _ => &mut self.bad_lines,
                };
                lines.add(log.message.as_deref().unwrap_or(""));
            }
            if self.failure.is_ok() && self.at.is_none_or(|at| self.events < at) {
                self.failure = self.event(event, line);
            }
        }
        // Flushed per event, so that slow or interactive input shows results at once.
        if self.failure.is_ok() && self.shown == FoldOutput::Changes {
            self.failure = self.out.flush().map_err(CommandError::from);
        }
    }

    fn event(&mut self, event: &SessionEvent, line: u64) -> Result<(), CommandError> {
        self.events += 1;
        let Some(state) = &mut self.state else { return Ok(()) };
        let kind = event.payload.kind();
        let mut changes = Vec::new();
        let outcome = state.apply_with(event, &mut changes);
        if self.shown == FoldOutput::Changes {
            let step = StepLine {
                step: self.events,
                kind,
                outcome: name(&outcome),
                anomaly: outcome.anomaly().map(ToString::to_string),
                changes: &changes,
            };
            write_json(&mut self.out, &step)?;
            writeln!(self.out)?;
        }
        if let Some(anomaly) = outcome.anomaly() {
            self.anomalies += 1;
            if self.shown == FoldOutput::Anomalies {
                let text = format!("line {line}: {kind} {}: {anomaly}", name(&outcome));
                writeln!(self.out, "{}", printable(&text))?;
            }
        }
        Ok(())
    }

    /// Fails if there are fewer events than `--at` requests.
    fn check_reached(&mut self, source: &str) -> Result<(), CommandError> {
        match self.at {
            Some(at) if self.events < at => {
                self.out.flush()?;
                Err(CommandError::new(
                    anyhow!(
                        "{source} has {}, and `--at` asks for {at}",
                        count(self.events, "event", "events")
                    ),
                    format!("`--at {}` is the state after all of them", self.events),
                ))
            }
            _ => Ok(()),
        }
    }

    /// Prints the output that is known only at the end.
    fn finish(&mut self, state: &ConversationState) -> Result<(), CommandError> {
        match self.shown {
            FoldOutput::Unknown => {
                for (kind, number) in unknown_kinds(state) {
                    writeln!(self.out, "{number}\t{}", printable(&kind))?;
                }
            }
            FoldOutput::Anomalies => {
                self.out.flush()?;
                let found = count(self.anomalies, "anomaly", "anomalies");
                print_note(format_args!("{found} in {}", count(self.events, "event", "events")));
            }
            FoldOutput::Hash => writeln!(self.out, "{}", state.hash())?,
            FoldOutput::Pretty => {
                let pretty = serde_json::to_string_pretty(state)?;
                for line in pretty.lines() {
                    write_json_text(&mut self.out, line)?;
                    writeln!(self.out)?;
                }
            }
            FoldOutput::State => {
                write_json(&mut self.out, state)?;
                writeln!(self.out)?;
            }
            FoldOutput::Changes => {}
        }
        Ok(self.out.flush()?)
    }
}

/// Returns the kinds of unknown records, and the number of each.
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

/// Lines that are reported at the end; only the first ones are remembered.
#[derive(Default)]
struct ReportedLines {
    count: u64,
    first: Vec<String>,
}

impl ReportedLines {
    const SHOWN: usize = 10;

    fn add(&mut self, message: &str) {
        self.count += 1;
        if self.first.len() < Self::SHOWN {
            self.first.push(message.to_owned());
        }
    }

    /// Prints the lines below a heading, which is made of their number in words and as a number.
    fn report(&self, heading: impl FnOnce(&str, u64) -> String) {
        if self.count == 0 {
            return;
        }
        print_note(heading(&count(self.count, "line", "lines"), self.count));
        self.first.iter().for_each(|line| print_note(format_args!("  {line}")));
        let more = self.count - self.first.len() as u64;
        if more > 0 {
            print_note(format_args!("  and {more} more"));
        }
    }
}
