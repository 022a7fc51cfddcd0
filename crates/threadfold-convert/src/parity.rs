//! What agents themselves do not keep on one side, as rows that the comparison looks up.
//!
//! The comparison of a stream's state with a transcript's is in the crate that folds them; what is
//! odd about an agent stays in the agent's folder.

use threadfold_core::{Block, Json};

use crate::Agent;

/// Something that an agent does not keep on one side, with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The row's name.
    pub name: &'static str,
    /// What it covers.
    pub what: &'static str,
    /// Why it is not on both sides.
    pub reason: &'static str,
}

/// One of the two sides that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// What the agent emitted while it worked.
    Stream,
    /// What the agent stored.
    Transcript,
}

/// The conversation in which a block is that only one side has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockPlace {
    /// How many subagents up the main conversation is; 0 for the main one itself.
    pub depth: usize,
    /// The transcript has this subagent, and no call that started it.
    pub is_uncalled: bool,
}

impl Agent {
    /// Returns what the agent does not keep on one side.
    pub fn parity_rules(self) -> &'static [Rule] {
        self.parity().rules
    }

    /// Returns the rule that explains a block which only one side has.
    pub fn explain_block(
        self,
        place: &BlockPlace,
        block: &Block,
        side: Side,
    ) -> Option<&'static str> {
        (self.parity().explain_block)(place, block, side)
    }

    /// Returns the rule that explains a field which only the transcript has: of a block of this
    /// type, or of a subagent itself.
    pub fn explain_field(self, block_type: Option<&Json>, field: &str) -> Option<&'static str> {
        (self.parity().explain_field)(block_type, field)
    }

    /// Says whether a subagent is stored apart from its parent, so that a transcript may lack it.
    pub fn stores_subagents_apart(self) -> bool {
        self.parity().stores_subagents_apart
    }
}
