//! `threadfold import`: imports agents' sessions into the store.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use anyhow::anyhow;
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use threadfold_engine::{
    ContentStamp, FoundSession, IdOrigin, ImportedFiles, InputOptions, KnownImport,
};
use threadfold_fold::{Agent, Detection};

use crate::error::{CommandError, print_note};
use crate::import::{
    Candidate, ChangedSession, ImportResult, ImportTask, bring_back, candidates, imported_files,
    report_index, settle,
};
use crate::input::format_parser;
use crate::printable::{printable, write_json};
use crate::store::{OpenStore, StoreArgs};
use crate::unread::{print_unread, report_unread};
use crate::view::{count, size};

/// Import sessions into the store, which keeps them after the agent deletes them
///
/// Every byte is stored: `export` and `restore` reproduce the original files. Importing again
/// continues where the last import ended, so it is idempotent. A session that cannot be read does
/// not stop the others.
#[derive(Args)]
pub(crate) struct ImportArgs {
    /// What to import: sessions by id or prefix, agents' files, Threadfold event files, an
    /// agent's database, or folders of these; default: every session that `list` finds. A text file in an
    /// unknown format is stored line by line
    #[arg(value_name = "SESSION|FILE|FOLDER")]
    sessions: Vec<String>,
    /// Read the files in this format instead of detecting it
    #[arg(long, value_name = "FORMAT", value_parser = format_parser())]
    from: Option<Detection>,
    /// Import only this session of a file that contains several
    #[arg(long = "session", value_name = "ID", requires = "sessions")]
    of_session: Option<String>,
    /// Also import files of folders that would be skipped because their format is unknown
    #[arg(long, requires = "sessions", conflicts_with = "from")]
    any: bool,
    /// Read files again that look unchanged since the last import: same place, size and times
    #[arg(long)]
    reread: bool,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

pub(crate) fn run(args: &ImportArgs) -> Result<(), CommandError> {
    let options =
        InputOptions { format: args.from, session: args.of_session.as_deref(), any: args.any };
    let mut unread = Vec::new();
    let candidates = candidates(&args.sessions, &options, &mut unread);
    report_unread(&unread);
    if args.json {
        print_unread(&unread)?;
    }
    let candidates = candidates?;
    if candidates.is_empty() {
        print_note(
            "there is nothing to import: `threadfold list` shows where it looks for sessions",
        );
        return Err(CommandError::No);
    }
    // In another format, an unchanged file has other records.
    let mut imported = match args.from {
        Some(_) => ImportedFiles::default().rereading(),
        None if args.reread => imported_files(&args.store)?.rereading(),
        None => imported_files(&args.store)?,
    };
    let total = candidates.len();
    let bar = bar(&candidates);
    let candidates: Vec<(String, Job)> = candidates
        .into_iter()
        .map(|Candidate { name, session }| (name, Job::of(session, &mut imported)))
        .collect();
    // A store that gets nothing new is not opened for writing.
    let is_read_only = candidates.iter().all(|(_, job)| matches!(job, Job::Skip(_)));
    let store = if is_read_only { None } else { Some(args.store.open_or_make()?) };
    let mut queue = Queue {
        store: store.as_ref(),
        imported: Arc::new(Mutex::new(imported)),
        report: Report { is_json: args.json, bar, ..Report::default() },
        running: VecDeque::new(),
        finished: 0,
        is_only: total == 1 && !args.json,
        failure: None,
    };
    for (name, job) in candidates {
        queue.add(name, job)?;
    }
    queue.finish_all()?;
    let Queue { report, failure, imported, .. } = queue;
    let sessions = store.as_ref().map(OpenStore::sessions).transpose()?;
    report_index(ImportedFiles::locked(&imported).write(sessions));
    report.bar.finish_and_clear();
    if let Some(error) = failure {
        return Err(error);
    }
    report.end(total)
}

/// How many sessions are imported at once. Sixteen appends at once would become a burst in the
/// store, which is written twice.
const AT_ONCE: usize = 12;
/// How many bytes they have together, because each takes memory; a larger session is imported alone.
const BYTES_AT_ONCE: u64 = 8 << 20;

/// What has to be done for a session.
enum Job {
    /// It is in the store under this id, and looks unchanged.
    Skip(FoundSession),
    /// It is read into the stored session with its id.
    Continue(FoundSession, ContentStamp),
    /// It is read, under an id that is not settled yet.
    Read(FoundSession, ContentStamp),
    Fail(CommandError),
}

impl Job {
    fn of(session: Result<FoundSession, CommandError>, imported: &mut ImportedFiles) -> Self {
        let mut found = match session {
            Ok(found) => found,
            Err(error) => return Self::Fail(error),
        };
        let mut stamp = ContentStamp::of(&found);
        match imported.known(&found, &mut stamp) {
            KnownImport::Unchanged(id) => {
                found.id = id;
                Self::Skip(found)
            }
            KnownImport::Changed(id) => {
                found.id = id;
                Self::Continue(found, stamp)
            }
            KnownImport::Unknown => Self::Read(found, stamp),
        }
    }
}

/// Sessions that are imported at the same time, and reported in their order.
struct Queue<'a> {
    /// The store; none if nothing has to be read.
    store: Option<&'a OpenStore>,
    imported: Arc<Mutex<ImportedFiles>>,
    report: Report,
    running: VecDeque<RunningImport>,
    /// How many were finished.
    finished: usize,
    /// There is one session, whose failure is that of the command.
    is_only: bool,
    failure: Option<CommandError>,
}

