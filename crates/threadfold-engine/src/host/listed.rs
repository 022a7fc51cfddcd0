//! Which sessions a host knows: stored, on this machine's disk, and live.

use std::collections::BTreeMap;

use threadfold_core::SessionId;
use threadfold_store::SessionEntry;

use super::Host;
use crate::discover::Discovery;
use crate::error::EngineError;
use crate::found::FoundSession;

/// What is asked of a list.
#[derive(Clone, Debug, Default)]
pub struct SessionQuery {
    /// Only sessions whose id begins so.
    pub prefix: String,
    /// Only sessions of the agent of this name.
    pub agent: Option<String>,
    /// Only sessions after this id, the last one of the page before.
    pub after: Option<SessionId>,
    /// At most so many; all if this is absent.
    pub limit: Option<usize>,
}

/// A session that is listed.
#[derive(Clone)]
pub struct ListedSession {
    /// Its id.
    pub id: SessionId,
    /// What the store has of it.
    pub stored: Option<SessionEntry>,
    /// Where it is on this machine, outside of the store.
    pub found: Option<FoundSession>,
    /// This host writes it, or somebody listens to it here.
    pub is_live: bool,
}

/// Some sessions, and where the next page begins.
#[derive(Default)]
pub struct SessionListPage {
    /// The sessions, in the order of their ids.
    pub sessions: Vec<ListedSession>,
    /// What to ask for as `after`; nothing at the end.
    pub next: Option<SessionId>,
}

impl Host {
    /// Lists sessions: those of the store, united with those that were found on this machine.
    pub async fn list(
        &self,
        query: &SessionQuery,
        found: &Discovery,
    ) -> Result<SessionListPage, EngineError> {
        let is_wanted = |id: &SessionId| {
            id.as_str().starts_with(&query.prefix)
                && query.after.as_ref().is_none_or(|after| id.as_str() > after.as_str())
        };
        let is_of_agent = |it: &FoundSession| match (&query.agent, it.agent) {
            (None, _) => true,
            (Some(wanted), agent) => agent.is_some_and(|agent| agent.name() == wanted),
        };
        let mut all: BTreeMap<String, ListedSession> = BTreeMap::new();
        for stored in self.stored(query).await?.into_iter().filter(|it| is_wanted(&it.session)) {
            let id = stored.session.clone();
            let is_live = self.live().get(&id).is_some_and(|it| !it.is_ended());
            let listed = ListedSession { id, stored: Some(stored), found: None, is_live };
            all.insert(listed.id.to_string(), listed);
        }
        for found in found.sessions.iter().filter(|it| is_wanted(&it.id) && is_of_agent(it)) {
            match all.get_mut(found.id.as_str()) {
                Some(listed) => listed.found = Some(found.clone()),
                None => {
                    let (id, found) = (found.id.clone(), Some(found.clone()));
                    let key = id.to_string();
                    all.insert(key, ListedSession { id, stored: None, found, is_live: false });
                }
            }
        }
        let limit = query.limit.unwrap_or(usize::MAX);
        let mut sessions: Vec<ListedSession> = all.into_values().collect();
        let has_more = sessions.len() > limit;
        sessions.truncate(limit);
        let next = sessions.last().filter(|_| has_more).map(|it| it.id.clone());
        Ok(SessionListPage { sessions, next })
    }

    async fn stored(&self, query: &SessionQuery) -> Result<Vec<SessionEntry>, EngineError> {
        let mut entries = self.store().list_all(&query.prefix).await?;
        if let Some(agent) = &query.agent {
            entries.retain(|it| crate::naming::agent_of(it).as_ref() == Some(agent));
        }
        Ok(entries)
    }
}
