//! Decides when the closed blocks of a large conversation are spilled.

use std::sync::Arc;

use threadfold_core::{ConversationState, SpillStore};

/// The memory that an event may take beside the bytes of its record: a block and its step.
const EVENT_WEIGHT: usize = 4 << 10;

/// Where a fold spills closed blocks, and how much it holds in memory.
#[derive(Clone)]
pub(crate) struct Spill {
    budget: usize,
    /// The memory that records since the last spill may take.
    pending: usize,
    target: Arc<dyn SpillStore>,
}

impl Spill {
    pub(crate) fn new(target: Arc<dyn SpillStore>, budget: usize) -> Self {
        Self { budget, pending: 0, target }
    }

    /// Counts a record.
    pub(crate) fn count_record(&mut self, bytes: usize) {
        self.pending += bytes;
    }

    /// Spills closed blocks if the records and events since the last spill exceed the budget.
    pub(crate) fn after_event(&mut self, conversation: &mut ConversationState) {
        self.pending += EVENT_WEIGHT;
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
