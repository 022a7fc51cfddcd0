//! What OpenCode reports only in its stream, with the reason.

use threadfold_core::{Block, BlockBody};

use crate::agent::ParityTable;
use crate::parity::{BlockPlace, Rule, Side};

pub(super) const TABLE: ParityTable = ParityTable {
    rules: &[Rule {
        name: QUESTIONS,
        what: "`permission`, in the stream only",
        reason: "OpenCode stores the result of a tool and not the question that preceded it",
    }],
    explain_block,
    explain_field: |_, _| None,
    stores_subagents_apart: true,
};

const QUESTIONS: &str = "questions-in-stream";

fn explain_block(_: &BlockPlace, block: &Block, side: Side) -> Option<&'static str> {
    let is_question = matches!(block.body, BlockBody::Permission(_));
    (is_question && side == Side::Stream).then_some(QUESTIONS)
}
