//! Blocks that are held outside of memory.
//!
//! A closed block of a long conversation is seldom looked at again. What is known of it can be
//! put away as the text that a snapshot has of it; what stays is a place, and a few marks that
//! are looked at in passing. A state with blocks put away is equal to one without.

use std::sync::Arc;

use serde::Serialize;

use crate::block::{Block, BlockBody};
use crate::event::Rank;
use crate::hash::block_hash;
use crate::id::{BlockId, ConversationId};

use super::conversation::Conversation;
use super::entry::{Entry, Facts, Kept};
use super::snapshot::BlockFacts;
use super::{ConversationState, Slot};

/// As much text is gathered before it is handed to a shelf.
const BATCH: usize = 1 << 20;

/// Holds text outside of memory, for a state that became large.
///
/// A shelf never fails aloud, for a reader of a state has nobody to tell: it answers nothing, and
/// its owner asks it whether it failed. A block whose text cannot be fetched is shown as an empty
/// one, so a state is not to be believed once its shelf has failed.
pub trait Shelf: Send + Sync {
    /// Puts text behind all that it holds, and returns where it begins; nothing if it cannot.
    fn put(&self, text: &[u8]) -> Option<u64>;

    /// Returns what stands at a place; nothing if it cannot be read.
    fn fetch(&self, place: u64, length: usize) -> Option<Vec<u8>>;

    /// Hears that what was fetched from a place is not what was put there: it has failed.
    fn hear_damage(&self, place: u64);
}

/// What stays of a block that was put away.
#[derive(Clone)]
pub(crate) struct Away {
    shelf: Arc<dyn Shelf>,
    pub(super) place: u64,
    length: u32,
    /// Where it stands among the types that this version knows.
    kind: Option<u8>,
    known: [bool; 2],
    inactive: [bool; 2],
    conversation: ConversationId,
}

impl Away {
    pub(super) fn is_known(&self, rank: Rank) -> bool {
        self.known[rank as usize]
    }

    pub(super) fn is_inactive(&self, rank: Rank) -> bool {
        self.inactive[rank as usize]
    }

    /// Says whether the block may be of this type.
    pub(super) fn may_be(&self, kind: &str) -> bool {
        self.kind.is_none_or(|it| BlockBody::KINDS.get(usize::from(it)) == Some(&kind))
    }

    pub(super) fn facts(&self) -> Facts {
        let Some(text) = self.shelf.fetch(self.place, self.length as usize) else {
            return Facts::default();
        };
        match serde_json::from_slice::<BlockFacts>(&text) {
            Ok(read) => read.facts,
            Err(_) => {
                self.shelf.hear_damage(self.place);
                Facts::default()
            }
        }
    }

    pub(super) fn shown(&self, id: &BlockId) -> Arc<Block> {
        self.facts().show(id, &self.conversation, None)
    }

    pub(super) fn shelf(&self) -> &Arc<dyn Shelf> {
        &self.shelf
    }

    /// Returns where the text ends.
    pub(super) fn end(&self) -> u64 {
        self.place + u64::from(self.length)
    }

    /// Says whether its text follows another's on the same shelf, with a comma between.
    pub(super) fn follows(&self, end: u64, shelf: &Arc<dyn Shelf>) -> bool {
        self.place == end + 1 && Arc::ptr_eq(&self.shelf, shelf)
    }
}

/// A block as a snapshot has it.
#[derive(Serialize)]
pub(super) struct BlockText<'a> {
    pub(super) id: &'a BlockId,
    pub(super) facts: &'a Facts,
}

impl Entry {
    pub(super) fn away(&self) -> Option<&Away> {
        match &self.kept {
            Kept::Here { .. } => None,
            Kept::Away(away) => Some(away),
        }
    }

    /// Returns the entry as it is in memory.
    pub(super) fn fetched(&self) -> Entry {
        let mut entry = self.clone();
        if let Kept::Away(away) = &self.kept {
            let facts = away.facts();
            let shown = facts.show(&self.id, &away.conversation, None);
            entry.kept = Kept::Here { facts, shown };
        }
        entry
    }

