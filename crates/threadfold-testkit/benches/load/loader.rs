//! The loaders that are compared.

use std::collections::BTreeMap;
use std::hint::black_box;

use threadfold_convert::{Agent, claude, codex, opencode};
use threadfold_core::{ConversationState, SessionId};
use threadfold_fold::{
    Cutter, Fold, Record, RecordKind, SessionFile, Slices, SourceRole, SourceSpec, Step,
    parse_transcript,
};
use threadfold_testkit::naive_load;
use threadfold_testkit::typed_load::TypedSession;

/// A way to load a session.
#[derive(Clone, Copy)]
pub(crate) enum Loader {
    /// The fold, on a transcript: one call.
    Ours,
    /// Typed structures, into a vector and a map that are changed in place.
    Typed,
    /// A `Value` for each line, and the reducer.
    Values,
    /// A `Value` for each line, and nothing else.
    ParseOnly,
    /// A `Value` for each line, all of them retained, and nothing folded.
    ParseAndKeep,
    /// The fold, on a stream cut into records as it arrives.
    OurStream,
    /// The fold, on OpenCode's bus cut into records as it arrives.
    OurBus,
    /// A `Value` for each event of OpenCode's bus, and the reducer.
    BusValues,
    /// A `Value` for each event of OpenCode 2, and the reducer.
    NewerBusValues,
    /// The fold, on a rollout of Codex: one call.
    OurRollout,
    /// A `Value` for each line of a rollout of Codex, and the reducer.
    RolloutValues,
}

impl Loader {
    const ALL: [Self; 11] = [
        Self::Ours,
        Self::Typed,
        Self::Values,
        Self::ParseOnly,
        Self::ParseAndKeep,
        Self::OurStream,
        Self::OurBus,
        Self::BusValues,
        Self::NewerBusValues,
        Self::OurRollout,
        Self::RolloutValues,
    ];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Ours => "threadfold, bytes to state",
            Self::Typed => "typed, to a mutable list",
            Self::Values => "`Value` a line, to state",
            Self::ParseOnly => "`Value` a line, only parsed",
            Self::ParseAndKeep => "`Value` a line, parsed and kept",
            Self::OurStream => "threadfold, stream to state",
            Self::OurBus => "threadfold, OpenCode's bus",
            Self::BusValues => "`Value` an event, OpenCode's bus",
            Self::NewerBusValues => "`Value` an event, OpenCode 2",
            Self::OurRollout => "threadfold, Codex's rollout",
            Self::RolloutValues => "`Value` a line, Codex's rollout",
        }
    }

    /// Returns the name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Typed => "typed",
            Self::Values => "values",
            Self::ParseOnly => "parse-only",
            Self::ParseAndKeep => "parse-and-keep",
            Self::OurStream => "our-stream",
            Self::OurBus => "our-bus",
            Self::BusValues => "bus-values",
            Self::NewerBusValues => "newer-bus-values",
            Self::OurRollout => "our-rollout",
            Self::RolloutValues => "rollout-values",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|loader| loader.name() == name)
    }

    /// Loads the session, and returns what was made of it.
    pub(crate) fn load(self, bytes: &[u8]) -> Loaded {
        if let Self::Typed = self {
            return Loaded::Typed(TypedSession::load(bytes));
        }
        self.load_state(bytes).map_or(Loaded::Nothing, Loaded::State)
    }

    fn load_state(self, bytes: &[u8]) -> Option<ConversationState> {
        match self {
            Self::Typed => None,
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
            Self::NewerBusValues => Some(naive_load::load_newer_bus(bytes)),
            Self::OurRollout => {
                Some(parse_transcript(codex::AGENT, &[SessionFile { path: "s.jsonl", bytes }]))
            }
            Self::RolloutValues => Some(naive_load::load_rollout(bytes)),
        }
    }
}

/// What a loader makes of a session.
pub(crate) enum Loaded {
    State(ConversationState),
    Typed(TypedSession),
    Nothing,
}

impl Loaded {
    /// Counts the blocks by their type.
    pub(crate) fn count(&self) -> BTreeMap<String, usize> {
        match self {
            Self::State(state) => count(state),
            Self::Typed(session) => session.count(),
            Self::Nothing => BTreeMap::new(),
        }
    }
}

/// How many bytes of a stream are cut at a time.
const CHUNK: usize = 64 << 10;

/// Loads a stream as a reader of a pipe does: what came is cut into records, and these are folded
/// and dropped before more is read.
fn load_stream(agent: Agent, bytes: &[u8]) -> ConversationState {
    let mut fold = Fold::new(SessionId::from(""), Slices::default()).conversation_only();
    let spec = SourceSpec::new(agent, SourceRole::Stream, "stream");
    let mut step = Step::default();
    let mut push = |record: Record| {
        let seq = fold.seq() + 1;
        fold.push_to(&record.at(seq), &mut step);
        assert_eq!(step.oddities, [], "the stream is in order");
    };
    push(Record::new(RecordKind::Source, 1, 0, spec.to_json()));
    let mut cutter = Cutter::new(1);
    let mut records = Vec::new();
    for chunk in bytes.chunks(CHUNK) {
        cutter.push(chunk, &mut records);
        records.drain(..).for_each(&mut push);
    }
    cutter.finish(&mut records);
    records.drain(..).for_each(&mut push);
    fold.settled()
}

fn count(state: &ConversationState) -> BTreeMap<String, usize> {
    let mut blocks = BTreeMap::new();
    for block in state.blocks().iter() {
        *blocks.entry(block.body.kind().to_owned()).or_default() += 1;
    }
    blocks
}
