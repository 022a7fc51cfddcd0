//! The known gaps of OpenCode: what it reports in only one of bus and store.
//!
//! `known_gaps.txt` lists them.

use std::sync::LazyLock;

use threadfold_core::{Block, BlockBody, BlockStatus};

use super::facts;
use crate::parity::{BlockPlace, CrossCheck, KnownGap, ParityTable, Side, parse};

pub(crate) const TABLE: ParityTable = ParityTable {
    known_gaps: || &KNOWN_GAPS,
    explain_block,
    explain_field: |_, _| None,
    // Stream and store carry the same objects, so every field of one is in the other.
    is_shared: |_, _, _| true,
    paired: &facts::STORED,
    paired_if_stored: &[],
    paired_if_streamed: &[],
    cause_of: |_| None,
    omission_of: |_| None,
    facts: facts::reader,
    cross_check: |_, _| CrossCheck::default(),
    opens_turn: |_| false,
    stores_subagents_apart: true,
    // A part is stored before it is reported.
    loses_end_at_kill: false,
    loses_end_at_signal: None,
    leaves_prompts_in_queue: None,
    loses_subagents_at_exit: None,
    disorders_lines: None,
    omits_background: None,
    loses_results_at_cut: None,
    omits_after_interruption: None,
    is_unnamed: None,
    line_place: None,
    field_gap: |_| None,
};

static KNOWN_GAPS: LazyLock<Vec<KnownGap>> =
    LazyLock::new(|| parse(include_str!("known_gaps.txt")));

fn explain_block(_: &BlockPlace, block: &Block, side: Side) -> Option<&'static str> {
    match &block.body {
        _ if side == Side::Transcript => None,
        BlockBody::Permission(_) => Some("questions-in-stream"),
        // A prompt of version 2 waits in the inbox until it becomes a message.
        BlockBody::UserMessage(_) if block.status == BlockStatus::Pending => Some("v2-inbox"),
        _ => None,
    }
}
