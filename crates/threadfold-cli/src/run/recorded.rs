//! What a session records about its run, and what of it may be believed.

use std::ops::ControlFlow;
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use clap::Args;
use threadfold_core::{Payload, SessionEvent, SessionId};
use threadfold_fold::{RecordKind, StoredRecord};
use threadfold_loop::{LedgerCheck, MarkKey};
use threadfold_store::{Limit, Store};

use super::RunSetup;
use crate::error::CommandError;
use crate::store::data_folder;

/// The key that authenticates runs.
#[derive(Args, Clone)]
pub(crate) struct MarkArgs {
    /// The key that authenticates runs, to share them between machines; default: `run-key` in the
    /// data folder. It is created on first use
    #[arg(long, value_name = "FILE")]
    run_key_file: Option<PathBuf>,
}

impl MarkArgs {
    /// Reads the key, and creates it if there is none.
    pub(crate) fn key(&self) -> Result<MarkKey, CommandError> {
        let path = self.run_key_file.clone();
        let path = path.or_else(|| Some(data_folder()?.join("run-key"))).ok_or_else(|| {
            CommandError::new(
                anyhow!("there is no home folder for the key of runs"),
                "choose a file for it with `--run-key-file`",
            )
        })?;
        MarkKey::open_or_create(&path)
            .with_context(|| format!("the key of runs in `{}` cannot be used", path.display()))
            .map_err(|error| {
                CommandError::new(
                    error,
                    "`chmod 600` it, or choose another file with `--run-key-file`",
                )
            })
    }
}

/// The setups of a session's run.
#[derive(Default)]
pub(crate) struct RecordedRun {
    /// The last one that a run with the user's key recorded.
    marked: Option<RunSetup>,
    /// The last one that any record reports.
    reported: Option<RunSetup>,
    /// Why the ledger is not one that a run with this key wrote.
    fault: Option<String>,
}

impl RecordedRun {
    /// Reads the log of a session.
    pub(super) async fn read(
        store: &dyn Store,
        session: &SessionId,
        key: &MarkKey,
    ) -> Result<Self, CommandError> {
        let Some(head) = store.head(session).await? else { return Ok(Self::default()) };
        let mut check = LedgerCheck::new(key.clone(), session.clone(), head.log);
        let mut run = Self::default();
        read_records(store, session, |record| {
            let is_marked = check.push(record);
            if let Some(setup) = setup_in(record) {
                if is_marked {
                    run.marked = Some(setup.clone());
                }
                run.reported = Some(setup);
            }
            ControlFlow::Continue(())
        })
        .await?;
        run.fault = check.fault().map(str::to_owned);
        Ok(run)
    }

    /// Returns the setup, if a run with the user's key recorded it and the whole ledger.
    pub(crate) fn own(&self) -> Option<&RunSetup> {
        self.marked.as_ref().filter(|_| self.fault.is_none())
    }

    /// Returns the setup that the records report, whoever wrote them.
    pub(crate) fn reported(&self) -> Option<&RunSetup> {
        self.reported.as_ref()
    }

    /// Returns why the run is not the user's own.
    pub(crate) fn fault(&self) -> &str {
        self.fault.as_deref().unwrap_or("no run with your key recorded what it may use")
    }
}

/// Returns whether any record of a session reports what its run may use. A run of another program
/// reports nothing, and only that program can resume it.
pub(super) async fn has_setup(
    store: &dyn Store,
    session: &SessionId,
) -> Result<bool, CommandError> {
    let mut has_setup = false;
    read_records(store, session, |record| match setup_in(record) {
        Some(_) => {
            has_setup = true;
            ControlFlow::Break(())
        }
        None => ControlFlow::Continue(()),
    })
    .await?;
    Ok(has_setup)
}

/// Reads the log of a session until `read` breaks.
async fn read_records(
    store: &dyn Store,
    session: &SessionId,
    mut read: impl FnMut(&StoredRecord) -> ControlFlow<()>,
) -> Result<(), CommandError> {
    let mut after = 0;
    loop {
        let records = store.read(session, after, Limit::default()).await?;
        let Some(end) = records.last() else { return Ok(()) };
        after = end.seq;
        if records.iter().any(|record| read(record).is_break()) {
            return Ok(());
        }
    }
}

/// Returns the setup that a record reports.
fn setup_in(record: &StoredRecord) -> Option<RunSetup> {
    let bytes = match record.kind {
        RecordKind::Loop => record.content_and_mark().0,
        // What a follower observed is about the agent's server or its files, and never about a run.
        RecordKind::Observation => return None,
        _ => &record.bytes,
    };
    let text = std::str::from_utf8(bytes).ok()?;
    // A cheap text search, because most records are other events and need not be parsed.
    if !text.contains("options:update") {
        return None;
    }
    match SessionEvent::from_json(text).ok()?.payload {
        Payload::OptionsUpdate(update) => RunSetup::from_event(&update),
        _ => None,
    }
}
