//! What one side lacks in some runs, through no fault of the converters.

use std::collections::BTreeSet;

use serde::Serialize;
use threadfold_convert::parity::Side;
use threadfold_core::{Block, BlockBody, BlockId, Json};

use super::pair::{Pair, Sides, collect_blocks};

/// What one side lacks in a run, for a known reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lack {
    /// The stream lacks a subagent's text: forwarding was not enabled.
    SubagentWords,
    /// The stream began when the session was resumed, and lacks the earlier turns.
    EarlierTurns,
    /// The agent was killed before it wrote to the file what it had streamed.
    FileEndsAtKill,
    /// The files lack a subagent, which the agent stores apart.
    SubagentFile,
}

impl Lack {
    /// Returns what is missing, and on which side.
    pub fn description(self) -> &'static str {
        match self {
            Self::SubagentWords => "the stream lacks subagents' text (forwarding was not enabled)",
            Self::EarlierTurns => {
                "the stream lacks the turns before it began (the session was resumed)"
            }
            Self::FileEndsAtKill => {
                "the file lacks what had been streamed when the agent was killed"
            }
            Self::SubagentFile => {
                "the files lack what a subagent said (the agent exports subagents one by one)"
            }
        }
    }
}

/// Returns the known reason why a block is on one side only.
pub(super) fn of(sides: &Sides<'_>, block: &Block, side: Side) -> Option<Lack> {
    match side {
        Side::Transcript if sides.pair.depth == 0 => {
            sides.earlier.contains(&block.id).then_some(Lack::EarlierTurns)
        }
        Side::Transcript if is_earlier(sides) => Some(Lack::EarlierTurns),
        Side::Transcript => is_unforwarded(sides, block).then_some(Lack::SubagentWords),
        Side::Stream if is_unexported(sides) => Some(Lack::SubagentFile),
        Side::Stream => is_after_end_of_file(sides, block).then_some(Lack::FileEndsAtKill),
    }
}

/// Returns whether the subagent was called in a turn before the stream began.
fn is_earlier(sides: &Sides<'_>) -> bool {
    let call = sides.pair.headers[1].as_ref().and_then(|header| header.tool_use_id.as_ref());
    sides.stream.is_empty() && call.is_some_and(|call| sides.earlier.contains(&BlockId::from(call)))
}

/// Returns whether a block is text of a subagent whose text the stream lacks entirely.
///
/// Without forwarding, the stream lacks every block of a nested subagent.
fn is_unforwarded(sides: &Sides<'_>, block: &Block) -> bool {
    let is_text =
        |block: &Block| matches!(block.body, BlockBody::AssistantText(_) | BlockBody::Thinking(_));
    let has_text = sides.stream.iter().any(is_text);
    !has_text && (is_text(block) || sides.pair.depth > 1)
}

/// Returns whether this is a subagent that is stored apart and missing in the files.
fn is_unexported(sides: &Sides<'_>) -> bool {
    sides.pair.agent.stores_subagents_apart()
        && sides.pair.depth > 0
        && sides.in_transcript.is_empty()
}

/// Returns whether the stream has the block after everything that the file has.
fn is_after_end_of_file(sides: &Sides<'_>, block: &Block) -> bool {
    let last_common =
        sides.stream.iter().rposition(|streamed| sides.in_transcript.contains_key(&streamed.id));
    let place = sides.stream.iter().position(|streamed| streamed.id == block.id);
    place > last_common
}

/// Returns the blocks of the turns before the stream began: everything before the prompt that
/// precedes the first common block.
pub(super) fn earlier_calls(main: &Pair<'_>) -> BTreeSet<BlockId> {
    let stream = collect_blocks(main.stream);
    let transcript = collect_blocks(main.transcript);
    let common = |block: &Block| stream.iter().any(|streamed| streamed.id == block.id);
    let first = transcript.iter().position(common).unwrap_or(transcript.len());
    let is_prompt = |block: &Block| matches!(block.body, BlockBody::UserMessage(_));
    let began = transcript[..first].iter().rposition(is_prompt).unwrap_or(0);
    transcript[..began].iter().map(|block| block.id.clone()).collect()
}

/// Returns the known reason why a call is interrupted in the file only: the file lacks its result.
pub(super) fn of_field(
    sides: &Sides<'_>,
    block: &BlockId,
    name: &str,
    transcript: Option<&Json>,
) -> Option<Lack> {
    let result = BlockId::from(format!("result:{block}"));
    let is_unanswered = name == "interrupted" && transcript.is_some();
    let answer = sides.in_stream.get(&result).filter(|_| is_unanswered)?;
    of(sides, answer, Side::Stream)
}
