//! Restores a state from a snapshot, block by block.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::super::conversation::Conversation;
use super::super::spill::SpillStore;
use super::super::{ConversationState, SettledState, Slot};
use super::{BlockFacts, ConversationFacts, SnapshotError, StateSnapshot, SubagentFacts, VERSION};

/// How much block text is read before closed blocks are spilled.
const BATCH: usize = 1 << 20;

/// A snapshot whose blocks are not parsed yet.
#[derive(Deserialize)]
struct SnapshotText<'a> {
    version: u32,
    #[serde(borrow)]
    main: ConversationFacts<&'a RawValue>,
    subagents: Vec<SubagentFacts<&'a RawValue>>,
}

impl ConversationState {
    /// Restores the state of a snapshot.
    pub fn restore(snapshot: &StateSnapshot) -> Result<Self, SnapshotError> {
        let StateSnapshot { version, main, subagents } = snapshot;
        restore(*version, main, subagents, |settled, slot, facts| {
            for BlockFacts { id, facts: known } in &facts.blocks {
                insert(settled, slot, BlockFacts { id: id.clone(), facts: known.clone() })?;
            }
            Ok(())
        })
    }

    /// Restores the state from a snapshot's JSON, and spills closed blocks.
    ///
    /// Blocks are read one by one, so the state is never in memory as a whole.
    pub fn restore_spilling(
        json: &str,
        store: &Arc<dyn SpillStore>,
    ) -> Result<Self, SnapshotError> {
        let SnapshotText { version, main, subagents } = read_json(json)?;
        restore(version, &main, &subagents, |settled, slot, facts| {
            let mut read = 0;
            for_each(facts.blocks, |text| {
                insert(settled, slot, read_json(text)?)?;
                read += text.len();
                if read >= BATCH {
                    read = 0;
                    settled.conversation_mut(slot).spill(store, |_| false);
                }
                Ok(())
            })?;
            settled.conversation_mut(slot).spill(store, |_| false);
            Ok(())
        })
    }
}

pub(super) fn restore<B>(
    version: u32,
    main: &ConversationFacts<B>,
    subagents: &[SubagentFacts<B>],
    mut restore_blocks: impl FnMut(
        &mut SettledState,
        Slot,
        &ConversationFacts<B>,
    ) -> Result<(), SnapshotError>,
) -> Result<ConversationState, SnapshotError> {
    if version != VERSION {
        return Err(SnapshotError::Version { found: version });
    }
    let mut state = ConversationState::default();
    let settled = state.settled_mut();
    for (index, facts) in subagents.iter().enumerate() {
        for run in &facts.runs {
            for (count, order) in settled.run_counts.iter_mut().zip(run.order) {
                *count = (*count).max(order.map_or(0, |order| order + 1));
            }
        }
        if !facts.united {
            for run in &facts.runs {
                settled.calls.insert(run.tool_use_id.as_str(), index);
            }
            for bare in &facts.names.bare {
                settled.names.insert(bare, index);
            }
        }
        settled.subagents.push(facts.to_subagent());
    }
    settled.derive_interruptions();
    let of_subagents = subagents.iter().map(|facts| &facts.conversation).enumerate();
    let of_subagents = of_subagents.map(|(index, facts)| (Slot::Subagent(index), facts));
    for (slot, facts) in std::iter::once((Slot::Main, main)).chain(of_subagents) {
        restore_blocks(settled, slot, facts)?;
        restore_rare(settled.conversation_mut(slot), facts);
    }
    Ok(state)
}

/// Restores the tables of a conversation that are empty in most.
pub(super) fn restore_rare<B>(conversation: &mut Conversation, facts: &ConversationFacts<B>) {
    let is_usual = facts.aliases.is_empty()
        && facts.removed.is_empty()
        && facts.calls.is_empty()
        && facts.results.is_empty()
        && facts.compacted.iter().all(Option::is_none);
    if is_usual && !has_rare_calls(conversation) {
        return;
    }
    let rare = Arc::make_mut(&mut conversation.rare);
    rare.aliases = facts.aliases.iter().cloned().collect();
    rare.removed = facts.removed.iter().cloned().collect();
    rare.calls = facts.calls.iter().cloned().collect();
    rare.results = facts.results.iter().cloned().collect();
    rare.compacted.clone_from(&facts.compacted);
}

/// Returns whether restoring the blocks has filled a table that the snapshot has as empty.
fn has_rare_calls(conversation: &Conversation) -> bool {
    !conversation.rare.calls.is_empty() || !conversation.rare.results.is_empty()
}

/// Appends a block to its conversation.
fn insert(settled: &mut SettledState, slot: Slot, block: BlockFacts) -> Result<(), SnapshotError> {
    let BlockFacts { id, facts } = block;
    if settled.conversation(slot).position(&id).is_some() {
        let conversation = settled.conversation(slot).name.clone();
        return Err(SnapshotError::DuplicateBlock { block: id, conversation });
    }
    let run = settled.run(facts.call.as_ref());
    if let Some(call) = facts.call_of_block() {
        settled.note_caller(call, slot);
    }
    let conversation = settled.conversation_mut(slot);
    let shown = facts.show(&id, &conversation.name, run.as_ref(), conversation.is_interrupted);
    conversation.insert(conversation.len(), id, facts, shown);
    Ok(())
}

/// Replaces a block that is not in memory by the same one in memory.
pub(super) fn bring_in(settled: &mut SettledState, slot: Slot, position: usize, block: BlockFacts) {
    let BlockFacts { id, facts } = block;
    let run = settled.run(facts.call.as_ref());
    let conversation = settled.conversation_mut(slot);
    let shown = facts.show(&id, &conversation.name, run.as_ref(), conversation.is_interrupted);
    conversation.bring_in(position, id, facts, shown);
}

/// Calls `each` with the text of every element of a list.
fn for_each<'a>(
    list: &'a RawValue,
    each: impl FnMut(&'a str) -> Result<(), SnapshotError>,
) -> Result<(), SnapshotError> {
    struct ElementVisitor<F>(F);

    impl<'a, F: FnMut(&'a str) -> Result<(), SnapshotError>> Visitor<'a> for ElementVisitor<F> {
        type Value = Result<(), SnapshotError>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of blocks")
        }

        fn visit_seq<A: SeqAccess<'a>>(mut self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut done = Ok(());
            // `serde` requires that a list is read to its end, even after an error in an element.
            while let Some(element) = list.next_element::<&'a RawValue>()? {
                done = done.and_then(|()| (self.0)(element.get()));
            }
            Ok(done)
        }
    }

    serde::Deserializer::deserialize_seq(
        &mut serde_json::Deserializer::from_str(list.get()),
        ElementVisitor(each),
    )
    .map_err(|error| SnapshotError::unreadable(&error))?
}

fn read_json<'a, T: serde::Deserialize<'a>>(json: &'a str) -> Result<T, SnapshotError> {
    serde_json::from_str(json).map_err(|error| SnapshotError::unreadable(&error))
}
