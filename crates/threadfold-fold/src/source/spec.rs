//! Declarations of sources: role, name and identity within a session.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use threadfold_convert::{Agent, Feed, FeedKind};
use threadfold_core::{AgentId, Json};

/// The declaration of a source in its session's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceSpec {
    /// The name of its agent; none for Threadfold's own events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Its role.
    pub kind: SourceRole,
    /// The subagent that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// Its name within the session, which does not depend on where the session is stored.
    pub name: String,
    /// The path that it was read from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The number of the part, from 1: a rewritten file starts a new part.
    pub part: u32,
}

/// The role of a source in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SourceRole {
    /// An agent's live stream.
    Stream,
    /// The session's main file.
    Main,
    /// The file of a subagent.
    Subagent,
    /// The metadata file of a subagent.
    SubagentMeta,
    /// Rows of an agent's database, as text.
    Rows,
    /// Threadfold's own events.
    Events,
    /// A file that is stored with the session and not converted.
    Attached,
}

impl SourceSpec {
    /// Returns the first part of a source of an agent.
    pub fn new(agent: Agent, kind: SourceRole, name: impl Into<String>) -> Self {
        let agent = Some(agent.name().to_owned());
        Self { agent, kind, agent_id: None, name: name.into(), path: None, part: 1 }
    }

    /// Returns the first part of a source of Threadfold's own events.
    pub fn of_events(name: impl Into<String>) -> Self {
        let (agent, kind) = (None, SourceRole::Events);
        Self { agent, kind, agent_id: None, name: name.into(), path: None, part: 1 }
    }

    /// Returns the declaration as a log stores it.
    pub fn to_json(&self) -> Bytes {
        Bytes::from(Json::of(self).as_str().to_owned())
    }

    /// Returns the source as one of a subagent.
    pub fn of_subagent(mut self, agent: AgentId) -> Self {
        self.agent_id = Some(agent);
        self
    }

    /// Returns the source with the path that it is read from.
    pub fn at(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Returns whether `other` is the same source, in any part and at any path.
    pub fn is_same_source(&self, other: &Self) -> bool {
        (&self.agent, self.kind, &self.agent_id, &self.name)
            == (&other.agent, other.kind, &other.agent_id, &other.name)
    }

    /// Returns what a file and its copies at other paths have in common.
    pub(crate) fn file_key(&self) -> SourceKey {
        // Somebody may have renamed a copy of a session's only file.
        let name = if self.is_only_file() { "" } else { self.plain_name() };
        (self.agent.clone(), self.kind as u8, self.agent_id.clone(), name.to_owned())
    }

    /// Returns whether this is the only main file of a session.
    fn is_only_file(&self) -> bool {
        self.kind == SourceRole::Main && self.known_agent().is_some_and(Agent::has_one_main_file)
    }

    /// Returns the name without the folder that distinguishes a copy.
    fn plain_name(&self) -> &str {
        match self.name.split_once('/') {
            Some((folder, name)) if is_copy_folder(folder) => name,
            _ => &self.name,
        }
    }

    /// Returns the source under a unique name, because the session has another file of this name.
    #[must_use]
    pub fn as_copy(&self, number: u32) -> Self {
        let path = self.path.as_deref().unwrap_or_default();
        let hash = blake3::hash(format!("{number}:{path}").as_bytes());
        let name = format!("{COPY}{}/{}", &hash.to_hex()[..8], self.plain_name());
        Self { name, ..self.clone() }
    }

    /// Returns its agent, if this version knows it.
    pub fn known_agent(&self) -> Option<Agent> {
        self.agent.as_deref().and_then(Agent::from_name)
    }

    /// Returns the identity of the source within its session, which all its parts share.
    pub(crate) fn key(&self) -> SourceKey {
        (self.agent.clone(), self.kind as u8, self.agent_id.clone(), self.name.clone())
    }

    /// Returns the name of the source's feed, before sources with equal names are numbered.
    ///
    /// A file is named after its role and not after its path, so that the same bytes give the same
    /// state from a file, a pipe or a store.
    pub(crate) fn base_name(&self) -> String {
        let plain = self.plain_name();
        let agent = || self.agent_id.as_ref().map_or(plain, |agent| agent.bare()).to_owned();
        match self.kind {
            SourceRole::Stream => "stream".to_owned(),
            // A session of many files needs their names to distinguish them.
            SourceRole::Main if plain.contains('/') && !self.is_only_file() => plain.to_owned(),
            SourceRole::Main | SourceRole::Rows => "main".to_owned(),
            SourceRole::Subagent => agent(),
            SourceRole::SubagentMeta => format!("meta:{}", agent()),
            SourceRole::Events => "events".to_owned(),
            SourceRole::Attached => plain.to_owned(),
        }
    }

    /// Returns the feed for the converter; `None` if the source is not converted.
    pub(crate) fn feed(&self, name: &str) -> Option<Feed> {
        let subagent =
            || self.agent_id.clone().unwrap_or_else(|| AgentId::from(self.name.as_str()));
        let kind = match self.kind {
            SourceRole::Stream => FeedKind::Stream,
            SourceRole::Main | SourceRole::Rows => FeedKind::Main,
            SourceRole::Subagent => FeedKind::Subagent(subagent()),
            SourceRole::SubagentMeta => FeedKind::SubagentMeta(subagent()),
            SourceRole::Events => return Some(Feed::of_events(name)),
            SourceRole::Attached => return None,
        };
        // Rewritten files and copies mostly repeat lines that were read before.
        let may_repeat = self.part > 1 || self.plain_name() != self.name;
        Some(Feed { may_repeat, ..Feed::new(self.known_agent()?, kind, name) })
    }
}

/// The identity of a source within its session: agent, role, subagent and name.
pub(crate) type SourceKey = (Option<String>, u8, Option<AgentId>, String);

/// The prefix of the folder in a copy's name.
const COPY: &str = "copy-";

fn is_copy_folder(folder: &str) -> bool {
    let hash = folder.strip_prefix(COPY).unwrap_or_default();
    hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
}
