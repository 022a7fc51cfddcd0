//! The merge: stream and files of one session, however they are interleaved, end in one state.

use serde::Serialize;
use threadfold_core::{BlockId, ConversationState, SessionId, StateHash};

use crate::fold::Fold;
use crate::record::Record;
use crate::slice::Slices;

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

/// Pushes every prefix of the stream, then the files, then the rest; and the files, then the
/// stream.
///
/// Both are records of one session, with the declarations of their sources and their ends.
pub fn replay(session: &SessionId, stream: &[Record], files: &[Record]) -> Replay {
    let begin = Fold::new(session.clone(), Slices::default()).once();
    let mut merged = begin.fork();
    push_all(&mut merged, files);
    let told = merged.conversation().clone();
    push_all(&mut merged, stream);
    let hash = merged.conversation().hash();

    let mut streamed = begin;
    let step = stream.len().div_ceil(PREFIXES).max(1);
    let (mut tried, mut astray) = (1, Vec::new());
    for at in 0..=stream.len() {
        if at > 0 {
            push_all(&mut streamed, &stream[at - 1..at]);
        }
        if at % step == 0 || at == stream.len() {
            let mut other = streamed.fork();
            push_all(&mut other, files);
            push_all(&mut other, &stream[at..]);
            tried += 1;
            if other.conversation().hash() != hash {
                astray.push(at);
            }
        }
    }
    let merged = merged.conversation();
    let sides = [&told, streamed.conversation()];
    Replay {
        tried,
        hash,
        astray,
        out_of_order: out_of_order(&told, merged),
        lost: sides.into_iter().flat_map(|it| lost(it, merged)).collect(),
    }
}

fn push_all(fold: &mut Fold, records: &[Record]) {
    for record in records {
        let seq = fold.seq() + 1;
        fold.push(&record.clone().at(seq));
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
