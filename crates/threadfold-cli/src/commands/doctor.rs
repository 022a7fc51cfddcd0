//! `threadfold doctor`: whether the store is whole, and what to do if it is not.

use std::io::{self, Write};

use clap::Args;
use serde::Serialize;
use threadfold_engine::inspect;
use threadfold_store::SessionEntry;

use super::reindex::reindex;
use crate::error::{CommandError, say};
use crate::printable::{printable, write_json};
use crate::progress::Progress;
use crate::store::{OpenStore, StoreArgs, elsewhere, lost_records};
use crate::view::{count, size};

const REBUILD: &str = "`threadfold doctor --deep --repair` makes it again from the records";

/// Look whether everything in the store is whole
///
/// Reads all that is stored, and holds it against its checksums. What is wrong is told with what
/// to do about it. Exit 0: all is well; 1: something is wrong; 2: error.
#[derive(Args)]
pub(crate) struct DoctorArgs {
    /// Fold every session again, and compare with its snapshots and its summary
    #[arg(long)]
    deep: bool,
    /// Make again what is derived and wrong; records are never touched
    #[arg(long)]
    repair: bool,
    /// Print one JSON object a line for each thing that is wrong
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// Something that is wrong.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Finding {
    place: String,
    what: String,
    advice: String,
    /// It was made again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    repaired: bool,
    /// The session that it is derived of.
    #[serde(skip)]
    derived_of: Option<usize>,
}

pub(crate) fn run(args: &DoctorArgs) -> Result<(), CommandError> {
    let store = if args.repair { args.store.open()? } else { args.store.open_to_read()? };
    let (sessions, mut findings) = look(args, &store)?;
    if args.repair && findings.iter().any(|it| it.derived_of.is_some()) {
        let made = repair(&store, &sessions, &findings)?;
        let (_, left) = look(args, &store)?;
        compare(&mut findings, &made, left);
    }
    tell(args, &findings)?;
    if findings.iter().any(|it| !it.repaired) {
        return Err(CommandError::No);
    }
    if findings.is_empty() && !args.json {
        all_is_well(&store)?;
    }
    Ok(())
}

/// Returns the sessions, and all that is wrong.
fn look(
    args: &DoctorArgs,
    store: &OpenStore,
) -> Result<(Vec<SessionEntry>, Vec<Finding>), CommandError> {
    let mut findings = stored(store)?;
    // What the database itself cannot read, nobody can fold.
    let sessions = if findings.is_empty() || args.repair { store.sessions()? } else { Vec::new() };
    name_derived(&mut findings, &sessions);
    findings.extend(sessions.iter().filter_map(lost));
    if args.deep && findings.iter().all(|it| it.derived_of.is_some()) {
        derived(store, &sessions, &mut findings)?;
    }
    Ok((sessions, findings))
}

/// Returns what is wrong in the file itself.
fn stored(store: &OpenStore) -> Result<Vec<Finding>, CommandError> {
    let found = store.wait(store.file().check())?.into_iter();
    Ok(found
        .map(|it| Finding {
            place: it.place,
            what: it.what,
            advice: it.advice.to_owned(),
            repaired: false,
            derived_of: None,
        })
        .collect())
}

/// Notes which findings are about something that can be made again.
fn name_derived(findings: &mut [Finding], sessions: &[SessionEntry]) {
    for finding in findings {
        let is_of = |it: &SessionEntry| {
            finding.place.starts_with(&format!("session `{}`, snapshot", it.session))
        };
        finding.derived_of = sessions.iter().position(is_of);
    }
}

/// Returns what is missing at the end of a session that was known to have more.
fn lost(entry: &SessionEntry) -> Option<Finding> {
    lost_records(entry).map(|what| Finding {
        place: format!("session `{}`", entry.session),
        what,
        advice: "restore the store from a backup, or import the session's files again".to_owned(),
        repaired: false,
        derived_of: None,
    })
}

/// Adds what does not agree with the records that it was derived of.
fn derived(
    store: &OpenStore,
    sessions: &[SessionEntry],
    findings: &mut Vec<Finding>,
) -> Result<(), CommandError> {
    let mut progress = Progress::new(sessions.len());
    let shared = store.shared();
    for (index, entry) in sessions.iter().enumerate() {
        let wrong = store.wait(inspect(&*shared, entry, Some(elsewhere())))?;
        progress.step();
        findings.extend(wrong.into_iter().map(|what| Finding {
            place: format!("session `{}`", entry.session),
            what,
            advice: REBUILD.to_owned(),
            repaired: false,
            derived_of: Some(index),
        }));
    }
    progress.erase();
    Ok(())
}

/// Makes again what is derived and wrong, and returns of which sessions.
fn repair(
    store: &OpenStore,
    sessions: &[SessionEntry],
    findings: &[Finding],
) -> Result<Vec<usize>, CommandError> {
    let mut all_made = Vec::new();
    for (index, entry) in sessions.iter().enumerate() {
        // What tells of a loss is not made again without it.
        if findings.iter().any(|it| it.derived_of == Some(index)) && lost(entry).is_none() {
            match reindex(store, entry) {
                Err(error @ CommandError::Failed { .. }) => {
                    let session = &entry.session;
                    say(format_args!("session `{session}` cannot be made again: {error}"));
                    continue;
                }
                made => drop(made?),
            }
            all_made.push(index);
        }
    }
    Ok(all_made)
}

/// Holds what was wrong against what still is. Repaired is what was made again and is whole.
fn compare(findings: &mut Vec<Finding>, made: &[usize], left: Vec<Finding>) {
    for finding in findings.iter_mut() {
        let is_left = left.iter().any(|it| it.place == finding.place);
        let is_made = finding.derived_of.is_none_or(|session| made.contains(&session));
        finding.repaired = is_made && !is_left;
    }
    for finding in left {
        let is_told = |it: &Finding| it.place == finding.place && it.what == finding.what;
        if !findings.iter().any(is_told) {
            findings.push(finding);
        }
    }
}

fn tell(args: &DoctorArgs, findings: &[Finding]) -> Result<(), CommandError> {
    let mut out = io::stdout().lock();
    for finding in findings {
        if args.json {
            write_json(&mut out, finding)?;
            writeln!(out)?;
            continue;
        }
        let Finding { place, what, advice, repaired, .. } = finding;
        writeln!(out, "{}", printable(&format!("{place}: {what}")))?;
        match repaired {
            true => writeln!(out, "  repaired: it was made again from the records")?,
            false => writeln!(out, "  {}", printable(advice))?,
        }
    }
    let left = findings.iter().filter(|it| !it.repaired).count();
    if !findings.is_empty() {
        let wrong = count(findings.len(), "thing is", "things are");
        say(format_args!("{wrong} wrong, {} repaired", findings.len() - left));
    }
    Ok(())
}

fn all_is_well(store: &OpenStore) -> Result<(), CommandError> {
    let stored = store.wait(store.file().size())?;
    let number = |it: u64| usize::try_from(it).unwrap_or(usize::MAX);
    let mut out = io::stdout().lock();
    let sessions = count(number(stored.sessions), "session", "sessions");
    let records = count(number(stored.records), "record", "records");
    let (file, free) = (size(number(stored.file_bytes)), size(number(stored.free_bytes)));
    let place = store.path().display().to_string();
    writeln!(out, "all is well: {sessions}, {records}, {file}, {free} of it free")?;
    say(format_args!("looked at `{place}`"));
    Ok(())
}
