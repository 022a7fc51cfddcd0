//! The loaders that stand side by side.

use std::collections::BTreeMap;
use std::hint::black_box;

use threadfold_convert::{claude, opencode};
use threadfold_convert::lines::lines;
use threadfold_convert::{Agent, Feed, FeedKind, Record, converter};
use threadfold_fold::{SessionFile, parse_transcript};
use threadfold_core::{ConversationState, Outcome};
use threadfold_testkit::naive_load;

/// A way to load a session.
#[derive(Clone, Copy)]
pub(crate) enum Loader {
    /// The converter and the reducer, on a transcript.
    Ours,
    /// A `Value` for each line, and the reducer.
    Values,
    /// A `Value` for each line, and nothing else.
    ParseOnly,
    /// A `Value` for each line, all of them kept, and nothing folded.
    ParseAndKeep,
    /// The converter and the reducer, on a stream.
    OurStream,
    /// The converter and the reducer, on OpenCode's bus.
    OurBus,
    /// A `Value` for each event of OpenCode's bus, and the reducer.
    BusValues,
}

impl Loader {
    const ALL: [Self; 7] = [
        Self::Ours,
        Self::Values,
        Self::ParseOnly,
        Self::ParseAndKeep,
        Self::OurStream,
        Self::OurBus,
        Self::BusValues,
    ];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Ours => "threadfold, bytes to state",
            Self::Values => "`Value` a line, to state",
            Self::ParseOnly => "`Value` a line, only parsed",
            Self::ParseAndKeep => "`Value` a line, parsed and kept",
            Self::OurStream => "threadfold, stream to state",
            Self::OurBus => "threadfold, OpenCode's bus",
            Self::BusValues => "`Value` an event, OpenCode's bus",
        }
    }

    /// Returns the name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Values => "values",
            Self::ParseOnly => "parse-only",
            Self::ParseAndKeep => "parse-and-keep",
            Self::OurStream => "our-stream",
            Self::OurBus => "our-bus",
            Self::BusValues => "bus-values",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|loader| loader.name() == name)
    }

    /// Loads the session, and returns its state if this loader makes one.
    pub(crate) fn load(self, bytes: &[u8]) -> Option<ConversationState> {
        match self {
            Self::Ours => {
                Some(parse_transcript(claude::AGENT, &[SessionFile { path: "s.jsonl", bytes }]))
            }
            Self::Values => Some(naive_load::load(bytes)),
            Self::ParseOnly => {
                black_box(naive_load::parse_only(bytes));
                None
            }
            Self::ParseAndKeep => {
                // Dropping them is no part of loading.
                std::mem::forget(black_box(naive_load::parse_and_keep(bytes)));
                None
            }
            Self::OurStream => Some(load_stream(claude::AGENT, bytes)),
            Self::OurBus => Some(load_stream(opencode::AGENT, bytes)),
            Self::BusValues => Some(naive_load::load_bus(bytes)),
        }
    }
}

fn load_stream(agent: Agent, bytes: &[u8]) -> ConversationState {
    let feed = Feed::new(agent, FeedKind::Stream, "stream");
    let mut converter = agent.converter();
    let mut state = ConversationState::default();
    let mut events = Vec::new();
    for line in lines(bytes) {
        converter.push(&FeedLine { feed: &feed, number: line.number, bytes: line.bytes }, &mut events);
        for event in events.drain(..) {
            if let Outcome::Ignored(odd) | Outcome::Noted(odd) = state.apply(&event) {
                panic!("the stream is in order, and yet: {odd}");
            }
        }
    }
    state
}

/// Counts the blocks by their type.
pub(crate) fn count(state: &ConversationState) -> BTreeMap<String, usize> {
    let mut blocks = BTreeMap::new();
    for block in state.blocks().iter() {
        *blocks.entry(block.body.kind().to_owned()).or_default() += 1;
    }
    blocks
}
