//! `threadfold import`: sessions of agents into the store.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use threadfold_convert::Agent;

use crate::error::{CommandError, say};
use crate::import::{Imported, Names, Planned, Planner, Task, kept_as_it_is, take};
use crate::printable::{printable, write_json};
use crate::source::Format;
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
    /// Say what the files are
    #[arg(long, value_name = "FORMAT")]
    from: Option<Format>,
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
    let planner = Planner { from: args.from, session: args.of_session.as_deref(), any: args.any };
    let tasks = planner.plan(&args.sessions)?;
    if tasks.is_empty() {
        say("there is nothing to import: `threadfold list` tells where it looks for sessions");
        return Err(CommandError::No);
    }
    let store = args.store.open_or_make()?;
    let mut report = Report { is_json: args.json, bar: bar(&tasks), ..Report::default() };
    let total = tasks.len();
    let mut failure = None;
    let mut names = Names::of(&store)?;
    for Task { name, planned } in tasks {
        let settled = planned.and_then(|mut it| names.settle(&mut it).map(|()| it));
        let imported = settled.and_then(|it| report.import(&store, it));
        match imported {
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
fn bar(tasks: &[Task]) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    }
    let total = tasks.iter().filter_map(|it| it.planned.as_ref().ok()).map(Planned::size).sum();
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
    fn import(&mut self, store: &OpenStore, planned: Planned) -> Result<(), CommandError> {
        let size = planned.size();
        let bar = &self.bar;
        let imported = take(store, &planned, |bytes| bar.inc(bytes));
        self.read += size;
        self.bar.set_position(self.read);
        self.tell(&planned, &imported?)
    }

    fn tell(&mut self, planned: &Planned, imported: &Imported) -> Result<(), CommandError> {
        *self.sessions.entry(planned.id.clone()).or_default() |= !imported.is_unchanged;
        if planned.agent == Some(Agent::Other) {
            self.others.push(planned.place.clone());
        }
        let taken = imported.taken;
        let status = match imported {
            Imported { is_unchanged: true, .. } => "unchanged",
            Imported { is_new: true, .. } => "new",
            Imported { .. } => "grown",
        };
        let line = Line {
            id: Some(&planned.id),
            agent: planned.agent.map(|it| it.name()),
            path: planned.place.display().to_string(),
            status,
            records: taken.records,
            bytes: taken.bytes,
            new_parts: taken.new_parts,
            error: None,
        };
        if self.is_json {
            return self.print(&line);
        }
        let mut told = format!("{}  {status}", planned.id);
        if !imported.is_unchanged {
            let records = usize::try_from(taken.records).unwrap_or(usize::MAX);
            let bytes = usize::try_from(taken.bytes).unwrap_or(usize::MAX);
            told.push_str(&format!(": {}, {}", count(records, "record", "records"), size(bytes)));
        }
        if taken.new_parts > 0 {
            told.push_str("; a file was written anew, and both are kept");
        }
        self.bar.suspend(|| writeln!(io::stdout(), "{}", printable(&told)))?;
        Ok(())
    }

    fn failed(&mut self, name: &str, error: &CommandError) -> Result<(), CommandError> {
        self.failed += 1;
        let why = match error {
            CommandError::Failed { error, .. } => format!("{error:#}"),
            other => other.to_string(),
        };
        let why = why.replacen(name, "it", 1);
        self.bar.suspend(|| say(format_args!("left out {name}: {why}")));
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
