//! The loaders that stand side by side.

use std::collections::BTreeMap;
use std::hint::black_box;

use threadfold_convert::lines::lines;
use threadfold_convert::{Agent, Feed, FeedKind, Record, SessionFile, converter, parse_transcript};
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
    /// The converter and the reducer, on a stream.
    OurStream,
}

impl Loader {
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Ours => "threadfold, bytes to state",
            Self::Values => "`Value` a line, to state",
            Self::ParseOnly => "`Value` a line, only parsed",
            Self::OurStream => "threadfold, stream to state",
        }
    }

    /// Returns the name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Values => "values",
            Self::ParseOnly => "parse-only",
            Self::OurStream => "our-stream",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::Ours, Self::Values, Self::ParseOnly, Self::OurStream]
            .into_iter()
            .find(|loader| loader.name() == name)
    }

    /// Loads the session, and returns its state if this loader makes one.
    pub(crate) fn load(self, bytes: &[u8]) -> Option<ConversationState> {
        match self {
            Self::Ours => {
                Some(parse_transcript(Agent::Claude, &[SessionFile { path: "s.jsonl", bytes }]))
            }
            Self::Values => Some(naive_load::load(bytes)),
            Self::ParseOnly => {
                black_box(naive_load::parse_only(bytes));
                None
            }
            Self::OurStream => Some(load_stream(bytes)),
        }
    }
}

fn load_stream(bytes: &[u8]) -> ConversationState {
    let feed = Feed::new(Agent::Claude, FeedKind::Stream, "stdout");
    let mut converter = converter(Agent::Claude);
    let mut state = ConversationState::default();
    let mut events = Vec::new();
    for line in lines(bytes) {
        converter.push(&Record { feed: &feed, line: line.number, bytes: line.bytes }, &mut events);
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
