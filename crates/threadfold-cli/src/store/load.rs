//! Reading a session out of the store.

use anyhow::anyhow;
use threadfold_engine::{load, noted_summary};
use threadfold_fold::{SessionSummary, Slices};
use threadfold_store::SessionEntry;

use super::OpenStore;
use crate::error::CommandError;
use crate::sessions::SessionContent;
use crate::view::{count, number};

/// Reads a session as it is, what was left open closed; or as it was at record `at`.
pub(crate) fn load_stored(
    store: &OpenStore,
    entry: &SessionEntry,
    at: Option<u64>,
) -> Result<SessionContent, CommandError> {
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
    let loaded = store.wait(load(&*shared, &entry.session, until, Slices::default()))?;
    let state = match at {
        Some(_) => loaded.fold.conversation().clone(),
        None => loaded.fold.settled(),
    };
    Ok(SessionContent { state, metadata: loaded.fold.metadata().clone(), records: head })
}

/// Returns what lists show of a session: as it was noted, if that is of the last record and of
/// the present converters; else it is read.
pub(crate) fn summary_of(
    store: &OpenStore,
    entry: &SessionEntry,
) -> Result<SessionSummary, CommandError> {
    if let Some(noted) = noted_summary(entry) {
        return Ok(noted);
    }
    let shared = store.shared();
    let loaded = store.wait(load(&*shared, &entry.session, u64::MAX, Slices::default()))?;
    Ok(loaded.fold.summary())
}

/// Tells which records are gone from the end of a session that was known to have more.
pub(crate) fn lost_records(entry: &SessionEntry) -> Option<String> {
    let (known, last) = (entry.summary.as_ref()?.seq, entry.head.seq);
    let gone = || format!("records {} to {known} were there once, and are gone", last + 1);
    (known > last).then(gone)
}
