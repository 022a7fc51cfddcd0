//! What comes in: a record is bytes, and where they came from.

use std::sync::Arc;

use threadfold_core::{AgentId, EventSource, SourceId, SourceKind};

/// An agent whose words can be converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Agent {
    /// Claude Code and the Claude Agent SDK.
    Claude,
    /// OpenCode.
    Opencode,
    /// Any other: its words are kept and shown as they came.
    Other,
}

impl Agent {
    /// Returns the agent of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Claude, Self::Opencode, Self::Other].into_iter().find(|agent| agent.name() == name)
    }

    /// Returns the agent's name as events carry it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Opencode => "opencode",
            Self::Other => "other",
        }
    }
}

/// Where records come from, as one agent's files and streams are told apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Feed {
    /// What the records are.
    pub kind: FeedKind,
    /// The source as events carry it.
    pub source: EventSource,
    /// It may tell again what another feed of the session told: a file that was written anew, or
    /// a copy of one. What is told again stays where it stands.
    pub may_repeat: bool,
}

/// What the records of a feed are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedKind {
    /// What the agent says while it works.
    Stream,
    /// The file of the session itself.
    Main,
    /// The file of one subagent.
    Subagent(AgentId),
    /// What is noted beside the file of one subagent; one record, the whole file.
    SubagentMeta(AgentId),
}

impl Feed {
    /// Returns a feed of `agent`, named after its place.
    pub fn new(agent: Agent, kind: FeedKind, name: &str) -> Self {
        let source_kind = match kind {
            FeedKind::Stream => SourceKind::Stream,
            _ => SourceKind::Transcript,
        };
        let source = EventSource {
            id: Some(SourceId::from(name)),
            agent: Some(Arc::from(agent.name())),
            ..EventSource::of_kind(source_kind)
        };
        Self { kind, source, may_repeat: false }
    }

    /// Says whether this is what the agent says while it works.
    pub fn is_stream(&self) -> bool {
        self.kind == FeedKind::Stream
    }
}

/// What came, as bytes.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Where it came from.
    pub feed: &'a Feed,
    /// Its line there, from 1.
    pub line: u64,
    /// The line, without its end.
    pub bytes: &'a [u8],
}

/// A record that was too long to be kept.
#[derive(Clone, Copy, Debug)]
pub struct TooLong<'a> {
    /// Where it came from.
    pub feed: &'a Feed,
    /// Its line there, from 1.
    pub line: u64,
    /// How many bytes it has.
    pub length: u64,
    /// How it begins.
    pub head: &'a [u8],
}
