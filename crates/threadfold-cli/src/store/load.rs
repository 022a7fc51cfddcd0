//! Loads a session from the store.

use anyhow::anyhow;
use threadfold_engine::{load_within, noted_summary};
use threadfold_fold::{SessionSummary, Slices};
use threadfold_store::SessionEntry;

use super::{OpenStore, elsewhere};
use crate::error::CommandError;
use crate::sessions::LoadedSession;
use crate::view::{count, number};

/// Loads a session at its end, with open blocks closed, or at record `at`.
pub(crate) fn load_stored(
    store: &OpenStore,
    entry: &SessionEntry,
    at: Option<u64>,
) -> Result<LoadedSession, CommandError> {
    let head = entry.head.seq;
    if let Some(at) = at.filter(|at| *at > head) {
        let records = count(usize::try_from(head).unwrap_or(usize::MAX), "record", "records");
        return Err(CommandError::new(
            anyhow!(
                "session `{}` has {records}, and `--at` asks for {}",
                entry.session,
                number(at)
            ),
            format!("`--at {head}` is the session after all of them"),
        ));
    }
    let (shared, until) = (store.shared(), at.unwrap_or(u64::MAX));
    let loaded = store.wait(load_within(
        &shared,
        &entry.session,
        until,
        Slices::default(),
        Some(elsewhere()),
    ))?;
    let metadata = loaded.fold.metadata().clone();
    let parts = loaded.parts.clone();
    let state = match at {
        Some(_) => loaded.fold.conversation().clone(),
        None => loaded.fold.into_settled(),
    };
    Ok(LoadedSession { state, metadata, records: head, parts })
}

/// Returns a session's summary: the stored one if it is current, of the last record and of the
/// present converters; otherwise the session is folded.
pub(crate) fn summary_of(
    store: &OpenStore,
    entry: &SessionEntry,
) -> Result<SessionSummary, CommandError> {
    if let Some(noted) = noted_summary(entry) {
        return Ok(noted);
    }
    let shared = store.shared();
    let loaded = store.wait(load_within(
        &shared,
        &entry.session,
        u64::MAX,
        Slices::default(),
        Some(elsewhere()),
    ))?;
    Ok(loaded.fold.into_summary())
}

/// Returns an error if records are missing at the end of a session, according to its summary.
pub(crate) fn lost_records(entry: &SessionEntry) -> Option<String> {
    let (known, last) = (entry.summary.as_ref()?.seq, entry.head.seq);
    let gone = || format!("records {} to {known} are missing", last + 1);
    (known > last).then(gone)
}
