//! `threadfold reindex`: rebuilds sessions' derived data from their records.

use std::io::{self, Write};

use anyhow::anyhow;
use clap::Args;
use serde::Serialize;
use threadfold_engine::ReindexReport;
use threadfold_store::SessionEntry;

use crate::error::{CommandError, print_note};
use crate::printable::{printable, write_json};
use crate::progress::Progress;
use crate::store::{OpenStore, StoreArgs};
use crate::view::count;

/// How many records lie between two snapshots.
pub(crate) const SNAPSHOT_EVERY: u64 = 16_384;

/// Rebuild snapshots and summaries with the current converters
///
/// Records and their numbers never change. Reports the sessions whose state differs from the one
/// at import.
#[derive(Args)]
pub(crate) struct ReindexArgs {
    /// Sessions to rebuild: ids or prefixes; default: all
    #[arg(value_name = "SESSION")]
    sessions: Vec<String>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// The output of `--json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    id: &'a str,
    records: u64,
    snapshots: u64,
    /// `None` if there was no earlier state.
    changed: Option<bool>,
    hash_before: Option<&'a str>,
    hash_after: Option<&'a str>,
    blocks_before: Option<usize>,
    blocks_after: Option<usize>,
}

pub(crate) fn run(args: &ReindexArgs) -> Result<(), CommandError> {
    let store = args.store.open()?;
    let entries = store.find_all(&args.sessions)?;
    let mut progress = Progress::new(entries.len());
    let mut failed = 0;
    for entry in &entries {
        let made = reindex(&store, entry);
        progress.step();
        progress.erase();
        match made {
            Err(CommandError::Failed { error, .. }) => {
                print_note(format_args!("session `{}`: {error:#}", entry.session));
                failed += 1;
            }
            made => print_result(args, entry, &made?)?,
        }
    }
    match failed {
        0 => Ok(()),
        _ => Err(CommandError::new(
            anyhow!("{failed} of {} sessions could not be rebuilt", entries.len()),
            "the others were; `threadfold doctor` reports what is corrupt",
        )),
    }
}

/// Rebuilds the derived data of a session.
pub(crate) fn reindex(
    store: &OpenStore,
    entry: &SessionEntry,
) -> Result<ReindexReport, CommandError> {
    let shared = store.shared();
    let budget = Some(store.budget());
    Ok(store.wait(threadfold_engine::reindex(&*shared, entry, SNAPSHOT_EVERY, budget))?)
}

fn print_result(
    args: &ReindexArgs,
    entry: &SessionEntry,
    made: &ReindexReport,
) -> Result<(), CommandError> {
    let mut out = io::stdout().lock();
    let before = made.before.as_ref();
    let changed = made.is_changed();
    let blocks_before = before.and_then(|it| it.blocks);
    if args.json {
        let line = Line {
            id: entry.session.as_str(),
            records: made.after.seq,
            snapshots: made.snapshots,
            changed,
            hash_before: before.and_then(|it| it.state_hash.as_deref()),
            hash_after: made.after.state_hash.as_deref(),
            blocks_before,
            blocks_after: made.after.blocks,
        };
        write_json(&mut out, &line)?;
        return Ok(writeln!(out)?);
    }
    let records = usize::try_from(made.after.seq).unwrap_or(usize::MAX);
    let records = count(records, "record", "records");
    let blocks = |it: Option<usize>| {
        it.map_or("an unknown number of blocks".to_owned(), |it| count(it, "block", "blocks"))
    };
    let after = blocks(made.after.blocks);
    let result = match changed {
        Some(true) => {
            format!("changed: {records}, {} before, {after} now", blocks(blocks_before))
        }
        Some(false) => format!("same: {records}, {after}"),
        None => format!("built: {records}, {after}"),
    };
    writeln!(out, "{}", printable(&format!("{}  {result}", entry.session)))?;
    Ok(())
}
