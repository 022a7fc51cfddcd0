//! Rules for what an agent reports in only one of stream and transcript.
//!
//! The crate that folds both also compares them; the rules stay in each agent's folder.

use threadfold_core::{Block, Json};

use crate::Agent;

/// Something that an agent reports on one side only, with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The rule's name.
    pub name: &'static str,
    /// What it covers.
    pub what: &'static str,
    /// Why it is on one side only.
    pub reason: &'static str,
}

/// One of the two sides of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The agent's live stream.
    Stream,
    /// The agent's stored session.
    Transcript,
}

/// The conversation of a block that only one side has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockPlace {
    /// The depth of nesting: 0 for the main conversation, 1 for its subagents.
    pub depth: usize,
    /// The transcript has this subagent, but no call that started it.
    pub is_uncalled: bool,
}

impl Agent {
    /// Returns the rules for what the agent reports on one side only.
    pub fn parity_rules(self) -> &'static [Rule] {
        self.parity().rules
    }

    /// Returns the rule that explains a block on one side only.
    pub fn explain_block(
        self,
        place: &BlockPlace,
        block: &Block,
        side: Side,
    ) -> Option<&'static str> {
        (self.parity().explain_block)(place, block, side)
    }

    /// Returns the rule that explains a field that only the transcript has: of a block of this
    /// type, or of a subagent itself.
    pub fn explain_field(self, block_type: Option<&Json>, field: &str) -> Option<&'static str> {
        (self.parity().explain_field)(block_type, field)
    }

    /// Returns whether subagents are stored apart from their parent, so that a transcript may lack
    /// one entirely.
    pub fn stores_subagents_apart(self) -> bool {
        self.parity().stores_subagents_apart
    }
}