/// A session that is being imported, or that is to be reported after those before it.
struct RunningImport {
    name: String,
    found: FoundSession,
    /// What it adds; nothing if it is unchanged.
    import: Option<ImportTask>,
}

impl Queue<'_> {
    fn add(&mut self, name: String, job: Job) -> Result<(), CommandError> {
        let may_run_beside = match &job {
            Job::Skip(_) => true,
            Job::Continue(found, _) | Job::Read(found, _) => self.may_run_beside(found),
            Job::Fail(_) => false,
        };
        if !may_run_beside {
            self.finish_all()?;
        }
        let changed = match (job, self.store) {
            (Job::Skip(found), _) => return self.push(RunningImport { name, found, import: None }),
            (Job::Fail(error), _) => Err(error),
            (Job::Continue(found, stamp), _) => Ok(ChangedSession { found, stamp, loaded: None }),
            (Job::Read(mut found, stamp), Some(store)) => {
                settle(store, &mut found).map(|loaded| ChangedSession { found, stamp, loaded })
            }
            (Job::Read(..), None) => return Ok(()),
        };
        match (changed, self.store) {
            (Ok(changed), Some(store)) => {
                bring_back(store, &changed.found)?;
                let found = changed.found.clone();
                let (bar, index) = (self.report.bar.clone(), self.imported.clone());
                // The size of a session in a database is not known before it is read.
                let is_short = found.content.stamp().bytes.is_some_and(|it| it <= BYTES_AT_ONCE);
                let start = if is_short { ImportTask::start } else { ImportTask::run };
                let import = start(store, &index, changed, Box::new(move |bytes| bar.inc(bytes)));
                self.push(RunningImport { name, found, import: Some(import) })
            }
            (Err(error), _) => self.failed(&name, error),
            (Ok(_), None) => Ok(()),
        }
    }

    /// Returns whether a session may be imported beside those that are running: none of them can
    /// decide under which id it is stored, and all of them fit in memory.
    fn may_run_beside(&self, found: &FoundSession) -> bool {
        let is_other = |running: &RunningImport| running.found.id != found.id;
        found.naming == IdOrigin::Agent
            && found.content.stamp().bytes.is_some_and(|bytes| bytes <= BYTES_AT_ONCE)
            && self.running.iter().all(is_other)
    }

    /// Adds a session, and finishes the first ones until the others may run at once.
    fn push(&mut self, import: RunningImport) -> Result<(), CommandError> {
        self.running.push_back(import);
        let bytes = |running: &VecDeque<RunningImport>| {
            running
                .iter()
                .filter(|it| it.import.is_some())
                .map(|it| size_of(&it.found))
                .sum::<u64>()
        };
        while self.running.len() >= AT_ONCE || bytes(&self.running) > BYTES_AT_ONCE {
            self.finish_first()?;
        }
        Ok(())
    }

    fn finish_all(&mut self) -> Result<(), CommandError> {
        while !self.running.is_empty() {
            self.finish_first()?;
        }
        report_index(ImportedFiles::locked(&self.imported).flush());
        Ok(())
    }

    /// Waits for the first session, and reports it.
    fn finish_first(&mut self) -> Result<(), CommandError> {
        let Some(RunningImport { name, found, import }) = self.running.pop_front() else {
            return Ok(());
        };
        let imported = match (import, self.store) {
            (Some(import), Some(store)) => import.wait(store),
            _ => Ok(ImportResult::unchanged()),
        };
        self.report.read += size_of(&found);
        self.report.bar.set_position(self.report.read);
        self.finished += 1;
        if self.finished.is_multiple_of(AT_ONCE) {
            report_index(ImportedFiles::locked(&self.imported).flush());
        }
        match imported.and_then(|it| self.report.report(&found, &it)) {
            Ok(()) => Ok(()),
            Err(error) => self.failed(&name, error),
        }
    }

    fn failed(&mut self, name: &str, error: CommandError) -> Result<(), CommandError> {
        match error {
            CommandError::PipeClosed => Err(CommandError::PipeClosed),
            error if self.is_only => {
                self.failure = Some(error);
                Ok(())
            }
            error => self.report.failed(name, &error),
        }
    }
}

