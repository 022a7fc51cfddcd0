//! The list of all sessions, in memory: one row each, which is all that a session costs while nobody
//! watches or writes it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use threadfold_core::SessionId;
use threadfold_engine::SessionRow;
use tokio::sync::watch;

use crate::summary_feed::SummaryFeed;

/// The rows of all sessions.
pub struct Catalog {
    rows: Mutex<Rows>,
    pub(crate) feed: Arc<SummaryFeed>,
    is_complete: watch::Sender<bool>,
}

#[derive(Default)]
struct Rows {
    rows: BTreeMap<String, CatalogRow>,
    /// The ids by time, the newest last.
    by_time: BTreeSet<(i64, String)>,
}

/// A session in the list.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CatalogRow {
    /// Its fields.
    #[serde(flatten)]
    pub session: SessionRow,
    /// It is being written now.
    pub is_live: bool,
    /// The agent is answering, as its stream reports; a transcript does not report it.
    pub is_working: bool,
    /// How many questions wait for a person.
    pub waiting: usize,
}

/// The filter and the page of a list.
#[derive(Clone, Debug, Default)]
pub struct CatalogQuery {
    /// Only sessions of this agent.
    pub agent: Option<String>,
    /// Only sessions whose project contains this.
    pub project: Option<String>,
    /// Only sessions that are live, or that are not.
    pub is_live: Option<bool>,
    /// Only sessions with this in their title or first prompt, in any case.
    pub text: Option<String>,
    /// The `next` of the page before.
    pub after: Option<String>,
    /// How many at most.
    pub limit: usize,
}

/// A page of the list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CatalogPage {
    /// The sessions, the last changed first.
    pub sessions: Vec<CatalogRow>,
    /// The cursor of the next page; nothing at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// How many sessions there are in all, without the filter.
    pub total: usize,
    /// All sessions of this machine were looked for.
    pub is_complete: bool,
}

impl Catalog {
    /// Returns an empty list.
    pub fn new() -> Arc<Self> {
        let (rows, feed) = (Mutex::default(), Arc::new(SummaryFeed::new()));
        Arc::new(Self { rows, feed, is_complete: watch::Sender::new(false) })
    }

    /// Adds or replaces rows, and publishes those that changed.
    pub fn update(&self, new: impl IntoIterator<Item = CatalogRow>) {
        let mut rows = self.rows();
        let mut changed = Vec::new();
        for row in new {
            let id = row.session.id.clone();
            let time = time_of(&row);
            match rows.rows.get(&id) {
                Some(known) if *known == row => continue,
                Some(known) => {
                    let known = (time_of(known), id.clone());
                    rows.by_time.remove(&known);
                }
                None => {}
            }
            rows.by_time.insert((time, id.clone()));
            changed.push(row.clone());
            rows.rows.insert(id, row);
        }
        // Published under the lock, so that the order of the frames is that of the changes.
        self.feed.publish(&changed);
    }

    /// Removes a session, and publishes that.
    pub fn remove(&self, id: &SessionId) {
        let mut rows = self.rows();
        if let Some(row) = rows.rows.remove(id.as_str()) {
            let known = (time_of(&row), row.session.id.clone());
            rows.by_time.remove(&known);
            self.feed.publish_removed(id.as_str());
        }
    }

    /// Returns the sessions that are marked as being written.
    pub fn live(&self) -> Vec<CatalogRow> {
        self.rows().rows.values().filter(|it| it.is_live).cloned().collect()
    }

    /// Returns the row of a session.
    pub fn row(&self, id: &SessionId) -> Option<CatalogRow> {
        self.rows().rows.get(id.as_str()).cloned()
    }

    /// Returns the ids of all sessions.
    pub fn ids(&self) -> Vec<String> {
        self.rows().rows.keys().cloned().collect()
    }

    /// Returns how many sessions there are.
    pub fn len(&self) -> usize {
        self.rows().rows.len()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Notes that all sessions were looked for.
    pub fn set_complete(&self) {
        self.is_complete.send_replace(true);
    }

    /// Waits until all sessions were looked for.
    pub async fn complete(&self) {
        let mut complete = self.is_complete.subscribe();
        // The sender is this list itself, so it cannot be gone.
        complete.wait_for(|it| *it).await.ok();
    }

    /// Returns a page of the sessions, the last changed first.
    pub fn list(&self, query: &CatalogQuery) -> CatalogPage {
        let rows = self.rows();
        let after = query.after.as_deref().and_then(parse_place);
        let text = query.text.as_ref().map(|it| it.to_lowercase());
        let is_wanted = |row: &CatalogRow| {
            let session = &row.session;
            let has = |field: &Option<String>, text: &str| {
                field.as_ref().is_some_and(|it| it.to_lowercase().contains(text))
            };
            query.agent.as_ref().is_none_or(|it| session.agent.as_ref() == Some(it))
                && query.project.as_ref().is_none_or(|it| session.project.contains(it.as_str()))
                && query.is_live.is_none_or(|it| row.is_live == it)
                && text.as_ref().is_none_or(|text| {
                    has(&session.title, text) || has(&session.first_prompt, text)
                })
        };
        let mut sessions = Vec::new();
        let mut next = None;
        let places = rows.by_time.iter().rev();
        let places = places.skip_while(|place| after.as_ref().is_some_and(|after| *place >= after));
        for place in places {
            let Some(row) = rows.rows.get(&place.1).filter(|it| is_wanted(it)) else { continue };
            if sessions.len() == query.limit {
                next = sessions.last().map(|last: &CatalogRow| place_of(last));
                break;
            }
            sessions.push(row.clone());
        }
        let (total, is_complete) = (rows.rows.len(), *self.is_complete.borrow());
        CatalogPage { sessions, next, total, is_complete }
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn time_of(row: &CatalogRow) -> i64 {
    row.session.ended.map_or(0, |it| it.as_millisecond())
}

/// Returns the place of a row in the list, as a cursor.
fn place_of(row: &CatalogRow) -> String {
    format!("{}.{}", time_of(row), row.session.id)
}

fn parse_place(cursor: &str) -> Option<(i64, String)> {
    let (time, id) = cursor.split_once('.')?;
    Some((time.parse().ok()?, id.to_owned()))
}
