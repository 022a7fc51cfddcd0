//! `threadfold doctor`: checks the store for corruption.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use threadfold_core::SessionId;
use threadfold_engine::{ImportIndex, duplicate_names, import_index_path, inspect};
use threadfold_store::{Finding, Remedy, SessionEntry, Subject};

use super::reindex::reindex;
use crate::error::{CommandError, print_note};
use crate::printable::{printable, write_json};
use crate::progress::Progress;
use crate::store::{OpenStore, StoreArgs, elsewhere, lost_records};
use crate::surroundings::unread_on_machine;
use crate::unread::{print_unread, report_unread};
use crate::view::{count, size};

const REBUILD: &str = "`threadfold doctor --deep --repair` rebuilds it from the records";
const RESTORE_SESSION: &str = "restore the store from a backup; `threadfold export SESSION --salvage --output FOLDER` writes what can still be read. If the agent still has its files: remove the session, collect garbage at once (`threadfold rm`, `gc --now`) and import it again";
const RESTORE_STORE: &str = "restore the store from a backup, or write what can be read with `threadfold export --salvage --output FOLDER`, and import it into a new store";

/// Check the store for corruption
///
/// Reads everything and verifies its checksums. Each problem is printed with a suggested fix. What
/// agents' folders hold and this version cannot read is reported as well, and is no problem of the
/// store. Files that were imported and look unchanged are read again: one that was rewritten with its
/// size and times kept is a problem.
/// Exit 0: no problems; 1: problems found; 2: error.
#[derive(Args)]
pub(crate) struct DoctorArgs {
    /// Fold every session again, and compare with its snapshots and its summary
    #[arg(long)]
    deep: bool,
    /// Rebuild corrupt snapshots and summaries; records are never touched
    #[arg(long)]
    repair: bool,
    /// Print one JSON object per problem
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// A problem, as it is printed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Diagnosis {
    place: String,
    what: String,
    advice: String,
    /// It was rebuilt.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    repaired: bool,
    #[serde(skip)]
    subject: Subject,
    #[serde(skip)]
    remedy: Remedy,
}

impl From<Finding> for Diagnosis {
    fn from(finding: Finding) -> Self {
        let Finding { subject, problem, remedy, .. } = finding;
        Self {
            place: subject.to_string(),
            what: problem,
            advice: advice(remedy).to_owned(),
            repaired: false,
            subject,
            remedy,
        }
    }
}

impl Diagnosis {
    /// Returns the session whose snapshots and summary have to be rebuilt, if that repairs it.
    fn to_rebuild(&self) -> Option<&SessionId> {
        self.subject.session().filter(|_| self.remedy == Remedy::Rebuild)
    }
}

fn advice(remedy: Remedy) -> &'static str {
    match remedy {
        Remedy::Rebuild => REBUILD,
        Remedy::RestoreSession => RESTORE_SESSION,
        _ => RESTORE_STORE,
    }
}

pub(crate) fn run(args: &DoctorArgs) -> Result<(), CommandError> {
    let store = if args.repair { args.store.open()? } else { args.store.open_to_read()? };
    let (sessions, mut found) = examine(args, &store)?;
    if args.repair && found.iter().any(|it| it.to_rebuild().is_some()) {
        let rebuilt = repair(&store, &sessions, &found)?;
        let (_, left) = examine(args, &store)?;
        compare(&mut found, &rebuilt, left);
    }
    print(args, &found)?;
    let unread = unread_on_machine();
    report_unread(&unread);
    if args.json {
        print_unread(&unread)?;
    }
    if found.iter().any(|it| !it.repaired) {
        return Err(CommandError::No);
    }
    if found.is_empty() && !args.json {
        print_size(&store)?;
    }
    Ok(())
}

/// Returns the sessions, and everything that is wrong.
fn examine(
    args: &DoctorArgs,
    store: &OpenStore,
) -> Result<(Vec<SessionEntry>, Vec<Diagnosis>), CommandError> {
    let findings = store.wait(store.shared().check())?;
    let mut found: Vec<Diagnosis> = findings.into_iter().map(Diagnosis::from).collect();
    // If the database itself is corrupt, its sessions can be neither listed nor folded.
    let sessions = if found.is_empty() || args.repair { store.sessions()? } else { Vec::new() };
    found.extend(sessions.iter().filter_map(missing_records));
    if found.is_empty() {
        find_duplicates(store, &sessions, &mut found)?;
        found.extend(rewritten_files(store, &sessions));
    }
    if args.deep && found.iter().all(|it| it.to_rebuild().is_some()) {
        compare_derived(store, &sessions, &mut found)?;
    }
    Ok((sessions, found))
}

/// Reports records that are missing at the end of a session: its summary covers more.
fn missing_records(entry: &SessionEntry) -> Option<Diagnosis> {
    lost_records(entry).map(|what| {
        let subject = Subject::Session(entry.session.clone());
        let advice = "restore the store from a backup, or import the session's files again";
        let finding = Finding::new(subject, what, Remedy::RestoreSession);
        Diagnosis { advice: advice.to_owned(), ..Diagnosis::from(finding) }
    })
}

