//! One step in progress: the state, the rank of the source, and the changes so far.

use std::sync::Arc;

use crate::block::Block;
use crate::change::Change;
use crate::event::Rank;
use crate::id::{AgentId, ConversationId, ToolUseId};
use crate::outcome::{Anomaly, Outcome};
use crate::state::{
    Conversation, ConversationState, Facts, NameKind, SettledState, Slot, Subagent,
};

pub(super) struct Step<'a> {
    pub(super) state: &'a mut ConversationState,
    pub(super) rank: Rank,
    changes: Option<&'a mut Vec<Change>>,
    changed: bool,
}

impl<'a> Step<'a> {
    /// Returns a step that does not record changes.
    pub(super) fn new(state: &'a mut ConversationState, rank: Rank) -> Self {
        Self { state, rank, changes: None, changed: false }
    }

    /// Returns a step that appends its changes to `changes`.
    pub(super) fn recording(
        state: &'a mut ConversationState,
        rank: Rank,
        changes: &'a mut Vec<Change>,
    ) -> Self {
        Self { state, rank, changes: Some(changes), changed: false }
    }

    /// Records a change.
    pub(super) fn record_change(&mut self, change: impl FnOnce(&SettledState) -> Change) {
        self.record_state_change(|state| change(&state.settled));
    }

    /// Records a change that open texts are needed for.
    pub(super) fn record_state_change(
        &mut self,
        change: impl FnOnce(&ConversationState) -> Change,
    ) {
        self.changed = true;
        if let Some(changes) = &mut self.changes {
            changes.push(change(self.state));
        }
    }

    pub(super) fn outcome(&self) -> Outcome {
        if self.changed { Outcome::Applied } else { Outcome::Unchanged }
    }

    pub(super) fn outcome_with(&self, anomaly: Option<Anomaly>) -> Outcome {
        match anomaly {
            Some(anomaly) if self.changed => Outcome::Noted(anomaly),
            Some(anomaly) => Outcome::Ignored(anomaly),
            None => self.outcome(),
        }
    }

    pub(super) fn settled(&self) -> &SettledState {
        &self.state.settled
    }

    pub(super) fn conversation(&self, slot: Slot) -> &Conversation {
        self.state.settled.conversation(slot)
    }

    pub(super) fn conversation_mut(&mut self, slot: Slot) -> &mut Conversation {
        self.state.settled_mut().conversation_mut(slot)
    }

    /// Returns the conversation with this name.
    pub(super) fn find(&mut self, name: &ConversationId) -> Option<Slot> {
        let slot = self.settled().resolve(name)?;
        self.load(slot);
        Some(slot)
    }

    /// Returns the subagent that this call ran.
    pub(super) fn called_by(&mut self, call: &ToolUseId) -> Option<usize> {
        let index = self.settled().calls.get(call.as_str())?;
        self.load(Slot::Subagent(index));
        Some(index)
    }

    /// Holds a conversation in memory that this step is about to read.
    pub(super) fn load(&mut self, slot: Slot) {
        if let Slot::Subagent(index) = slot
            && !self.settled().subagents.is_in_memory(index)
        {
            self.state.settled_mut().subagents.load(index);
        }
    }

    /// Returns the conversation with this name. Creates a subagent if there is none, because its
    /// blocks may arrive before it is spawned.
    pub(super) fn find_or_create(&mut self, name: &ConversationId) -> Slot {
        if let Some(slot) = self.find(name) {
            return slot;
        }
        let mut subagent = Subagent::nameless();
        let agent = AgentId::from(name);
        subagent.conversation.name = name.clone();
        subagent.names.add(&agent, NameKind::Guessed);
        let index = self.add_subagent(subagent);
        self.state.settled_mut().names.insert(agent.bare(), index);
        self.header_changed(index);
        Slot::Subagent(index)
    }

    pub(super) fn add_subagent(&mut self, subagent: Subagent) -> usize {
        self.state.settled_mut().subagents.push(subagent)
    }

    pub(super) fn header_changed(&mut self, index: usize) {
        self.record_change(|settled| Change::SubagentChanged {
            conversation_id: settled.subagents[index].conversation.name.clone(),
            subagent: settled.subagents[index].header(),
        });
    }

    /// Returns the block that readers see, given `facts`.
    pub(super) fn show(
        &mut self,
        slot: Slot,
        id: &crate::id::BlockId,
        facts: &Facts,
    ) -> Arc<Block> {
        if let Some(call) = &facts.call {
            self.called_by(call);
        }
        let run = self.settled().run(facts.call.as_ref());
        let conversation = self.conversation(slot);
        facts.show(id, &conversation.name, run.as_ref(), conversation.is_interrupted)
    }

    /// Stores facts about the block at `position`, and records the resulting change. Returns the
    /// block that readers now see.
    pub(super) fn set(&mut self, slot: Slot, position: usize, facts: Facts) -> Arc<Block> {
        let entry = self.conversation(slot).at(position).expect("the position was just found");
        let (id, old) = (entry.id().into_owned(), entry.shown().into_owned());
        let shown = self.show(slot, &id, &facts);
        // Reusing the old `Arc` keeps the cached hash valid and avoids an empty change.
        let shown = if shown == old { old.clone() } else { shown };
        self.conversation_mut(slot).set(position, facts, shown.clone());
        if !Arc::ptr_eq(&shown, &old) {
            self.record_change(|settled| {
                let conversation_id = settled.conversation(slot).name.clone();
                if differ_in_marks_only(&old, &shown) {
                    Change::BlockMarked {
                        conversation_id,
                        block_id: id,
                        status: shown.status,
                        interrupted: shown.interrupted,
                        inactive: shown.inactive,
                    }
                } else {
                    Change::BlockReplaced { conversation_id, block: shown.clone() }
                }
            });
        }
        shown
    }

    /// Recomputes the block at `position` after something that it depends on changed.
    pub(super) fn refresh(&mut self, slot: Slot, position: usize) {
        if let Some(entry) = self.conversation(slot).at(position) {
            let facts = entry.facts().into_owned();
            self.set(slot, position, facts);
        }
    }

    /// Recomputes the blocks of a call in every conversation that contains it.
    pub(super) fn refresh_call(&mut self, call: &ToolUseId) {
        let Some(index) = self.called_by(call) else { return };
        let edges = self.settled().subagents[index].run(call).map(|run| run.edges.clone());
        for slot in edges.unwrap_or_default() {
            self.load(slot);
            let places = self.conversation(slot).edges_of(call);
            places.into_iter().for_each(|position| self.refresh(slot, position));
        }
    }
}

fn differ_in_marks_only(a: &Block, b: &Block) -> bool {
    let mut marked = a.clone();
    marked.status = b.status;
    marked.interrupted = b.interrupted;
    marked.inactive = b.inactive;
    marked == *b
}
