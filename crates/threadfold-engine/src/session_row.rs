//! A session as lists show it: from its summary in the store, or from a bounded part of its files.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;
use threadfold_core::TokenUsage;
use threadfold_fold::{Agent, Glance, SessionSummary, Slices, UnknownField};
use threadfold_store::{SessionEntry, Store};

use crate::agents::project_from_path;
use crate::error::EngineError;
use crate::found_session::FoundSession;
use crate::freshness::{Freshness, freshness, noted_summary};
use crate::host::ListedSession;
use crate::import_index::ImportIndex;
use crate::load::load_within;
use crate::spill_file::Budget;

/// Where a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RowLocation {
    /// In a file or a database of the agent.
    Disk,
    /// In the store.
    Store,
    /// In both.
    Both,
}

/// The fields of a session that lists show.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionRow {
    /// Its id.
    pub id: String,
    /// The agent's name.
    pub agent: Option<String>,
    /// Where it is.
    #[serde(rename = "where")]
    pub place: RowLocation,
    /// The disk has more than the store.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_newer: bool,
    /// The disk has less than the store.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub has_less: bool,
    /// The number of records in the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records: Option<u64>,
    /// The path of its main file.
    pub path: Option<String>,
    /// The folder that the agent worked in.
    pub project: String,
    /// The title that the agent or a person gave it.
    pub title: Option<String>,
    /// The first prompt, truncated.
    pub first_prompt: Option<String>,
    /// The earliest time of any event.
    pub started_at: Option<String>,
    /// The latest time of any event.
    pub ended_at: Option<String>,
    /// The number of blocks; `None` for a session that was not folded.
    pub blocks: Option<usize>,
    /// The number of subagents; `None` for a session that was not folded.
    pub subagents: Option<usize>,
    /// The number of the agent's own helpers, which `subagents` does not count.
    #[serde(skip_serializing_if = "is_zero")]
    pub internal: usize,
    /// The last model of the main conversation.
    pub model: Option<String>,
    /// The tokens of the whole session.
    pub usage: Option<TokenUsage>,
    /// The cost in US dollars, as the agent reports it.
    pub cost_usd: Option<f64>,
    /// The fields that are not known until the session is imported.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<&'static str>,
    /// The first command, if there is no prompt.
    #[serde(skip)]
    pub command: Option<String>,
    /// The latest time of any event; without one, when it was last written.
    #[serde(skip)]
    pub ended: Option<Timestamp>,
}

impl SessionRow {
    /// Returns the row of a session outside the store.
    fn of_found(found: &FoundSession, glance: Glance, place: RowLocation, home: &Path) -> Self {
        let written = || Timestamp::try_from(found.changed()?).ok();
        let row = Self::of(found.id.to_string(), glance, place);
        let named = || project_from_path(found.agent?, &found.place, home);
        Self {
            agent: found.agent.map(|it| it.name().to_owned()),
            path: Some(found.place.display().to_string()),
            project: match row.project.is_empty() {
                true => named().unwrap_or_else(|| found.project.clone()),
                false => row.project,
            },
            ended: row.ended.or_else(written),
            ..row
        }
    }

    /// Returns the row of a session that is only in the store.
    pub fn of_stored(entry: &SessionEntry, summary: SessionSummary, home: &Path) -> Self {
        let written = || Timestamp::from_millisecond(entry.updated.0).ok();
        let row = Self::of(entry.session.to_string(), summary.into(), RowLocation::Store);
        let agent = row.agent.as_deref().and_then(Agent::from_name);
        let path = row.path.as_deref().map(Path::new);
        let named = path.and_then(|path| project_from_path(agent?, path, home));
        Self {
            records: Some(entry.head.seq),
            project: match row.project.is_empty() {
                true => named.unwrap_or_default(),
                false => row.project,
            },
            ended: row.ended.or_else(written),
            ..row
        }
    }

