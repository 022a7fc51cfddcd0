//! Open texts: texts that are growing, kept outside the trees.
//!
//! The tree stores a block's text as a length in a shared buffer. A delta writes into the buffer
//! and raises the length here. The length is written back into the tree only when another event
//! concerns the block, or when too many texts grow at once.

use std::sync::Arc;

use crate::block::Block;
use crate::event::{Rank, TextField};
use crate::id::{BlockId, ConversationId};
use crate::text::{Buffer, Text};

use super::order::Label;
use super::{ConversationState, Entry, Slot};

mod texts;

pub(crate) use texts::OpenTexts;

/// How many texts can be open at once before one is written back.
pub(crate) const OPEN_LIMIT: usize = 16;

/// A text that is growing.
#[derive(Clone)]
pub(crate) struct OpenText {
    pub(crate) slot: Slot,
    /// The label that its block had when the text was opened.
    pub(crate) label: Label,
    /// The conversation's name, as the deltas spell it.
    pub(crate) addressed_as: ConversationId,
    /// The conversation's name, as the state shows it.
    pub(crate) name: ConversationId,
    pub(crate) block: BlockId,
    pub(crate) field: TextField,
    pub(crate) rank: Rank,
    pub(crate) buffer: Buffer,
}

impl ConversationState {
    /// Opens a text whose current length is `length`.
    pub(crate) fn open_text(&mut self, text: OpenText, length: u32) -> usize {
        // The lengths are a fixed array, so that cloning a state copies no heap data for them.
        if self.open.len() == OPEN_LIMIT {
            self.settle(0);
        }
        let index = self.open.len();
        Arc::make_mut(&mut self.open).push(text);
        self.lengths[index] = length;
        index
    }

    /// Returns the block with its open text at the length that it has in this state.
    pub(crate) fn with_open_text(&self, slot: Slot, entry: &Entry) -> Option<Block> {
        let conversation = || self.settled.conversation(slot);
        let grown = self
            .open
            .iter()
            .zip(self.lengths)
            .find(|(open, _)| open.slot == slot && conversation().is_block(entry, &open.block));
        let (open, length) = grown?;
        let mut shown = Block::clone(&entry.shown());
        if let Some(text) = shown.text_mut(open.field) {
            *text = Text::in_buffer(open.buffer.clone(), length as usize);
        }
        Some(shown)
    }

    /// Writes the open texts of one block back into the tree.
    pub(crate) fn settle_block(&mut self, slot: Slot, block: &BlockId) {
        while let Some(index) = self.open.find(block, 0, |open| open.slot == slot) {
            self.settle(index);
        }
    }

    /// Returns whether a text of a block is open.
    pub(crate) fn has_open_text(&self, slot: Slot, block: &BlockId) -> bool {
        self.open.find(block, 0, |open| open.slot == slot).is_some()
    }

    /// Writes the open texts of a conversation back into the tree.
    pub(crate) fn settle_conversation(&mut self, slot: Slot) {
        while let Some(index) = self.open.first_of(slot) {
            self.settle(index);
        }
    }

    fn settle(&mut self, index: usize) {
        let length = self.lengths[index] as usize;
        self.lengths.copy_within(index + 1.., index);
        let open = Arc::make_mut(&mut self.open).remove(index);
        let conversation = self.settled_mut().conversation_mut(open.slot);
        let Some((position, entry)) = conversation.find_near(&open.block, open.label) else {
            return;
        };

        let mut facts = entry.facts().into_owned();
        if let Some(block) = &mut facts.report_mut(open.rank).block
            && let Some(text) = Arc::make_mut(block).text_mut(open.field)
        {
            *text = Text::in_buffer(open.buffer.clone(), length);
        }
        // No run is passed: only a block that a single rank reported can be open, never a
        // subagent's.
        let interrupted = conversation.is_interrupted;
        let shown = facts.show(&open.block, &conversation.name, None, interrupted);
        conversation.set_grown(position, facts, shown);
    }
}
