//! `threadfold runs`: lists unfinished runs and what each is waiting for.

use std::io::{self, Write};

use clap::Args;
use serde_json::json;
use threadfold_engine::is_gone;

use crate::error::{CommandError, print_note};
use crate::printable::{printable, write_json};
use crate::run::{self, UnfinishedRun};
use crate::store::StoreArgs;

/// List unfinished runs and what each is waiting for
#[derive(Args)]
pub(crate) struct RunsArgs {
    /// Print one line of JSON per run
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

pub(crate) fn run(args: &RunsArgs) -> Result<(), CommandError> {
    let store = args.store.open_to_read()?;
    let runs = run::unfinished_runs(&store)?;
    let mut out = io::stdout().lock();
    for run in &runs {
        let session = run.entry.session.as_str();
        let runner = runner(run);
        if args.json {
            let line = json!({
                "session": session,
                "turn": run.turn,
                "waitsFor": run.waits_for,
                "runBy": runner,
                "isImported": run.is_imported,
                "isResumable": run.is_resumable,
            });
            write_json(&mut out, &line)?;
            writeln!(out)?;
            continue;
        }
        writeln!(out, "{}", printable(session))?;
        match runner {
            Some(runner) => writeln!(out, "  run by {}", printable(&runner))?,
            None => writeln!(out, "  {}", printable(&run.waits_for))?,
        }
        match (run.is_resumable, run.is_imported) {
            (true, true) => writeln!(out, "  untrusted: only `resume --trust` continues it")?,
            (true, false) => {}
            // No record tells the tools, the folder and the model.
            (false, _) => writeln!(out, "  only the program that started it can resume it")?,
        }
    }
    if runs.is_empty() {
        print_note("every run is finished");
        return Err(CommandError::No);
    }
    Ok(())
}

/// Returns the process that currently runs it.
fn runner(run: &UnfinishedRun) -> Option<String> {
    let lease = run.entry.lease.as_ref()?;
    (!lease.is_expired() && !is_gone(&lease.holder)).then(|| lease.holder.to_string())
}
