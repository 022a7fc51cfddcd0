//! Where a session's records come from, and how far each source was read.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use threadfold_convert::lines::Position;
use threadfold_convert::{Agent, Feed, FeedKind, TooLong};
use threadfold_core::{AgentId, Json};

use crate::hex;

/// A source as its session's log describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceSpec {
    /// The agent whose words these are; none for events in our own form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// What it is.
    pub kind: SourceRole,
    /// The subagent, for what belongs to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<AgentId>,
    /// Its name within the session, which does not depend on where the session lies.
    pub name: String,
    /// Where it was read from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Which part this is, from 1: a file that was written anew from its beginning is another.
    pub part: u32,
}

/// What a source is to its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SourceRole {
    /// What an agent says while it works.
    Stream,
    /// The session's own file.
    Main,
    /// The file of a subagent.
    Subagent,
    /// What is noted beside the file of a subagent.
    SubagentMeta,
    /// Rows of an agent's database, as text.
    Rows,
    /// Events in our own form.
    Events,
    /// A file that is kept with the session, and tells nothing of it.
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

    /// Returns it as a log has it.
    pub fn to_json(&self) -> Bytes {
        Bytes::from(Json::of(self).as_str().to_owned())
    }

    /// Returns the source of what belongs to a subagent.
    pub fn of_subagent(mut self, agent: AgentId) -> Self {
        self.agent_id = Some(agent);
        self
    }

    /// Returns the source with the path that it is read from.
    pub fn at(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Says whether `other` is the same source, whichever part of it and wherever it is.
    pub fn is_same_source(&self, other: &Self) -> bool {
        (&self.agent, self.kind, &self.agent_id, &self.name)
            == (&other.agent, other.kind, &other.agent_id, &other.name)
    }

    /// Says whether `other` may be the same file, or a copy of it that is somewhere else.
    pub fn may_be_same_file(&self, other: &Self) -> bool {
        // A copy of a session's only file may have any name.
        let is_only = self.is_only_file();
        (&self.agent, self.kind, &self.agent_id) == (&other.agent, other.kind, &other.agent_id)
            && (is_only || self.plain_name() == other.plain_name())
    }

    /// Says whether it is the one main file of a session.
    fn is_only_file(&self) -> bool {
        self.kind == SourceRole::Main && self.known_agent().is_some_and(Agent::has_one_main_file)
    }

    /// Returns the name that a file has within its own folder: a copy's without the prefix that
    /// tells it from others.
    fn plain_name(&self) -> &str {
        match self.name.split_once('/') {
            Some((folder, name)) if is_copy_folder(folder) => name,
            _ => &self.name,
        }
    }

    /// Returns the source under a name of its own: another file of this name is somewhere else.
    #[must_use]
    pub fn as_copy(&self, number: u32) -> Self {
        let path = self.path.as_deref().unwrap_or_default();
        let hash = blake3::hash(format!("{number}:{path}").as_bytes());
        let name = format!("{COPY}{}/{}", &hash.to_hex()[..8], self.plain_name());
        Self { name, ..self.clone() }
    }

    /// Returns the agent whose converter understands it.
    pub fn known_agent(&self) -> Option<Agent> {
        self.agent.as_deref().and_then(Agent::from_name)
    }

    /// Returns what identifies the source within its session, whichever part it is.
    pub(crate) fn key(&self) -> SourceKey {
        (self.agent.clone(), self.kind as u8, self.agent_id.clone(), self.name.clone())
    }

    /// Returns the name that the source's lines have within the session, before others of the same
    /// name are told apart.
    ///
    /// A file is named by its role and not by its path, so that the same bytes mean the same from
    /// a file, a pipe or a store.
    pub(crate) fn base_name(&self) -> String {
        let plain = self.plain_name();
        let agent = || self.agent_id.as_ref().map_or(plain, |agent| agent.bare()).to_owned();
        match self.kind {
            SourceRole::Stream => "stream".to_owned(),
            // Files of a folder that holds many are told apart by their names within it.
            SourceRole::Main if plain.contains('/') && !self.is_only_file() => plain.to_owned(),
            SourceRole::Main | SourceRole::Rows => "main".to_owned(),
            SourceRole::Subagent => agent(),
            SourceRole::SubagentMeta => format!("meta:{}", agent()),
            SourceRole::Events => "events".to_owned(),
            SourceRole::Attached => plain.to_owned(),
        }
    }

    /// Returns how a converter sees the source; nothing if it is only kept.
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
        let may_repeat = self.part > 1 || self.plain_name() != self.name;
        Some(Feed { may_repeat, ..Feed::new(self.known_agent()?, kind, name) })
    }
}

