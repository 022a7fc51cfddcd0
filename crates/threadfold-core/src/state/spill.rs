//! Spills closed blocks out of memory.
//!
//! A closed block of a long conversation is rarely read again. Its facts can be spilled as the JSON
//! that a snapshot contains; the entry keeps the location and a few flags that are read often. A
//! state with spilled blocks is equal to one without.

use std::sync::Arc;

use serde::Serialize;

use crate::block::{Block, BlockBody};
use crate::event::Rank;
use crate::hash::block_hash;
use crate::id::{BlockId, ConversationId};

use super::conversation::Conversation;
use super::entry::{Entry, Facts, Residence};
use super::snapshot::BlockFacts;
use super::{ConversationState, Slot};

/// How much text is collected before it is written to the store.
const BATCH: usize = 1 << 20;

/// Stores spilled text outside of memory, for a state that became large.
///
/// Methods return `None` instead of an error, because a reader of a state has no way to handle one:
/// the owner of the store must check whether it failed. A block that cannot be read back is shown
/// as empty, so a state is invalid once its store has failed.
pub trait SpillStore: Send + Sync {
    /// Appends text and returns the offset at which it begins; `None` on failure.
    fn put(&self, text: &[u8]) -> Option<u64>;

    /// Returns `length` bytes at `place`; `None` on failure.
    fn fetch(&self, place: u64, length: usize) -> Option<Vec<u8>>;

    /// Reports that the text at `place` is corrupt, which counts as a failure of the store.
    fn report_corruption(&self, place: u64);
}

/// What remains in memory of a spilled block.
#[derive(Clone)]
pub(crate) struct SpilledBlock {
    store: Arc<dyn SpillStore>,
    pub(super) place: u64,
    length: u32,
    /// The index of its type in [`BlockBody::KINDS`].
    kind: Option<u8>,
    known: [bool; 2],
    inactive: [bool; 2],
    conversation: ConversationId,
}

impl SpilledBlock {
    pub(super) fn is_known(&self, rank: Rank) -> bool {
        self.known[rank as usize]
    }

    pub(super) fn is_inactive(&self, rank: Rank) -> bool {
        self.inactive[rank as usize]
    }

    /// Returns true if the block may have this type.
    pub(super) fn may_be(&self, kind: &str) -> bool {
        self.kind.is_none_or(|it| BlockBody::KINDS.get(usize::from(it)) == Some(&kind))
    }

    pub(super) fn facts(&self) -> Facts {
        let Some(text) = self.store.fetch(self.place, self.length as usize) else {
            return Facts::default();
        };
        match serde_json::from_slice::<BlockFacts>(&text) {
            Ok(read) => read.facts,
            Err(_) => {
                self.store.report_corruption(self.place);
                Facts::default()
            }
        }
    }

    pub(super) fn shown(&self, id: &BlockId) -> Arc<Block> {
        self.facts().show_without_run(id, &self.conversation)
    }

    pub(super) fn store(&self) -> &Arc<dyn SpillStore> {
        &self.store
    }

    /// Returns the offset at which the text ends.
    pub(super) fn end(&self) -> u64 {
        self.place + u64::from(self.length)
    }

    /// Returns true if its text directly follows another's in the same store, after one comma.
    pub(super) fn follows(&self, end: u64, store: &Arc<dyn SpillStore>) -> bool {
        self.place == end + 1 && Arc::ptr_eq(&self.store, store)
    }
}

/// A block in the form that a snapshot contains.
#[derive(Serialize)]
pub(super) struct BlockText<'a> {
    pub(super) id: &'a BlockId,
    pub(super) facts: &'a Facts,
}

impl Entry {
    pub(super) fn spilled(&self) -> Option<&SpilledBlock> {
        match &self.residence {
            Residence::InMemory { .. } => None,
            Residence::Spilled(spilled) => Some(spilled),
        }
    }

    /// Returns the entry with its facts in memory.
    pub(super) fn loaded(&self) -> Entry {
        let mut entry = self.clone();
        if let Residence::Spilled(spilled) = &self.residence {
            let facts = spilled.facts();
            let shown = facts.show_without_run(&self.id, &spilled.conversation);
            entry.residence = Residence::InMemory { facts, shown };
        }
        entry
    }