    fn of(id: String, Glance { summary, unknown }: Glance, place: RowLocation) -> Self {
        let has_counts = !unknown.contains(&UnknownField::Counts);
        Self {
            id,
            agent: summary.agent,
            place,
            is_newer: false,
            has_less: false,
            records: None,
            path: summary.path,
            project: summary.cwd.unwrap_or_default(),
            title: summary.title,
            first_prompt: summary.first_prompt,
            command: summary.first_command,
            ended: summary.ended_at.as_deref().and_then(|it| it.parse().ok()),
            started_at: summary.started_at,
            ended_at: summary.ended_at,
            blocks: summary.blocks,
            subagents: summary.subagents,
            internal: summary.internal,
            model: summary.model,
            usage: has_counts.then_some(summary.usage),
            cost_usd: summary.cost_usd,
            unknown: unknown.iter().flat_map(|it| field_names(*it)).copied().collect(),
        }
    }

    /// Returns whether a field is unknown until the session is imported.
    pub fn is_unknown(&self, field: &str) -> bool {
        self.unknown.contains(&field)
    }
}

/// Returns the names of the fields that are unknown.
fn field_names(unknown: UnknownField) -> &'static [&'static str] {
    match unknown {
        UnknownField::Title => &["title"],
        UnknownField::FirstPrompt => &["firstPrompt"],
        UnknownField::Model => &["model"],
        UnknownField::StartedAt => &["startedAt"],
        UnknownField::EndedAt => &["endedAt"],
        UnknownField::Cost => &["costUsd"],
        UnknownField::Counts => &["blocks", "subagents", "usage"],
    }
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Reads the rows of sessions, at a bounded cost for each that is not in the store.
pub struct RowReader {
    /// The store, if there is one.
    pub store: Option<std::sync::Arc<dyn Store>>,
    /// What the stored sessions were read from; without it, sizes and times decide.
    pub index: Option<ImportIndex>,
    /// The memory budget, for sessions that must be folded.
    pub budget: Budget,
    /// The user's home folder, which names projects.
    pub home: PathBuf,
}

impl RowReader {
    /// Returns the row of a session.
    pub async fn read(&self, listed: &ListedSession) -> Result<SessionRow, EngineError> {
        // Two sessions may share the id that they were found under, but not the listed one.
        Ok(SessionRow { id: listed.id.to_string(), ..self.read_place(listed).await? })
    }

    async fn read_place(&self, listed: &ListedSession) -> Result<SessionRow, EngineError> {
        match (&listed.found, &listed.stored) {
            (Some(found), None) => {
                let glance = found.glance(self.budget.clone()).await?;
                Ok(SessionRow::of_found(found, glance, RowLocation::Disk, &self.home))
            }
            (Some(found), Some(entry)) => {
                let index = self.index.as_ref();
                let freshness = match index.is_some_and(|it| it.is_unchanged(found, entry)) {
                    true => Freshness::Same,
                    false => freshness(found, entry),
                };
                let glance = match noted_summary(entry) {
                    Some(noted) if matches!(freshness, Freshness::Same | Freshness::Less) => {
                        noted.into()
                    }
                    _ => found.glance(self.budget.clone()).await?,
                };
                let is_newer = freshness == Freshness::Newer;
                let has_less = freshness == Freshness::Less;
                let records = Some(entry.head.seq);
                let row = SessionRow::of_found(found, glance, RowLocation::Both, &self.home);
                Ok(SessionRow { is_newer, has_less, records, ..row })
            }
            (None, Some(entry)) => {
                let summary = self.summary(entry).await?;
                Ok(SessionRow::of_stored(entry, summary, &self.home))
            }
            (None, None) => {
                let id = listed.id.to_string();
                Ok(SessionRow::of(id, Glance::default(), RowLocation::Disk))
            }
        }
    }

    /// Returns a stored session's summary: the noted one if it is current; otherwise the session is
    /// folded.
    async fn summary(&self, entry: &SessionEntry) -> Result<SessionSummary, EngineError> {
        let Some(store) = &self.store else { return Ok(SessionSummary::default()) };
        if let Some(noted) = noted_summary(entry) {
            return Ok(noted);
        }
        let (id, budget) = (&entry.session, Some(self.budget.clone()));
        Ok(load_within(store, id, u64::MAX, Slices::default(), budget).await?.fold.into_summary())
    }
}
