//! A state as pure data: all that is known, so that folding can go on from it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::event::Rank;
use crate::id::{BlockId, ConversationId, ToolUseId};

use super::conversation::{Conversation, Map};
use super::entry::Facts;
use super::subagent::{Names, RankSet, Run, Subagent};
use super::{ConversationState, Settled, Slot};

mod parts;

pub use parts::SnapshotPart;

/// All that a state knows: what it shows, who said what, and under which names.
///
/// A snapshot and the events after it give the state that all events give.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    version: u32,
    main: ConversationFacts,
    subagents: Vec<SubagentFacts>,
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
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConversationFacts {
    name: ConversationId,
    blocks: Vec<BlockFacts>,
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
struct SubagentFacts {
    names: Names,
    runs: Vec<Run>,
    idle: RankSet,
    #[serde(default, skip_serializing_if = "super::entry::is_false")]
    united: bool,
    conversation: ConversationFacts,
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

    /// Returns the state that `snapshot` was taken of.
    pub fn restore(snapshot: &Snapshot) -> Result<Self, SnapshotError> {
        if snapshot.version != VERSION {
            return Err(SnapshotError::Version { found: snapshot.version });
        }
        let mut state = Self::default();
        let settled = state.settled_mut();
        for (index, facts) in snapshot.subagents.iter().enumerate() {
            if !facts.united {
                for run in &facts.runs {
                    settled.calls.insert(run.tool_use_id.clone(), index);
                }
                for bare in &facts.names.bare {
                    settled.names.insert(bare.clone(), index);
                }
            }
            settled.subagents.push_back(Arc::new(Subagent {
                conversation: Conversation::named(facts.conversation.name.clone()),
                names: facts.names.clone(),
                runs: facts.runs.clone(),
                idle: facts.idle,
                united: facts.united,
            }));
        }
        restore_conversation(settled, Slot::Main, &snapshot.main)?;
        for (index, facts) in snapshot.subagents.iter().enumerate() {
            restore_conversation(settled, Slot::Subagent(index), &facts.conversation)?;
        }
        Ok(state)
    }
}

fn conversation_facts(conversation: &Conversation) -> ConversationFacts {
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

fn restore_conversation(
    settled: &mut Settled,
    slot: Slot,
    facts: &ConversationFacts,
) -> Result<(), SnapshotError> {
    for BlockFacts { id, facts: known } in &facts.blocks {
        if settled.conversation(slot).position(id).is_some() {
            let (block, conversation) = (id.clone(), facts.name.clone());
            return Err(SnapshotError::BlockTwice { block, conversation });
        }
        let run = settled.run(known.call.as_ref());
        let conversation = settled.conversation_mut(slot);
        let shown = known.show(id, &conversation.name, run.as_ref());
        conversation.insert(conversation.len(), id.clone(), known.clone(), shown);
    }
    let rare = Arc::make_mut(&mut settled.conversation_mut(slot).rare);
    rare.aliases = facts.aliases.iter().cloned().collect();
    rare.taken_out = facts.taken_out.iter().cloned().collect();
    rare.calls = facts.calls.iter().cloned().collect();
    rare.results = facts.results.iter().cloned().collect();
    rare.compacted.clone_from(&facts.compacted);
    Ok(())
}
