//! The merge: stream and files of one session, however they are interleaved, end in one state.

use serde::Serialize;
use threadfold_core::{BlockId, ConversationState, StateHash};

use crate::record::{Agent, Record};
use crate::whole::{SessionFile, convert_files};
use crate::{Converter, converter};

/// What came of replaying a session in many interleavings.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Replay {
    /// How many interleavings were tried.
    pub tried: usize,
    /// The state that they should all end in: the files, then the stream.
    pub hash: StateHash,
    /// Interleavings that ended elsewhere, by how many lines of the stream came first.
    pub astray: Vec<usize>,
    /// Conversations of that state in which the blocks of the files stand in another order than
    /// in the files.
    pub out_of_order: Vec<String>,
    /// Blocks that one side alone has and that state lacks.
    pub lost: Vec<BlockId>,
}

impl Replay {
    /// Says whether all ended in one state, in the order of the files, with nothing lost.
    pub fn holds(&self) -> bool {
        self.astray.is_empty() && self.out_of_order.is_empty() && self.lost.is_empty()
    }
}

/// The most prefixes of a stream that are tried; of a longer one, as many at equal distances.
const PREFIXES: usize = 400;

/// Feeds every prefix of the stream, then the files, then the rest; and the files, then the
/// stream.
pub fn replay(agent: Agent, stream: &[Record<'_>], files: &[SessionFile<'_>]) -> Replay {
    replay_with(agent, converter(agent).as_ref(), stream, files)
}

/// Does the same with a converter that knows something already, such as which session is meant.
pub fn replay_with(
    agent: Agent,
    begin: &dyn Converter,
    stream: &[Record<'_>],
    files: &[SessionFile<'_>],
) -> Replay {
    let mut merged = Fold::new(begin);
    merged.files(agent, files);
    let told = merged.state.clone();
    merged.stream(stream);
    merged.end(stream);
    let hash = merged.state.hash();

    let mut streamed = Fold::new(begin);
    let step = stream.len().div_ceil(PREFIXES).max(1);
    let (mut tried, mut astray) = (1, Vec::new());
    for at in 0..=stream.len() {
        if at > 0 {
            streamed.stream(&stream[at - 1..at]);
        }
        if at % step == 0 || at == stream.len() {
            let mut other = streamed.fork();
            other.files(agent, files);
            other.stream(&stream[at..]);
            other.end(stream);
            tried += 1;
            if other.state.hash() != hash {
                astray.push(at);
            }
        }
    }
    streamed.end(stream);
    Replay {
        tried,
        hash,
        astray,
        out_of_order: out_of_order(&told, &merged.state),
        lost: [&told, &streamed.state].into_iter().flat_map(|it| lost(it, &merged.state)).collect(),
    }
}

/// A converter and the state that it feeds.
struct Fold {
    converter: Box<dyn Converter>,
    state: ConversationState,
}

impl Fold {
    fn new(begin: &dyn Converter) -> Self {
        Self { converter: begin.fork(), state: ConversationState::default() }
    }

    fn fork(&self) -> Self {
        Self { converter: self.converter.fork(), state: self.state.clone() }
    }

    fn files(&mut self, agent: Agent, files: &[SessionFile<'_>]) {
        let state = &mut self.state;
        convert_files(agent, self.converter.as_mut(), files, |events| state.extend(events.iter()));
    }

    fn stream(&mut self, records: &[Record<'_>]) {
        let mut events = Vec::new();
        for record in records {
            self.converter.push(record, &mut events);
            self.state.extend(&events);
            events.clear();
        }
    }

    fn end(&mut self, records: &[Record<'_>]) {
        let mut events = Vec::new();
        if let Some(record) = records.first() {
            self.converter.finish(record.feed, &mut events);
        }
        self.state.extend(&events);
    }
}

/// Returns each conversation of a state with the names of its blocks.
fn conversations(state: &ConversationState) -> Vec<(String, Vec<BlockId>)> {
    let ids = |blocks: threadfold_core::Blocks<'_>| blocks.iter().map(|it| it.id.clone()).collect();
    let subagents = state.subagents();
    let named = subagents.iter().map(|it| (it.conversation_id().to_string(), ids(it.blocks())));
    std::iter::once(("main".to_owned(), ids(state.blocks()))).chain(named).collect()
}

fn out_of_order(told: &ConversationState, merged: &ConversationState) -> Vec<String> {
    let wrong = conversations(told).into_iter().filter(|(name, order)| {
        let Some(blocks) = merged.conversation(&name.as_str().into()) else { return true };
        let known: std::collections::BTreeSet<_> = order.iter().collect();
        let found: Vec<_> =
            blocks.iter().map(|it| it.id.clone()).filter(|id| known.contains(id)).collect();
        found != *order
    });
    wrong.map(|(name, _)| name).collect()
}

fn lost(side: &ConversationState, merged: &ConversationState) -> Vec<BlockId> {
    let missing = |(name, ids): (String, Vec<BlockId>)| {
        let blocks = merged.conversation(&name.as_str().into());
        ids.into_iter().filter(move |id| blocks.is_none_or(|it| it.find(id).is_none()))
    };
    conversations(side).into_iter().flat_map(missing).collect()
}
