//! The sources of a session's records, and how far each was read.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use threadfold_convert::lines::Position;
use threadfold_convert::{Agent, Feed, FeedKind};
use threadfold_core::{AgentId, Json};

use crate::hex;

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

    /// Returns whether `other` may be the same file, or a copy of it at another path.
    pub fn may_be_same_file(&self, other: &Self) -> bool {
        // Somebody may have renamed a copy of a session's only file.
        let is_only = self.is_only_file();
        (&self.agent, self.kind, &self.agent_id) == (&other.agent, other.kind, &other.agent_id)
            && (is_only || self.plain_name() == other.plain_name())
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

    /// Returns the feed for the converter; nothing if the source is not converted.
    fn feed(&self, name: &str) -> Option<Feed> {
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

/// A source, and how far it was read.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its number in the session.
    pub number: u32,
    /// Its declaration.
    pub spec: SourceSpec,
    /// The position after the last complete line.
    pub position: Position,
    /// The hash of all records before that position.
    pub chain: Chain,
    /// Nothing more will come from it.
    pub ended: bool,
    /// The beginning of an incomplete line.
    pub(crate) partial: Option<Bytes>,
    /// An oversized line, as far as it was read.
    pub(crate) long: Option<LongLine>,
    /// The hash of its last document.
    pub(crate) document: Option<Chain>,
    pub(crate) feed: Option<Feed>,
    /// Its feed's name, which ids of unknown blocks contain.
    pub(crate) feed_name: String,
}

/// An oversized line, which is stored in pieces.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct LongLine {
    #[serde(with = "hex")]
    pub(crate) head: Vec<u8>,
    pub(crate) length: u64,
    pub(crate) ends_with_return: bool,
}

/// The hash of a sequence of records, each chained to the hash before it.
///
/// It can be extended without reading earlier records again, to verify that a file still begins with
/// the bytes that were stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Chain(#[serde(with = "hex::array")] [u8; 32]);

impl Chain {
    pub(crate) fn of_document(bytes: &[u8]) -> Self {
        Self::default().after(bytes)
    }

    /// Returns the hash of the sequence with one more record.
    #[must_use]
    pub fn after(self, record: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.0);
        hasher.update(record);
        Self(*hasher.finalize().as_bytes())
    }
}

impl Source {
    pub(crate) fn new(number: u32, spec: SourceSpec, feed_name: String) -> Self {
        let feed = spec.feed(&feed_name);
        Self {
            number,
            spec,
            position: Position::default(),
            chain: Chain::default(),
            ended: false,
            partial: None,
            long: None,
            document: None,
            feed,
            feed_name,
        }
    }

    /// Returns whether the source was read as a document, and not as lines.
    pub fn has_document(&self) -> bool {
        self.document.is_some()
    }

    /// Returns whether `bytes` equal its last document.
    pub fn is_document(&self, bytes: &[u8]) -> bool {
        self.document == Some(Chain::of_document(bytes))
    }

    /// Returns how many bytes of its lines are in the log, including an incomplete one.
    pub fn line_bytes(&self) -> u64 {
        self.position.offset + self.partial.as_ref().map_or(0, |bytes| bytes.len() as u64)
    }

    /// Returns the beginning of an incomplete line.
    pub fn partial(&self) -> Option<&Bytes> {
        self.partial.as_ref()
    }

    /// Returns whether it was read up to the middle of an oversized line.
    pub fn is_in_pieces(&self) -> bool {
        self.long.is_some()
    }
}

/// A source in a snapshot.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SourceItem {
    source: u32,
    spec: SourceSpec,
    position: Position,
    chain: Chain,
    #[serde(default)]
    ended: bool,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "hex::option")]
    partial: Option<Vec<u8>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    long: Option<LongLine>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    document: Option<Chain>,
}

impl From<&Source> for SourceItem {
    fn from(source: &Source) -> Self {
        Self {
            source: source.number,
            spec: source.spec.clone(),
            position: source.position,
            chain: source.chain,
            ended: source.ended,
            partial: source.partial.as_ref().map(|bytes| bytes.to_vec()),
            long: source.long.clone(),
            document: source.document,
        }
    }
}

impl SourceItem {
    /// Returns the source, with this name for its feed.
    pub(crate) fn into_source(self, feed_name: String) -> Source {
        Source {
            position: self.position,
            chain: self.chain,
            ended: self.ended,
            partial: self.partial.map(Bytes::from),
            long: self.long,
            document: self.document,
            ..Source::new(self.source, self.spec, feed_name)
        }
    }

    pub(crate) fn spec(&self) -> &SourceSpec {
        &self.spec
    }
}