/// Returns files that look as they did when they were imported, and have other content.
fn rewritten_files(store: &OpenStore, sessions: &[SessionEntry]) -> Vec<Diagnosis> {
    let Some(file) = store.location().file() else { return Vec::new() };
    let by_id: BTreeMap<&str, &SessionEntry> =
        sessions.iter().map(|it| (it.session.as_str(), it)).collect();
    let index = ImportIndex::open(import_index_path(file));
    let rewritten = index.rewritten_files(|id| by_id.get(id.as_str()).copied());
    let diagnosis = |(session, path): (SessionId, PathBuf)| {
        let what = format!(
            "`{}` was rewritten since it was imported, with its size and times kept",
            path.display()
        );
        let finding = Finding::new(Subject::Session(session), what, Remedy::RestoreSession);
        let advice = "`threadfold import --reread` reads it again, and keeps both versions";
        Diagnosis { advice: advice.to_owned(), ..Diagnosis::from(finding) }
    };
    rewritten.into_iter().map(diagnosis).collect()
}

/// Adds sessions that are stored under two ids. Nothing is merged or removed automatically.
fn find_duplicates(
    store: &OpenStore,
    sessions: &[SessionEntry],
    found: &mut Vec<Diagnosis>,
) -> Result<(), CommandError> {
    let shared = store.shared();
    for entry in sessions {
        if let Some(other) = store.wait(duplicate_names(&shared, entry))? {
            let subject = Subject::Session(entry.session.clone());
            let problem = format!("it is the same session as `{other}`, which is also stored");
            let advice = format!(
                "imports go to `{other}`; if that is complete, `threadfold rm {}` removes this one",
                entry.session
            );
            let finding = Finding::new(subject, problem, Remedy::RestoreSession);
            found.push(Diagnosis { advice, ..Diagnosis::from(finding) });
        }
    }
    Ok(())
}

/// Adds snapshots and summaries that do not match the records.
fn compare_derived(
    store: &OpenStore,
    sessions: &[SessionEntry],
    found: &mut Vec<Diagnosis>,
) -> Result<(), CommandError> {
    let mut progress = Progress::new(sessions.len());
    let shared = store.shared();
    for entry in sessions {
        let findings = store.wait(inspect(&shared, entry, Some(elsewhere())))?;
        progress.step();
        for diagnosis in findings.into_iter().map(Diagnosis::from) {
            // The store may have found the same snapshot corrupt already.
            if found.iter().all(|it| it.subject != diagnosis.subject) {
                found.push(diagnosis);
            }
        }
    }
    progress.erase();
    Ok(())
}

/// Rebuilds the snapshots and summaries that are wrong, and returns the sessions.
fn repair(
    store: &OpenStore,
    sessions: &[SessionEntry],
    found: &[Diagnosis],
) -> Result<Vec<SessionId>, CommandError> {
    let mut rebuilt = Vec::new();
    for entry in sessions {
        let is_wrong = found.iter().any(|it| it.to_rebuild() == Some(&entry.session));
        // The old summary is the only proof that records are missing, so it is not replaced.
        if !is_wrong || missing_records(entry).is_some() {
            continue;
        }
        match reindex(store, entry) {
            Err(error @ CommandError::Failed { .. }) => {
                print_note(format_args!("cannot rebuild session `{}`: {error}", entry.session));
                continue;
            }
            done => drop(done?),
        }
        rebuilt.push(entry.session.clone());
    }
    Ok(rebuilt)
}

/// Marks rebuilt problems as repaired if they are gone, and adds problems that are new.
fn compare(found: &mut Vec<Diagnosis>, rebuilt: &[SessionId], left: Vec<Diagnosis>) {
    for diagnosis in found.iter_mut() {
        let is_left = left.iter().any(|it| it.subject == diagnosis.subject);
        let is_rebuilt = diagnosis.to_rebuild().is_none_or(|it| rebuilt.contains(it));
        diagnosis.repaired = is_rebuilt && !is_left;
    }
    for diagnosis in left {
        let is_same = |it: &Diagnosis| it.subject == diagnosis.subject && it.what == diagnosis.what;
        if !found.iter().any(is_same) {
            found.push(diagnosis);
        }
    }
}

fn print(args: &DoctorArgs, found: &[Diagnosis]) -> Result<(), CommandError> {
    let mut out = io::stdout().lock();
    for diagnosis in found {
        if args.json {
            write_json(&mut out, diagnosis)?;
            writeln!(out)?;
            continue;
        }
        let Diagnosis { place, what, advice, repaired, .. } = diagnosis;
        writeln!(out, "{}", printable(&format!("{place}: {what}")))?;
        match repaired {
            true => writeln!(out, "  repaired: rebuilt from the records")?,
            false => writeln!(out, "  {}", printable(advice))?,
        }
    }
    let left = found.iter().filter(|it| !it.repaired).count();
    if !found.is_empty() {
        let wrong = count(found.len(), "problem", "problems");
        print_note(format_args!("{wrong} found, {} repaired", found.len() - left));
    }
    Ok(())
}

fn print_size(store: &OpenStore) -> Result<(), CommandError> {
    let stored = store.wait(store.shared().size())?;
    let number = |it: u64| usize::try_from(it).unwrap_or(usize::MAX);
    let mut out = io::stdout().lock();
    let sessions = count(number(stored.sessions), "session", "sessions");
    let records = count(number(stored.records), "record", "records");
    let (file, free) = (size(number(stored.file_bytes)), size(number(stored.free_bytes)));
    writeln!(out, "no problems: {sessions}, {records}, {file}, {free} of it free")?;
    print_note(format_args!("checked `{}`", store.location()));
    Ok(())
}
