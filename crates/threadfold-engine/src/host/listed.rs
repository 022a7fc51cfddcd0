//! Lists a host's sessions: stored, on disk, and live.

use std::collections::BTreeMap;

use threadfold_core::SessionId;
use threadfold_store::SessionEntry;

use super::Host;
use crate::discover::Discovery;
use crate::error::EngineError;
use crate::found_session::{FoundSession, IdOrigin};
use crate::naming::{agent_of, numbered};

/// The filter and page of a list.
#[derive(Clone, Debug, Default)]
pub struct SessionQuery {
    /// Only sessions whose id has this prefix.
    pub prefix: String,
    /// Only sessions of the agent with this name.
    pub agent: Option<String>,
    /// Only sessions after this id, the last one of the previous page.
    pub after: Option<SessionId>,
    /// The maximum number; all if absent.
    pub limit: Option<usize>,
}

/// A session in a list.
#[derive(Clone)]
pub struct ListedSession {
    /// Its id.
    pub id: SessionId,
    /// Its entry in the store.
    pub stored: Option<SessionEntry>,
    /// Its location on this machine, outside the store.
    pub found: Option<FoundSession>,
    /// This host is writing it, or has listeners for it.
    pub is_live: bool,
}

/// One page of sessions.
#[derive(Default)]
pub struct SessionListPage {
    /// The sessions, ordered by id.
    pub sessions: Vec<ListedSession>,
    /// The `after` of the next page; `None` at the end.
    pub next: Option<SessionId>,
}

impl Host {
    /// Lists sessions: those of the store, merged with those discovered on this machine.
    ///
    /// Two agents may use the same id. A discovered session is listed as it would be imported:
    /// under an id of its own.
    pub async fn list(
        &self,
        query: &SessionQuery,
        found: &Discovery,
    ) -> Result<SessionListPage, EngineError> {
        let mut all: BTreeMap<String, ListedSession> = BTreeMap::new();
        for stored in self.store().list_all(&query.prefix).await? {
            let id = stored.session.clone();
            let is_live = self.live().get(&id).is_some_and(|it| !it.is_ended());
            let listed = ListedSession { id, stored: Some(stored), found: None, is_live };
            all.insert(listed.id.to_string(), listed);
        }
        let has_prefix = |it: &&FoundSession| it.id.as_str().starts_with(&query.prefix);
        for found in found.sessions.iter().filter(has_prefix) {
            let mut ids = (1..).map(|number| numbered(&found.id, number));
            let is_free = |id: &SessionId| all.get(id.as_str()).is_none_or(|it| it.matches(found));
            let Some(id) = ids.find(is_free) else { continue };
            let unlisted =
                || ListedSession { id: id.clone(), stored: None, found: None, is_live: false };
            let listed = all.entry(id.to_string()).or_insert_with(unlisted);
            // Exported children share the id of their parent, and come after it.
            listed.found.get_or_insert_with(|| found.clone());
        }
        let is_wanted = |it: &ListedSession| {
            let is_after = |after: &SessionId| it.id.as_str() > after.as_str();
            query.after.as_ref().is_none_or(is_after)
                && query.agent.as_ref().is_none_or(|agent| it.agent().as_ref() == Some(agent))
        };
        let limit = query.limit.unwrap_or(usize::MAX);
        let mut sessions: Vec<ListedSession> = all.into_values().filter(is_wanted).collect();
        let has_more = sessions.len() > limit;
        sessions.truncate(limit);
        let next = sessions.last().filter(|_| has_more).map(|it| it.id.clone());
        Ok(SessionListPage { sessions, next })
    }
}

impl ListedSession {
    /// Returns the agent's name; while a session is being written, the store may not have it
    /// yet.
    fn agent(&self) -> Option<String> {
        let stored = self.stored.as_ref().and_then(agent_of);
        let found = || self.found.as_ref()?.agent.map(|it| it.name().to_owned());
        stored.or_else(found)
    }

    /// Returns whether a discovered session is this one.
    fn matches(&self, found: &FoundSession) -> bool {
        let is_other =
            |it: &FoundSession| it.naming == IdOrigin::Content && it.place != found.place;
        if self.found.as_ref().is_some_and(is_other) {
            return false;
        }
        match (self.agent(), found.agent) {
            (Some(own), Some(agent)) => own == agent.name(),
            _ => true,
        }
    }
}
