//! What a converter reads: lines, and where they come from.

use std::sync::Arc;

use threadfold_core::{AgentId, EventSource, SourceId, SourceKind};

use crate::Agent;

/// Where lines come from, as one session's files and streams are told apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Feed {
    /// What the lines are.
    pub kind: FeedKind,
    /// The source as events carry it.
    pub source: EventSource,
    /// It may repeat what another feed of the session said: a file that was rewritten, or a copy
    /// of one. What is repeated keeps its place.
    pub may_repeat: bool,
}

/// What the lines of a feed are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedKind {
    /// What the agent emits while it works.
    Stream,
    /// The file of the session itself.
    Main,
    /// The file of one subagent.
    Subagent(AgentId),
    /// The metadata beside the file of one subagent: one record, the whole file.
    SubagentMeta(AgentId),
}

impl Feed {
    /// Returns a feed of `agent`, with its name within the session.
    ///
    /// Blocks of unknown records are named after it, so the name must not depend on where the
    /// session is stored or how its path was spelled.
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

    /// Says whether this is what the agent emits while it works.
    pub fn is_stream(&self) -> bool {
        self.kind == FeedKind::Stream
    }
}

/// A line of a feed.
#[derive(Clone, Copy, Debug)]
pub struct FeedLine<'a> {
    /// Where it came from.
    pub feed: &'a Feed,
    /// Its number there, from 1.
    pub number: u64,
    /// The line, without its end.
    pub bytes: &'a [u8],
}

/// A line that was too long to be converted.
#[derive(Clone, Copy, Debug)]
pub struct TooLong<'a> {
    /// Where it came from.
    pub feed: &'a Feed,
    /// Its number there, from 1.
    pub number: u64,
    /// How many bytes it has.
    pub length: u64,
    /// Its first bytes.
    pub head: &'a [u8],
}
