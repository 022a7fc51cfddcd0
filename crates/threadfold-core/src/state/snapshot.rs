//! Snapshots: a state as plain data, complete enough to fold further events.

use serde::{Deserialize, Serialize};

use crate::event::Rank;
use crate::id::{BlockId, ConversationId, ToolUseId};

use super::ConversationState;
use super::conversation::{Conversation, Map};
use super::entry::Facts;
use super::subagent::{Names, RankSet, Run, Subagent};

mod outline;
mod parts;
mod restore;
mod row_pages;
mod subagent_text;

pub use outline::{OutlinePlaces, OutlineWriters, StateOutline};
pub use parts::SnapshotPart;
pub(super) use row_pages::{OutlineRow, RowPages};
pub(super) use subagent_text::{LARGEST_TEXT, read_subagent, write_subagent};

/// The complete data of a state: what it shows, which source reported what, and all names.
///
/// Restoring a snapshot and folding the later events gives the same state as folding all events.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StateSnapshot {
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
    #[error("the snapshot has version {found}, but this program reads version {VERSION}")]
    Version {
        /// The snapshot's version.
        found: u32,
    },
    /// Fold the session again.
    #[error("the snapshot contains block `{block}` of conversation `{conversation}` twice")]
    DuplicateBlock {
        /// The block.
        block: BlockId,
        /// The conversation.
        conversation: ConversationId,
    },
    /// Fold the session again.
    #[error("the snapshot is corrupt: {reason}")]
    Unreadable {
        /// The JSON error.
        reason: String,
    },
}

impl SnapshotError {
    fn unreadable(error: &serde_json::Error) -> Self {
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
    #[serde(rename = "takenOut", default, skip_serializing_if = "Vec::is_empty")]
    removed: Vec<(BlockId, Rank)>,
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
    pub(super) id: BlockId,
    pub(super) facts: Facts,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SubagentFacts<B> {
    names: Names,
    runs: Vec<Run>,
    #[serde(default)]
    active: RankSet,
    idle: RankSet,
    #[serde(default, skip_serializing_if = "super::entry::is_false")]
    united: bool,
    #[serde(default, skip_serializing_if = "super::entry::is_false")]
    internal: bool,
    conversation: ConversationFacts<B>,
}

impl ConversationState {
    /// Returns the complete data of the state.
    pub fn snapshot(&self) -> StateSnapshot {
        let state = self.without_open_texts();
        let subagents = state.settled.subagents.iter();
        let subagents = subagents.map(|it| subagent_facts(&it, block_facts(&it.conversation)));
        StateSnapshot {
            version: VERSION,
            main: conversation_facts(&state.settled.main, block_facts(&state.settled.main)),
            subagents: subagents.collect(),
        }
    }

    /// Returns the state for a writer of snapshots, who may hold it while more is folded. It has the
    /// same hash and the same snapshot, and no text in it grows.
    #[must_use]
    pub fn for_snapshot(&self) -> Self {
        self.without_open_texts()
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

fn block_facts(conversation: &Conversation) -> Vec<BlockFacts> {
    let entries = conversation.entries();
    let facts = entries
        .map(|entry| BlockFacts { id: entry.id().into_owned(), facts: entry.facts().into_owned() });
    facts.collect()
}

/// Returns the facts of a subagent, with its blocks in any form.
fn subagent_facts<B>(subagent: &Subagent, blocks: B) -> SubagentFacts<B> {
    SubagentFacts {
        names: subagent.names.clone(),
        runs: subagent.runs.clone(),
        active: subagent.active,
        idle: subagent.idle,
        united: subagent.united,
        internal: subagent.internal,
        conversation: conversation_facts(&subagent.conversation, blocks),
    }
}

impl<B> SubagentFacts<B> {
    /// Returns the subagent without the contents of its conversation.
    fn to_subagent(&self) -> Subagent {
        Subagent {
            conversation: Conversation::named(self.conversation.name.clone()),
            names: self.names.clone(),
            runs: self.runs.clone(),
            active: self.active,
            idle: self.idle,
            united: self.united,
            internal: self.internal,
        }
    }
}

/// Returns the facts of a conversation, with its blocks in any form.
fn conversation_facts<B>(conversation: &Conversation, blocks: B) -> ConversationFacts<B> {
    let rare = &conversation.rare;
    ConversationFacts {
        name: conversation.name.clone(),
        blocks,
        aliases: sorted(&rare.aliases),
        removed: sorted(&rare.removed),
        calls: sorted(&rare.calls),
        results: sorted(&rare.results),
        compacted: rare.compacted.clone(),
    }
}

fn sorted<K: Clone + Ord + std::hash::Hash, V: Clone + Ord>(map: &Map<K, V>) -> Vec<(K, V)> {
    let mut pairs: Vec<_> = map.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    // A snapshot of one state must always have the same bytes, so that stores can deduplicate it.
    pairs.sort();
    pairs
}
