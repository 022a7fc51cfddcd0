//! When closed blocks of a large conversation leave memory.

use std::sync::Arc;

use threadfold_core::{ConversationState, SpillStore};

/// Where a fold spills closed blocks, and how much it holds in memory before that.
#[derive(Clone)]
pub(crate) struct Spill {
    budget: usize,
    /// How many bytes of records came since blocks were spilled last.
    pending: usize,
    target: Arc<dyn SpillStore>,
}

impl Spill {
    pub(crate) fn new(target: Arc<dyn SpillStore>, budget: usize) -> Self {
        Self { budget, pending: 0, target }
    }

    /// Spills closed blocks if more records came than are held in memory.
    pub(crate) fn after_record(&mut self, bytes: usize, conversation: &mut ConversationState) {
        self.pending += bytes;
        if self.pending > self.budget {
            self.pending = 0;
            conversation.spill(&self.target);
        }
    }

    /// Prepares for a conversation of this many bytes; returns where its blocks go if it is larger
    /// than what is held in memory.
    pub(crate) fn prepare(&mut self, bytes: usize) -> Option<Arc<dyn SpillStore>> {
        self.pending = if bytes > self.budget { 0 } else { bytes };
        (bytes > self.budget).then(|| self.target.clone())
    }
}
