//! The input of converters: feeds, and their lines.

use std::sync::Arc;

use threadfold_core::{AgentId, EventSource, SourceId, SourceKind};

use crate::Agent;

/// A file or stream of a session, as converters see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Feed {
    /// What the lines are.
    pub kind: FeedKind,
    /// The source as events carry it.
    pub source: EventSource,
    /// It may repeat lines of another feed of the session, because it is a rewritten file or a copy.
    /// A repeated block keeps its place.
    pub may_repeat: bool,
}

/// What the lines of a feed are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedKind {
    /// The agent's live stream.
    Stream,
    /// The session's main file.
    Main,
    /// The file of one subagent.
    Subagent(AgentId),
    /// The metadata file of one subagent; the whole file is one line.
    SubagentMeta(AgentId),
}

impl Feed {
    /// Returns a feed of `agent`, with its name within the session.
    ///
    /// Ids of unknown blocks contain the name, so it must not depend on where the session is stored
    /// or how its path was written.
    pub fn new(agent: Agent, kind: FeedKind, name: &str) -> Self {
        Self::named(Some(agent.name()), kind, name)
    }

    /// Returns a feed of Threadfold's own events.
    pub fn of_events(name: &str) -> Self {
        Self::named(None, FeedKind::Stream, name)
    }

    fn named(agent: Option<&str>, kind: FeedKind, name: &str) -> Self {
        let source_kind = match kind {
            FeedKind::Stream => SourceKind::Stream,
            _ => SourceKind::Transcript,
        };
        let source = EventSource {
            id: Some(SourceId::from(name)),
            agent: agent.map(Arc::from),
            ..EventSource::of_kind(source_kind)
        };
        Self { kind, source, may_repeat: false }
    }

    /// Returns whether this is the agent's live stream.
    pub fn is_stream(&self) -> bool {
        self.kind == FeedKind::Stream
    }
}

/// A line of a feed.
#[derive(Clone, Copy, Debug)]
pub struct FeedLine<'a> {
    /// The feed it came from.
    pub feed: &'a Feed,
    /// Its number in the feed, from 1.
    pub number: u64,
    /// Its content, without the line end.
    pub bytes: &'a [u8],
}

/// A line that was too long to be converted.
#[derive(Clone, Copy, Debug)]
pub struct TooLong<'a> {
    /// The feed it came from.
    pub feed: &'a Feed,
    /// Its number in the feed, from 1.
    pub number: u64,
    /// Its length in bytes.
    pub length: u64,
    /// Its first bytes.
    pub head: &'a [u8],
}