    /// Appends to `texts` what is known of the block, and returns the entry that it has once they
    /// stand on the shelf; its place is counted from where they begin. Nothing if it is to stay in
    /// memory: while it is open, and where it shows more than what was said of it.
    fn put_away(
        &self,
        conversation: &ConversationId,
        shelf: &Arc<dyn Shelf>,
        texts: &mut Vec<u8>,
    ) -> Option<Entry> {
        let Kept::Here { facts, shown } = &self.kept else { return None };
        if facts.call.is_some() || shown.status.is_open() {
            return None;
        }
        let again = facts.show(&self.id, conversation, None);
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
        texts.push(b',');
        let kind = BlockBody::KINDS.iter().position(|it| *it == shown.body.kind());
        let away = Away {
            shelf: shelf.clone(),
            place: start as u64,
            length,
            kind: kind.and_then(|it| u8::try_from(it).ok()),
            known: RANK_ORDER.map(|rank| facts.said(rank).known),
            inactive: RANK_ORDER.map(|rank| facts.said(rank).inactive),
            conversation: conversation.clone(),
        };
        self.hash.get_or_init(|| block_hash(shown));
        Some(Entry {
            label: self.label,
            id: self.id.clone(),
            hash: self.hash.clone(),
            kept: Kept::Away(away),
        })
    }

    /// Puts a block away that was away before something of it changed.
    pub(super) fn put_back(self, conversation: &ConversationId, shelf: &Arc<dyn Shelf>) -> Entry {
        let mut text = Vec::new();
        let away = self.put_away(conversation, shelf, &mut text);
        match away.and_then(|entry| Some(entry.moved_by(shelf.put(&text)?))) {
            Some(entry) => entry,
            None => self,
        }
    }

    fn moved_by(mut self, start: u64) -> Entry {
        if let Kept::Away(away) = &mut self.kept {
            away.place += start;
        }
        self
    }
}

/// The ranks in the order of their numbers.
const RANK_ORDER: [Rank; 2] = [Rank::Stream, Rank::Transcript];

impl Conversation {
    /// Returns where the blocks stand that may be in memory and closed, in their order.
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

    /// Puts closed blocks away, all that are new since the last time.
    pub(super) fn put_away(
        &mut self,
        shelf: &Arc<dyn Shelf>,
        is_growing: impl Fn(&BlockId) -> bool,
    ) {
        let mut texts = Vec::new();
        let mut waiting: Vec<(usize, Entry)> = Vec::new();
        for position in self.fresh_positions() {
            let entry = &self.entries[position];
            if !is_growing(&entry.id)
                && let Some(away) = entry.put_away(&self.name, shelf, &mut texts)
            {
                waiting.push((position, away));
            }
            if texts.len() >= BATCH {
                self.hand_over(shelf, &mut texts, &mut waiting);
            }
        }
        self.hand_over(shelf, &mut texts, &mut waiting);
        // What stays is set once more when it is closed, and is fresh again then.
        self.fresh = Some(imbl::Vector::new());
    }

    fn hand_over(
        &mut self,
        shelf: &Arc<dyn Shelf>,
        texts: &mut Vec<u8>,
        waiting: &mut Vec<(usize, Entry)>,
    ) {
        if !waiting.is_empty()
            && let Some(start) = shelf.put(texts)
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
    /// Puts the closed blocks away that are new since the last time.
    ///
    /// The state stays what it is: it shows the same, has the same hash, and is folded on. Costs
    /// what is new, and writes each block once more when something of it changes later.
    pub fn put_away(&mut self, shelf: &Arc<dyn Shelf>) {
        let subagents = (0..self.settled.subagents.len()).map(Slot::Subagent);
        for slot in std::iter::once(Slot::Main).chain(subagents) {
            if self.settled.conversation(slot).has_fresh() {
                let open = self.open.clone();
                let is_growing = |id: &BlockId| open.iter().any(|text| text.is_of(slot, id));
                self.settled_mut().conversation_mut(slot).put_away(shelf, is_growing);
            }
        }
    }
}
