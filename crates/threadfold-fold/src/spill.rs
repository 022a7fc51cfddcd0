//! Decides when the closed blocks of a large conversation are spilled.

use std::sync::Arc;

use threadfold_core::{ConversationState, SpillStore};

/// Where a fold spills closed blocks, and how much it holds in memory.
#[derive(Clone)]
pub(crate) struct Spill {
    budget: usize,
    /// The bytes of records since the last spill.
    pending: usize,
    target: Arc<dyn SpillStore>,
}

impl Spill {
    pub(crate) fn new(target: Arc<dyn SpillStore>, budget: usize) -> Self {
        Self { budget, pending: 0, target }
    }

    /// Spills closed blocks if the records since the last spill exceed the budget.
    pub(crate) fn after_record(&mut self, bytes: usize, conversation: &mut ConversationState) {
        self.pending += bytes;
        if self.pending > self.budget {
            self.pending = 0;
            conversation.spill(&self.target);
        }
    }

    /// Prepares for a restored conversation of `bytes`; returns the target if it exceeds the budget.
    pub(crate) fn prepare(&mut self, bytes: usize) -> Option<Arc<dyn SpillStore>> {
        self.pending = if bytes > self.budget { 0 } else { bytes };
        (bytes > self.budget).then(|| self.target.clone())
    }
}
