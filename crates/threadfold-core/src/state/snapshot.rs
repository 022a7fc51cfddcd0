//! A state as pure data: all that is known, so that folding can go on from it.

use serde::{Deserialize, Serialize};

use crate::event::Rank;
use crate::id::{BlockId, ConversationId, ToolUseId};

use super::ConversationState;
use super::conversation::{Conversation, Map};
use super::entry::Facts;
use super::subagent::{Names, RankSet, Run};

mod parts;
mod restore;

pub use parts::SnapshotPart;

/// All that a state knows: what it shows, who said what, and under which names.
///
/// A snapshot and the events after it give the state that all events give.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    version: u32,
    main: ConversationFacts<Vec<BlockFacts>>,
    subagents: Vec<SubagentFacts<Vec<BlockFacts>>>,
}

const VERSION: u32 = 1;

/// Why a snapshot cannot be restored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// Use a newer program, or fold the session again.
    #[error("the snapshot has version {found}, and this program reads version {VERSION}")]
    Version {
        /// The snapshot's version.
        found: u32,
    },
    /// Fold the session again.
    #[error("block `{block}` stands twice in conversation `{conversation}`")]
    BlockTwice {
        /// The block.
        block: BlockId,
        /// Where.
        conversation: ConversationId,
    },
    /// Fold the session again.
    #[error("the snapshot cannot be read: {reason}")]
    Unreadable {
        /// What is wrong with its JSON.
        reason: String,
    },
}

impl From<serde_json::Error> for SnapshotError {
    fn from(error: serde_json::Error) -> Self {
        Self::Unreadable { reason: error.to_string() }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConversationFacts<B> {
    name: ConversationId,
    blocks: B,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    aliases: Vec<(BlockId, BlockId)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    taken_out: Vec<(BlockId, Rank)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    calls: Vec<(ToolUseId, BlockId)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    results: Vec<(ToolUseId, BlockId)>,
    #[serde(default)]
    compacted: [Option<BlockId>; 2],
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BlockFacts {
    id: BlockId,
    pub(super) facts: Facts,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SubagentFacts<B> {
    names: Names,
    runs: Vec<Run>,
    idle: RankSet,
    #[serde(default, skip_serializing_if = "super::entry::is_false")]
    united: bool,
    conversation: ConversationFacts<B>,
}

impl ConversationState {
    /// Returns all that the state knows, as pure data.
    pub fn snapshot(&self) -> Snapshot {
        let state = self.without_open_texts();
        let subagents = state.settled.subagents.iter().map(|subagent| SubagentFacts {
            names: subagent.names.clone(),
            runs: subagent.runs.clone(),
            idle: subagent.idle,
            united: subagent.united,
            conversation: conversation_facts(&subagent.conversation),
        });
        Snapshot {
            version: VERSION,
            main: conversation_facts(&state.settled.main),
            subagents: subagents.collect(),
        }
    }

    fn without_open_texts(&self) -> Self {
        let mut state = self.clone();
        while let Some(open) = state.open.first() {
            let slot = open.slot;
            state.settle_conversation(slot);
        }
        state
    }
}

fn conversation_facts(conversation: &Conversation) -> ConversationFacts<Vec<BlockFacts>> {
    let rare = &conversation.rare;
    ConversationFacts {
        name: conversation.name.clone(),
        blocks: conversation
            .entries()
            .map(|entry| BlockFacts { id: entry.id.clone(), facts: entry.facts().into_owned() })
            .collect(),
        aliases: sorted(&rare.aliases),
        taken_out: sorted(&rare.taken_out),
        calls: sorted(&rare.calls),
        results: sorted(&rare.results),
        compacted: rare.compacted.clone(),
    }
}

fn sorted<K: Clone + Ord + std::hash::Hash, V: Clone + Ord>(map: &Map<K, V>) -> Vec<(K, V)> {
    let mut pairs: Vec<_> = map.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    pairs.sort();
    pairs
}