    /// Appends the block's facts to `texts`, and returns the spilled entry; its offset is relative
    /// to the start of `texts`. Returns `None` if the block must stay in memory: it is open, or it
    /// shows more than its facts.
    fn spill(
        &self,
        conversation: &ConversationId,
        store: &Arc<dyn SpillStore>,
        texts: &mut Vec<u8>,
    ) -> Option<Entry> {
        let Residence::InMemory { facts, shown } = &self.residence else { return None };
        // An open block will change soon, and a subagent's block shows more than its facts.
        if facts.call.is_some() || shown.status.is_open() {
            return None;
        }
        let again = facts.show_without_run(&self.id, conversation);
        if !Arc::ptr_eq(&again, shown) && again != *shown {
            return None;
        }
        let start = texts.len();
        let written = serde_json::to_writer(&mut *texts, &BlockText { id: &self.id, facts });
        let length = u32::try_from(texts.len() - start).ok().filter(|_| written.is_ok());
        let Some(length) = length else {
            texts.truncate(start);
            return None;
        };
        // With the separator of a JSON list, a run of spilled blocks can be copied into a snapshot
        // as is.
        texts.push(b',');
        let kind = BlockBody::KINDS.iter().position(|it| *it == shown.body.kind());
        let spilled = SpilledBlock {
            store: store.clone(),
            place: start as u64,
            length,
            kind: kind.and_then(|it| u8::try_from(it).ok()),
            known: RANK_ORDER.map(|rank| facts.report(rank).known),
            inactive: RANK_ORDER.map(|rank| facts.report(rank).inactive),
            conversation: conversation.clone(),
        };
        // Cached before the facts leave memory: hashing the state must not read every spilled
        // block.
        self.hash.get_or_init(|| block_hash(shown));
        Some(Entry {
            label: self.label,
            id: self.id.clone(),
            hash: self.hash.clone(),
            residence: Residence::Spilled(spilled),
        })
    }

    /// Spills a block again that was spilled before it changed.
    pub(super) fn spill_again(
        self,
        conversation: &ConversationId,
        store: &Arc<dyn SpillStore>,
    ) -> Entry {
        let mut text = Vec::new();
        let spilled = self.spill(conversation, store, &mut text);
        match spilled.and_then(|entry| Some(entry.moved_by(store.put(&text)?))) {
            Some(entry) => entry,
            None => self,
        }
    }

    fn moved_by(mut self, start: u64) -> Entry {
        if let Residence::Spilled(spilled) = &mut self.residence {
            spilled.place += start;
        }
        self
    }
}

/// The ranks in the order of their discriminants.
const RANK_ORDER: [Rank; 2] = [Rank::Stream, Rank::Transcript];

impl Conversation {
    /// Returns the positions of the blocks that may be closed and in memory, in order.
    fn fresh_positions(&self) -> Vec<usize> {
        match &self.fresh {
            None => (0..self.len()).collect(),
            Some(fresh) => {
                let mut places: Vec<_> = fresh.iter().filter_map(|id| self.position(id)).collect();
                places.sort_unstable();
                places.dedup();
                places
            }
        }
    }

    /// Spills the closed blocks that are new since the last call.
    pub(super) fn spill(
        &mut self,
        store: &Arc<dyn SpillStore>,
        is_growing: impl Fn(&BlockId) -> bool,
    ) {
        let mut texts = Vec::new();
        let mut waiting: Vec<(usize, Entry)> = Vec::new();
        for position in self.fresh_positions() {
            let entry = &self.entries[position];
            if !is_growing(&entry.id)
                && let Some(spilled) = entry.spill(&self.name, store, &mut texts)
            {
                waiting.push((position, spilled));
            }
            if texts.len() >= BATCH {
                self.write_batch(store, &mut texts, &mut waiting);
            }
        }
        self.write_batch(store, &mut texts, &mut waiting);
        // A block that stays in memory is marked fresh again when it closes.
        self.fresh = Some(imbl::Vector::new());
    }

    fn write_batch(
        &mut self,
        store: &Arc<dyn SpillStore>,
        texts: &mut Vec<u8>,
        waiting: &mut Vec<(usize, Entry)>,
    ) {
        if !waiting.is_empty()
            && let Some(start) = store.put(texts)
        {
            for (position, entry) in waiting.drain(..) {
                self.entries.set(position, Arc::new(entry.moved_by(start)));
            }
        }
        waiting.clear();
        texts.clear();
    }

    fn has_fresh(&self) -> bool {
        self.fresh.as_ref().map_or(self.len() > 0, |fresh| !fresh.is_empty())
    }
}

impl ConversationState {
    /// Spills the closed blocks that are new since the last call.
    ///
    /// The state stays equal: it shows the same, has the same hash, and can be folded further. The
    /// cost is proportional to what is new. A spilled block is written again whenever it changes
    /// later.
    pub fn spill(&mut self, store: &Arc<dyn SpillStore>) {
        let subagents = (0..self.settled.subagents.len()).map(Slot::Subagent);
        for slot in std::iter::once(Slot::Main).chain(subagents) {
            if self.settled.conversation(slot).has_fresh() {
                let open = self.open.clone();
                let is_growing = |id: &BlockId| open.iter().any(|text| text.is_of(slot, id));
                self.settled_mut().conversation_mut(slot).spill(store, is_growing);
            }
        }
    }
}