/// What identifies a source within its session: agent, role, subagent and name.
pub(crate) type SourceKey = (Option<String>, u8, Option<AgentId>, String);

/// How the folder is called in which a copy's name stands.
const COPY: &str = "copy-";

fn is_copy_folder(folder: &str) -> bool {
    let hash = folder.strip_prefix(COPY).unwrap_or_default();
    hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A source and how far it was read.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its number in the session.
    pub number: u32,
    /// What it is.
    pub spec: SourceSpec,
    /// The place after the last whole line.
    pub position: Position,
    /// Stands for all bytes before that place: they are the same if it is.
    pub chain: Chain,
    /// It is at its end.
    pub ended: bool,
    /// The beginning of a line whose end was not there yet.
    pub(crate) partial: Option<Bytes>,
    /// A line that is too long, as far as it has come.
    pub(crate) long: Option<LongLine>,
    /// The hash of the last document that it was.
    pub(crate) document: Option<Chain>,
    pub(crate) feed: Option<Feed>,
    /// Its name within the session, which unknown blocks are named after.
    pub(crate) feed_name: String,
}

/// A line that comes in pieces.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct LongLine {
    #[serde(with = "hex")]
    pub(crate) head: Vec<u8>,
    pub(crate) length: u64,
    pub(crate) ends_with_return: bool,
}

/// How much of a line that is too long is shown.
const HEAD: usize = 4 << 10;
/// A mark that may stand before the first line of a source, and belongs to no line.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl LongLine {
    /// Adds the next bytes of the line, without its end.
    pub(crate) fn extend(&mut self, content: &[u8]) {
        let room = HEAD.saturating_sub(self.head.len()).min(content.len());
        self.head.extend_from_slice(&content[..room]);
        self.length += content.len() as u64;
        if let Some(last) = content.last() {
            self.ends_with_return = *last == b'\r';
        }
    }

    fn is_all_in_head(&self) -> bool {
        self.head.len() as u64 == self.length
    }

    /// Returns the line as a converter hears of it, once all of it has come.
    pub(crate) fn at<'a>(&'a self, number: u64, feed: &'a Feed) -> TooLong<'a> {
        let is_marked = number == 1 && self.head.starts_with(BYTE_ORDER_MARK);
        let mark = if is_marked { BYTE_ORDER_MARK.len() } else { 0 };
        let length = self.length - mark as u64 - u64::from(self.ends_with_return);
        let end = self.head.len() - usize::from(self.ends_with_return && self.is_all_in_head());
        TooLong { feed, number, length, head: &self.head[mark..end] }
    }
}

/// Stands for a sequence of records: equal sequences have equal ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Chain(#[serde(with = "hex::array")] [u8; 32]);

impl Chain {
    pub(crate) fn of_document(bytes: &[u8]) -> Self {
        Self::default().after(bytes)
    }

    /// Returns what stands for the sequence with one more record.
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

    /// Says whether it was read as a whole, and not as lines.
    pub fn has_document(&self) -> bool {
        self.document.is_some()
    }

    /// Says whether `bytes` are what it already was as a whole.
    pub fn is_document(&self, bytes: &[u8]) -> bool {
        self.document == Some(Chain::of_document(bytes))
    }

    /// Returns how many bytes of its lines are in the log, an unfinished one with them.
    pub fn line_bytes(&self) -> u64 {
        self.position.offset + self.partial.as_ref().map_or(0, |bytes| bytes.len() as u64)
    }

    /// Returns the beginning of a line whose end was not there yet.
    pub fn partial(&self) -> Option<&Bytes> {
        self.partial.as_ref()
    }

    /// Says whether it stands in the middle of a line that comes in pieces.
    pub fn is_in_pieces(&self) -> bool {
        self.long.is_some()
    }
}

/// A source as a snapshot has it.
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
    /// Returns the source, under its name within the session.
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