/// Returns a progress bar in bytes, if stderr is a terminal.
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

/// The result of importing a session.
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

/// The results of all sessions.
struct Report {
    is_json: bool,
    bar: ProgressBar,
    read: u64,
    /// The imported sessions, and whether each had new records.
    sessions: BTreeMap<String, bool>,
    failed: usize,
    /// Files of unknown agents.
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
    fn report(
        &mut self,
        found: &FoundSession,
        imported: &ImportResult,
    ) -> Result<(), CommandError> {
        *self.sessions.entry(found.id.to_string()).or_default() |= !imported.is_unchanged;
        if found.agent == Some(Agent::unknown()) {
            self.others.push(found.place.clone());
        }
        let intake = imported.intake;
        let status = match imported {
            ImportResult { is_unchanged: true, .. } => "unchanged",
            ImportResult { is_new: true, .. } => "new",
            ImportResult { .. } => "grown",
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
        let mut line = format!("{}  {status}", found.id);
        if !imported.is_unchanged {
            let records = usize::try_from(intake.records).unwrap_or(usize::MAX);
            let bytes = usize::try_from(intake.bytes).unwrap_or(usize::MAX);
            line.push_str(&format!(": {}, {}", count(records, "record", "records"), size(bytes)));
        }
        if intake.new_parts > 0 {
            line.push_str("; a file was rewritten, and both versions are kept");
        }
        self.bar.suspend(|| writeln!(io::stdout(), "{}", printable(&line)))?;
        Ok(())
    }

    fn failed(&mut self, name: &str, error: &CommandError) -> Result<(), CommandError> {
        self.failed += 1;
        let why = error.cause();
        self.bar.suspend(|| print_note(format_args!("skipped {name}: {why}")));
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
            [other] => print_note(stored_unchanged(other)),
            others => {
                let others = count(others.len(), "file", "files");
                print_note(format_args!("{others} in an unknown format, stored line by line"));
            }
        }
        if total > 1 {
            let failed = self.failed;
            let all = count(self.sessions.len() + failed, "session", "sessions");
            let news = self.sessions.values().filter(|is_new| **is_new).count();
            let unchanged = self.sessions.len() - news;
            print_note(format_args!(
                "{all}: {news} new or updated, {unchanged} unchanged, {failed} failed"
            ));
        }
        match self.failed {
            0 => Ok(()),
            failed => Err(CommandError::new(
                anyhow!("{} could not be imported", count(failed, "session", "sessions")),
                "see the messages above; import again to retry only what is missing",
            )),
        }
    }
}

/// Returns the approximate size of a session in bytes.
fn size_of(found: &FoundSession) -> u64 {
    found.content.stamp().bytes.unwrap_or_default()
}

fn stored_unchanged(path: &std::path::Path) -> String {
    format!("`{}` is in an unknown format: it is stored line by line", path.display())
}
