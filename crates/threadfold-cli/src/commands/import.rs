//! `threadfold import`: sessions of agents into the store.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use threadfold_engine::{FoundSession, InputOptions};
use threadfold_fold::{Agent, Detection};

use crate::error::{CommandError, say};
use crate::import::{Candidate, Imported, candidates, import, settle};
use crate::input::format_parser;
use crate::printable::{printable, write_json};
use crate::store::{OpenStore, StoreArgs};
use crate::view::{count, size};

/// Take sessions into the store, where they stay
///
/// Every byte is kept: `export` and `restore` give the files back as they were. A session that is
/// in the store already is read on from where it ended, so importing twice is harmless. One that
/// cannot be read does not stop the others.
#[derive(Args)]
pub(crate) struct ImportArgs {
    /// What to import: sessions by id or the beginning of one, files that an agent wrote, files of
    /// events, OpenCode's database, or folders with any of these; without, all sessions that
    /// `list` finds. A file of records that no known agent wrote is kept as it is
    #[arg(value_name = "SESSION|FILE|FOLDER")]
    sessions: Vec<String>,
    /// Read the files in this format instead of detecting it
    #[arg(long, value_name = "FORMAT", value_parser = format_parser())]
    from: Option<Detection>,
    /// Take this session of OpenCode's, where a file holds several
    #[arg(long = "session", value_name = "ID", requires = "sessions")]
    of_session: Option<String>,
    /// Take every file, whatever it is: those that no known agent wrote are kept as they are
    #[arg(long, requires = "sessions", conflicts_with = "from")]
    any: bool,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

pub(crate) fn run(args: &ImportArgs) -> Result<(), CommandError> {
    let options =
        InputOptions { format: args.from, session: args.of_session.as_deref(), any: args.any };
    let candidates = candidates(&args.sessions, &options)?;
    if candidates.is_empty() {
        say("there is nothing to import: `threadfold list` tells where it looks for sessions");
        return Err(CommandError::No);
    }
    let store = args.store.open_or_make()?;
    let mut report = Report { is_json: args.json, bar: bar(&candidates), ..Report::default() };
    let total = candidates.len();
    let mut failure = None;
    for Candidate { name, session } in candidates {
        let settled = session.and_then(|mut it| settle(&store, &mut it).map(|()| it));
        match settled.and_then(|it| report.import(&store, &it)) {
            Ok(()) => {}
            Err(CommandError::PipeClosed) => return Err(CommandError::PipeClosed),
            Err(error) if total == 1 && !args.json => failure = Some(error),
            Err(error) => report.failed(&name, &error)?,
        }
    }
    report.bar.finish_and_clear();
    if let Some(error) = failure {
        return Err(error);
    }
    report.end(total)
}

/// Returns a bar that goes by bytes, if somebody can see it.
fn bar(candidates: &[Candidate]) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    }
    let total = candidates.iter().filter_map(|it| it.session.as_ref().ok()).map(size_of).sum();
    let style = ProgressStyle::with_template("{bar:30} {bytes} of {total_bytes}, {eta} left");
    let bar = ProgressBar::new(total);
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// What is told of a session that was imported.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    id: Option<&'a str>,
    agent: Option<&'static str>,
    path: String,
    status: &'static str,
    records: u64,
    bytes: u64,
    new_parts: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// What became of all.
struct Report {
    is_json: bool,
    bar: ProgressBar,
    read: u64,
    /// The sessions that were taken, and whether anything of them was new.
    sessions: BTreeMap<String, bool>,
    failed: usize,
    /// Those that no known agent wrote.
    others: Vec<PathBuf>,
}

impl Default for Report {
    fn default() -> Self {
        let bar = ProgressBar::hidden();
        let (sessions, others) = (BTreeMap::new(), Vec::new());
        Self { is_json: false, bar, read: 0, sessions, failed: 0, others }
    }
}

impl Report {
    fn import(&mut self, store: &OpenStore, found: &FoundSession) -> Result<(), CommandError> {
        let size = size_of(found);
        let bar = self.bar.clone();
        let imported = import(store, found, move |bytes| bar.inc(bytes));
        self.read += size;
        self.bar.set_position(self.read);
        self.report(found, &imported?)
    }

    fn report(&mut self, found: &FoundSession, imported: &Imported) -> Result<(), CommandError> {
        *self.sessions.entry(found.id.to_string()).or_default() |= !imported.is_unchanged;
        if found.agent == Some(Agent::unknown()) {
            self.others.push(found.place.clone());
        }
        let intake = imported.intake;
        let status = match imported {
            Imported { is_unchanged: true, .. } => "unchanged",
            Imported { is_new: true, .. } => "new",
            Imported { .. } => "grown",
        };
        let line = Line {
            id: Some(found.id.as_str()),
            agent: found.agent.map(|it| it.name()),
            path: found.place.display().to_string(),
            status,
            records: intake.records,
            bytes: intake.bytes,
            new_parts: intake.new_parts,
            error: None,
        };
        if self.is_json {
            return self.print(&line);
        }
        let mut told = format!("{}  {status}", found.id);
        if !imported.is_unchanged {
            let records = usize::try_from(intake.records).unwrap_or(usize::MAX);
            let bytes = usize::try_from(intake.bytes).unwrap_or(usize::MAX);
            told.push_str(&format!(": {}, {}", count(records, "record", "records"), size(bytes)));
        }
        if intake.new_parts > 0 {
            told.push_str("; a file was written anew, and both are kept");
        }
        self.bar.suspend(|| writeln!(io::stdout(), "{}", printable(&told)))?;
        Ok(())
    }

    fn failed(&mut self, name: &str, error: &CommandError) -> Result<(), CommandError> {
        self.failed += 1;
        let why = error.cause();
        self.bar.suspend(|| say(format_args!("skipped {name}: {why}")));
        if !self.is_json {
            return Ok(());
        }
        self.print(&Line {
            id: None,
            agent: None,
            path: name.trim_matches('`').to_owned(),
            status: "failed",
            records: 0,
            bytes: 0,
            new_parts: 0,
            error: Some(why),
        })
    }

    fn print(&self, line: &Line<'_>) -> Result<(), CommandError> {
        self.bar.suspend(|| {
            let mut out = io::stdout().lock();
            write_json(&mut out, line)?;
            Ok(writeln!(out)?)
        })
    }

    fn end(&self, total: usize) -> Result<(), CommandError> {
        match self.others.as_slice() {
            [] => {}
            [other] => say(kept_as_it_is(other)),
            others => {
                let others = count(others.len(), "file", "files");
                say(format_args!("{others}: no known agent's sessions; kept as they are"));
            }
        }
        if total > 1 {
            let failed = self.failed;
            let all = count(self.sessions.len() + failed, "session", "sessions");
            let news = self.sessions.values().filter(|is_new| **is_new).count();
            let unchanged = self.sessions.len() - news;
            say(format_args!(
                "{all}: {news} with something new, {unchanged} unchanged, {failed} failed"
            ));
        }
        match self.failed {
            0 => Ok(()),
            failed => Err(CommandError::new(
                anyhow!("{} could not be imported", count(failed, "session", "sessions")),
                "the lines above tell why; importing again takes only what is missing",
            )),
        }
    }
}

/// Returns how many bytes a session has, about.
fn size_of(found: &FoundSession) -> u64 {
    found.content.stamp().bytes.unwrap_or_default()
}

fn kept_as_it_is(path: &std::path::Path) -> String {
    format!("`{}` is no known agent's session: every line is kept as it is", path.display())
}
