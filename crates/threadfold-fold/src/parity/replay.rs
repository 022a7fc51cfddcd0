//! Replays stream and files of one session interleaved in many ways, which must give one state.

use serde::Serialize;
use threadfold_core::{BlockId, ConversationState, SessionId, StateHash, reduce};

use super::file_order::in_stated_order;
use crate::fold::Fold;
use crate::record::Record;
use crate::slice::Slices;

/// The result of replaying a session in many interleavings.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Replay {
    /// How many interleavings were tried.
    pub tried: usize,
    /// The expected state, of the files followed by the stream.
    pub hash: StateHash,
    /// Interleavings with another state, by how many records of the stream came first.
    pub astray: Vec<usize>,
    /// Conversations of that state in which the files' blocks are not in the order of the files.
    pub out_of_order: Vec<String>,
    /// Blocks of either side that are missing in that state.
    pub lost: Vec<BlockId>,
    /// The lines of the files were replayed in the order that they state, because that is another one
    /// than the one in which they stand: where such a file contradicts the stream, the place of what
    /// only the stream has depends on which came first.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub in_stated_order: bool,
}

impl Replay {
    /// Returns whether all interleavings gave one state, in the order of the files, without a loss.
    pub fn holds(&self) -> bool {
        self.astray.is_empty() && self.out_of_order.is_empty() && self.lost.is_empty()
    }
}

/// The most prefixes of a stream that are tried; a longer stream is sampled at equal distances.
const PREFIXES: usize = 400;

/// Pushes every prefix of the stream, then the files, then the rest of the stream, and compares with
/// the files followed by the stream.
///
/// Both slices are records of one session, including declarations and ends of sources.
pub fn replay(session: &SessionId, stream: &[Record], files: &[Record]) -> Replay {
    let as_written = replay_as_written(session, stream, files);
    if as_written.holds() {
        return as_written;
    }
    let Some((ordered, _)) = in_stated_order(files) else { return as_written };
    Replay { in_stated_order: true, ..replay_as_written(session, stream, &ordered) }
}

fn replay_as_written(session: &SessionId, stream: &[Record], files: &[Record]) -> Replay {
    let begin = Fold::new(session.clone(), Slices::default()).conversation_only();
    let mut merged = begin.fork();
    push_all(&mut merged, files);
    let stored = merged.conversation().clone();
    // A stream may have names only once the files were read.
    let mut named = ConversationState::default();
    for record in stream {
        let seq = merged.seq() + 1;
        named = merged.push(&record.clone().at(seq)).events.iter().fold(named, reduce);
    }
    let hash = merged.conversation().hash();

    // The prefix grows by one record at a time, so that no prefix is folded twice.
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
    let sides = [&stored, &named];
    Replay {
        tried,
        hash,
        astray,
        out_of_order: out_of_order(&stored, merged),
        lost: sides.into_iter().flat_map(|it| lost(it, merged)).collect(),
        in_stated_order: false,
    }
}

fn push_all(fold: &mut Fold, records: &[Record]) {
    for record in records {
        let seq = fold.seq() + 1;
        fold.push(&record.clone().at(seq));
    }
}

/// Returns each conversation of a state with the ids of its blocks.
fn conversations(state: &ConversationState) -> Vec<(String, Vec<BlockId>)> {
    let ids = |blocks: threadfold_core::Blocks<'_>| blocks.iter().map(|it| it.id.clone()).collect();
    let subagents = state.subagents();
    let named = subagents.iter().map(|it| (it.conversation_id().to_string(), ids(it.blocks())));
    std::iter::once(("main".to_owned(), ids(state.blocks()))).chain(named).collect()
}

/// Returns the conversations whose blocks changed their order in the merged state.
fn out_of_order(stored: &ConversationState, merged: &ConversationState) -> Vec<String> {
    let wrong = conversations(stored).into_iter().filter(|(name, order)| {
        let Some(blocks) = merged.conversation(&name.as_str().into()) else { return true };
        let known: std::collections::BTreeSet<_> = order.iter().collect();
        let found: Vec<_> =
            blocks.iter().map(|it| it.id.clone()).filter(|id| known.contains(id)).collect();
        found != *order
    });
    wrong.map(|(name, _)| name).collect()
}

/// Returns the blocks of one side that are missing in the merged state.
fn lost(side: &ConversationState, merged: &ConversationState) -> Vec<BlockId> {
    let missing = |(name, ids): (String, Vec<BlockId>)| {
        let blocks = merged.conversation(&name.as_str().into());
        ids.into_iter().filter(move |id| blocks.as_ref().is_none_or(|it| it.find(id).is_none()))
    };
    conversations(side).into_iter().flat_map(missing).collect()
}
