//! Keeps the list of sessions as the store has them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use threadfold_core::SessionId;
use threadfold_engine::{RowLocation, SessionRow, Writers, noted_summary};
use threadfold_fold::{Items, QueryState, QueryStatus, SessionSummary, with_causes};
use threadfold_store::{ChangePosition, SessionEntry};

use crate::catalog::{Catalog, CatalogRow};

/// How long to wait at least between two reads of the store's list.
const INTERVAL: Duration = Duration::from_millis(500);

/// What the agent of a session does, as far as a writer of this process knows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Activity {
    is_working: bool,
    waiting: usize,
}

impl Activity {
    /// Reads the activity of a session, of which `known` is the row so far.
    pub(crate) async fn of(writers: &Writers, id: &SessionId, known: Option<&CatalogRow>) -> Self {
        let Some(open) = writers.opened(id).await else {
            // An agent that waits for a person writes nothing, so its session is closed meanwhile.
            return Self { is_working: false, waiting: known.map_or(0, |it| it.waiting) };
        };
        let query = open.fold().items::<QueryState>().ok().and_then(Items::latest);
        query.map_or_else(Self::default, |it| Self {
            is_working: it.status == QueryStatus::Running,
            waiting: it.waiting.len(),
        })
    }

    pub(crate) fn row(self, session: SessionRow, is_live: bool) -> CatalogRow {
        let Self { is_working, waiting } = self;
        CatalogRow { session, is_live, is_working, waiting }
    }
}

/// Updates the list whenever a session of the store changes, while `is_wanted`. `listed` is called
/// after each time.
pub async fn follow_store(
    catalog: Arc<Catalog>,
    writers: Writers,
    is_wanted: impl Fn() -> bool + Send + 'static,
    listed: impl Fn() + Send + 'static,
) {
    let store = writers.host().store().clone();
    let mut position = ChangePosition::default();
    while is_wanted() {
        match tokio::time::timeout(Duration::from_secs(5), store.sessions_changed(&position)).await
        {
            Ok(Ok(changed)) => position = changed,
            Ok(Err(error)) => {
                tracing::warn!("the store does not report changes: {}", with_causes(&error));
                tokio::time::sleep(Duration::from_secs(5)).await;
                continue;
            }
            Err(_) => {
                unmark_closed(&catalog, &writers).await;
                continue;
            }
        }
        match store.list_all("").await {
            Ok(entries) => {
                let rows: Vec<CatalogRow> = stored_rows(&catalog, &writers, &entries).await;
                let known = entries.iter().map(|it| it.session.to_string()).collect();
                remove_gone(&catalog, &known);
                catalog.update(rows);
                listed();
            }
            Err(error) => tracing::warn!("the store cannot be listed: {}", with_causes(&error)),
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Unmarks the sessions that nobody writes any more: that changes no record, so no change of the
/// store reports it.
async fn unmark_closed(catalog: &Catalog, writers: &Writers) {
    let mut closed = Vec::new();
    for row in catalog.live() {
        let id = SessionId::from(row.session.id.as_str());
        let entry = writers.host().store().entry(&id).await;
        let is_leased = |it: &SessionEntry| it.lease.as_ref().is_some_and(|it| !it.is_expired());
        if !writers.is_open(&id) && entry.is_ok_and(|it| !it.as_ref().is_some_and(is_leased)) {
            closed.push(CatalogRow { is_live: false, is_working: false, ..row });
        }
    }
    catalog.update(closed);
}

/// Removes the sessions that are only in the store, and were removed from it.
fn remove_gone(catalog: &Catalog, stored: &std::collections::BTreeSet<String>) {
    for id in catalog.ids().into_iter().filter(|id| !stored.contains(id)) {
        let id = SessionId::from(id.as_str());
        if catalog.row(&id).is_some_and(|it| it.session.place == RowLocation::Store) {
            catalog.remove(&id);
        }
    }
}

/// Returns the rows of stored sessions that may have changed.
pub async fn stored_rows(
    catalog: &Catalog,
    writers: &Writers,
    entries: &[SessionEntry],
) -> Vec<CatalogRow> {
    let mut rows = Vec::new();
    for entry in entries {
        let known = catalog.row(&entry.session);
        let is_live = writers.is_open(&entry.session)
            || entry.lease.as_ref().is_some_and(|it| !it.is_expired());
        let is_known = known
            .as_ref()
            .is_some_and(|it| it.is_live == is_live && it.session.records == Some(entry.head.seq));
        // A row that is known at this record has nothing new, unless its summary came later.
        if is_known && known.as_ref().is_some_and(|it| it.session.blocks.is_some()) {
            continue;
        }
        let activity = Activity::of(writers, &entry.session, known.as_ref()).await;
        let summary = match noted_summary(entry) {
            Some(noted) => Some(noted),
            // Only a writer of this process knows more than the noted summary.
            None => writers.opened(&entry.session).await.map(|open| open.fold().summary()),
        };
        let row = match (summary, known) {
            (Some(summary), known) => {
                let row = SessionRow::of_stored(entry, summary, &PathBuf::new());
                let project = known.as_ref().map(|it| it.session.project.clone());
                let project = project.filter(|_| row.project.is_empty());
                let place = known.as_ref().map_or(row.place, |it| match it.session.place {
                    RowLocation::Disk | RowLocation::Both => RowLocation::Both,
                    RowLocation::Store => RowLocation::Store,
                });
                let path = row.path.clone().or_else(|| known.and_then(|it| it.session.path));
                SessionRow { project: project.unwrap_or(row.project.clone()), place, path, ..row }
            }
            (None, Some(known)) => SessionRow { records: Some(entry.head.seq), ..known.session },
            (None, None) => {
                let row = SessionRow::of_stored(entry, SessionSummary::default(), &PathBuf::new());
                SessionRow {
                    unknown: vec![
                        "title",
                        "firstPrompt",
                        "model",
                        "blocks",
                        "subagents",
                        "usage",
                        "costUsd",
                    ],
                    usage: None,
                    ..row
                }
            }
        };
        rows.push(activity.row(row, is_live));
    }
    rows
}
