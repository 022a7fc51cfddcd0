//! What one side must lack in some runs, each named: the comparison is then partial.

use std::collections::BTreeSet;

use serde::Serialize;
use threadfold_core::{Block, BlockBody, BlockId, Json};

use super::{Pair, Sides, listed};
use threadfold_convert::parity::Side;

/// What one side lacks, though nothing is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lack {
    /// The stream lacks a subagent's words: it was not asked to forward them.
    SubagentWords,
    /// The stream began at a resume and lacks the earlier turns.
    EarlierTurns,
    /// The file ends at a kill, before what had been streamed.
    FileEndsAtKill,
    /// The files lack a subagent's: the agent stores it apart.
    SubagentFile,
}

impl Lack {
    /// Returns what is missing, and on which side.
    pub fn description(self) -> &'static str {
        match self {
            Self::SubagentWords => {
                "the stream lacks subagents' words (it was not asked to forward them)"
            }
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

/// Returns why a block on one side only must be so in a run like this.
pub(super) fn of(sides: &Sides<'_>, block: &Block, side: Side) -> Option<Lack> {
    match side {
        Side::Transcript if sides.pair.depth == 0 => {
            sides.earlier.contains(&block.id).then_some(Lack::EarlierTurns)
        }
        Side::Transcript if is_earlier(sides) => Some(Lack::EarlierTurns),
        Side::Transcript => is_unforwarded(sides, block).then_some(Lack::SubagentWords),
        Side::Stream if is_unexported(sides) => Some(Lack::SubagentFile),
        Side::Stream => is_behind_the_file(sides, block).then_some(Lack::FileEndsAtKill),
    }
}

/// The subagent was called in a turn that the stream does not have.
fn is_earlier(sides: &Sides<'_>) -> bool {
    let call = sides.pair.headers[1].as_ref().and_then(|header| header.tool_use_id.as_ref());
    sides.stream.is_empty() && call.is_some_and(|call| sides.earlier.contains(&BlockId::from(call)))
}

/// A subagent's words, where the stream has none of them; of a nested one, all it does.
fn is_unforwarded(sides: &Sides<'_>, block: &Block) -> bool {
    let is_words =
        |block: &Block| matches!(block.body, BlockBody::AssistantText(_) | BlockBody::Thinking(_));
    let has_words = sides.stream.iter().any(is_words);
    !has_words && (is_words(block) || sides.pair.depth > 1)
}

/// A subagent that is stored apart, of which the files have nothing.
fn is_unexported(sides: &Sides<'_>) -> bool {
    sides.pair.agent.stores_subagents_apart()
        && sides.pair.depth > 0
        && sides.in_transcript.is_empty()
}

/// Something that the stream said after all that the file has.
fn is_behind_the_file(sides: &Sides<'_>, block: &Block) -> bool {
    let last_common =
        sides.stream.iter().rposition(|streamed| sides.in_transcript.contains_key(&streamed.id));
    let place = sides.stream.iter().position(|streamed| streamed.id == block.id);
    place > last_common
}

/// Returns the blocks of the turns before the stream began: all before the prompt of its first.
pub(super) fn earlier_calls(main: &Pair<'_>) -> BTreeSet<BlockId> {
    let stream = listed(main.stream);
    let transcript = listed(main.transcript);
    let common = |block: &Block| stream.iter().any(|streamed| streamed.id == block.id);
    let first = transcript.iter().position(common).unwrap_or(transcript.len());
    let is_prompt = |block: &Block| matches!(block.body, BlockBody::UserMessage(_));
    let began = transcript[..first].iter().rposition(is_prompt).unwrap_or(0);
    transcript[..began].iter().map(|block| block.id.clone()).collect()
}

/// Returns why a call looks unanswered in the file: its answer is what the file lacks.
pub(super) fn of_field(
    sides: &Sides<'_>,
    block: &BlockId,
    name: &str,
    transcript: Option<&Json>,
) -> Option<Lack> {
    let result = BlockId::from(format!("result:{block}"));
    let unanswered = name == "interrupted" && transcript.is_some();
    let answer = sides.in_stream.get(&result).filter(|_| unanswered)?;
    of(sides, answer, Side::Stream)
}
