//! What an agent's folder provides for comparing stream and transcript.

use threadfold_core::{Block, Json};

use super::{
    BlockPlace, CrossCheck, FactReader, Facts, FieldPlace, KnownGap, LinePlace, RecordName, Side,
    Versions,
};

/// What an agent reports in only one of stream and transcript, and how it is recognized.
pub(crate) struct ParityTable {
    /// Returns the known gaps.
    pub(crate) known_gaps: fn() -> &'static [KnownGap],
    /// Returns the known gap that explains a block on one side only.
    pub(crate) explain_block: fn(&BlockPlace, &Block, Side) -> Option<&'static str>,
    /// Returns the known gap that explains a field that only the transcript has: of a block of
    /// this type, or of a subagent itself.
    pub(crate) explain_field: fn(block_type: Option<&Json>, field: &str) -> Option<&'static str>,
    /// Returns whether both sides of this version carry this field of a record.
    pub(crate) is_shared: fn(record: &str, field: &str, version: Option<&str>) -> bool,
    /// Kinds of records that no block shows, so that one without a counterpart is a difference.
    pub(crate) paired: &'static [&'static str],
    /// The same for records that the stream may have alone.
    pub(crate) paired_if_stored: &'static [&'static str],
    /// The same for records that the transcript may have alone.
    pub(crate) paired_if_streamed: &'static [&'static str],
    /// Returns the record that one of these follows from, as a result from its call.
    pub(crate) cause_of: fn(&RecordName) -> Option<RecordName>,
    /// Returns the known gap of a record that may be missing although its cause is on both sides.
    pub(crate) omission_of: fn(&RecordName) -> Option<&'static str>,
    /// Returns a reader of what the records state.
    pub(crate) facts: fn() -> Box<dyn FactReader>,
    /// Compares what one side reports in sum with what both report one by one, and finds lines for
    /// which there is no evidence.
    pub(crate) cross_check: fn(stream: &Facts, transcript: &Facts) -> CrossCheck,
    /// Returns whether a block of the main conversation opens a turn.
    pub(crate) opens_turn: fn(&Block) -> bool,
    /// Subagents are stored apart from their parent, so a transcript may lack one entirely.
    pub(crate) stores_subagents_apart: bool,
    /// The agent buffers what it stores, so a kill loses the end of it.
    pub(crate) loses_end_at_kill: bool,
    /// The versions that exit at a signal before they have stored everything.
    pub(crate) loses_end_at_signal: Option<Versions>,
    /// The versions whose files may have a prompt in the queue only, and not as a message.
    pub(crate) leaves_prompts_in_queue: Option<Versions>,
    /// The versions that may exit before they have written the file of a subagent.
    pub(crate) loses_subagents_at_exit: Option<Versions>,
    /// The versions that may write lines before the lines that they continue.
    pub(crate) disorders_lines: Option<Versions>,
    /// The versions whose stream omits what background subagents do.
    pub(crate) omits_background: Option<Versions>,
    /// The versions that do not store the result of a call if the response was cut off.
    pub(crate) loses_results_at_cut: Option<Versions>,
    /// The versions whose stream omits what subagents do after their caller was interrupted.
    pub(crate) omits_after_interruption: Option<Versions>,
    /// Returns whether a line is of a stream that names nothing, so that its blocks get the names of
    /// the transcript. Such a stream repeats no prompts, and the agent's other streams do.
    pub(crate) is_unnamed: Option<fn(&[u8]) -> bool>,
    /// Returns what a line of a file says about its own place, if the agent's lines do.
    pub(crate) line_place: Option<fn(&[u8]) -> LinePlace>,
    /// Returns the known gap that explains a field on one side only, where that depends on more than
    /// the type of the block.
    pub(crate) field_gap: fn(&FieldPlace<'_>) -> Option<&'static str>,
}
