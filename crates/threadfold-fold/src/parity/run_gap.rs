//! Gaps of a run: what one side lacks in some runs, through no fault of the converters.

use serde::Serialize;
use threadfold_convert::parity::Side;
use threadfold_core::{Block, BlockBody, BlockId};

use super::pair::{Run, Shared, Sides, is_words, prompt_text};

/// What one side lacks in a run, for a known reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunGap {
    /// The stream lacks a subagent's text: forwarding was not enabled.
    SubagentWords,
    /// The stream began when the session was resumed, and lacks the earlier turns.
    EarlierTurns,
    /// The agent was killed before it wrote to the file what it had streamed.
    FileEndsAtKill,
    /// The agent was interrupted by a signal, and exited before it wrote what it had streamed.
    FileEndsAtSignal,
    /// The files lack a subagent, which the agent stores apart.
    SubagentFile,
    /// The stream lacks how an interruption ended the calls of a subagent.
    SubagentInterruption,
    /// The file has a prompt in its queue only: the agent received it while it worked.
    QueuedPrompt,
    /// The stream ended before the agent reported which subagent a call started.
    StreamEndsAtKill,
    /// The file lacks an answer that was cut off: the agent replaced it by another one.
    ReplacedAnswer,
    /// The stream continued in another session, whose transcript was not given.
    OtherSession,
    /// The file has the output of a tool without its middle.
    ShortenedOutput,
    /// The stream has parallel calls in the order in which they started.
    ParallelOrder,
    /// The file lacks the result of a call: the connection to the model was cut while it ran.
    CutResult,
    /// The stream lacks what a subagent did after its caller was interrupted.
    AfterInterruption,
    /// The stream lacks hooks: its host did not ask for them.
    UnstreamedHooks,
    /// The file lacks its order: the agent wrote lines before the lines that they continue.
    FileOrder,
    /// The files lack a subagent's file: the agent exited before it wrote it.
    UnwrittenSubagent,
}

impl RunGap {
    /// Returns the side that has what the other one lacks.
    pub fn side(self) -> Side {
        match self {
            Self::SubagentWords
            | Self::EarlierTurns
            | Self::SubagentInterruption
            | Self::StreamEndsAtKill
            | Self::ParallelOrder
            | Self::AfterInterruption
            | Self::UnstreamedHooks => Side::Transcript,
            Self::FileEndsAtKill
            | Self::FileEndsAtSignal
            | Self::SubagentFile
            | Self::QueuedPrompt
            | Self::ReplacedAnswer
            | Self::OtherSession
            | Self::ShortenedOutput
            | Self::CutResult
            | Self::FileOrder
            | Self::UnwrittenSubagent => Side::Stream,
        }
    }

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
            Self::FileEndsAtSignal => {
                "the file lacks what had been streamed when a signal interrupted the agent"
            }
            Self::SubagentFile => {
                "the files lack a subagent's blocks (the agent exports subagents one by one)"
            }
            Self::SubagentInterruption => {
                "the stream lacks how an interrupted subagent's open calls ended"
            }
            Self::QueuedPrompt => {
                "the file has a prompt that was queued in its queue only, and not as a message"
            }
            Self::StreamEndsAtKill => {
                "the stream lacks what the agent had not reported when it was stopped"
            }
            Self::ReplacedAnswer => {
                "the file lacks an answer that was cut off, which the agent replaced by another one"
            }
            Self::OtherSession => {
                "the transcript lacks another session of the stream (a command began a new one)"
            }
            Self::ShortenedOutput => "the file lacks the middle of a long output",
            Self::ParallelOrder => {
                "the stream lacks the order of parallel calls (it has them as they started)"
            }
            Self::CutResult => {
                "the file lacks the result of a call that ran when the connection was cut"
            }
            Self::AfterInterruption => {
                "the stream lacks what a subagent did after its caller was interrupted"
            }
            Self::UnstreamedHooks => "the stream lacks hooks (the host did not ask for them)",
            Self::UnwrittenSubagent => {
                "the files lack the file of a subagent whose result they have (the agent exited first)"
            }
            Self::FileOrder => {
                "the file lacks its order (lines precede the line that they name as their parent)"
            }
        }
    }
}

/// Returns the known reason why a block is on one side only.
pub(super) fn of(sides: &Sides<'_>, block: &Block, side: Side) -> Option<RunGap> {
    match side {
        Side::Transcript if sides.shared.earlier.contains(&block.id) => Some(RunGap::EarlierTurns),
        Side::Transcript if is_unreported_stop(sides, block) => Some(RunGap::StreamEndsAtKill),
        Side::Transcript if sides.pair.depth == 0 => None,
        Side::Transcript if is_after_interruption(sides, block) => Some(RunGap::AfterInterruption),
        Side::Transcript if is_unforwarded(sides, block) => Some(RunGap::SubagentWords),
        Side::Transcript => ends_interruption(sides, block).then_some(RunGap::SubagentInterruption),
        Side::Stream if is_unexported(sides) => Some(RunGap::SubagentFile),
        Side::Stream if is_unwritten(sides) => Some(RunGap::UnwrittenSubagent),
        Side::Stream if is_replaced(sides, block) => Some(RunGap::ReplacedAnswer),
        Side::Stream if is_cut_result(sides, block) => Some(RunGap::CutResult),
        Side::Stream if is_queued_prompt(sides, block) => Some(RunGap::QueuedPrompt),
        Side::Stream if is_in_other_session(sides, block) => Some(RunGap::OtherSession),
        Side::Stream if !is_after_end_of_file(sides, block) => None,
        Side::Stream => lost_end(sides.pair.run),
    }
}

/// Returns whether a block is the mark of a stop at the end of the file, and the stream ended before
/// the agent could report it.
fn is_unreported_stop(sides: &Sides<'_>, block: &Block) -> bool {
    let is_mark = matches!(&block.body, BlockBody::System(body) if &*body.subtype == "interrupted");
    let is_last = sides.transcript.last().is_some_and(|last| last.id == block.id);
    sides.pair.depth == 0 && sides.pair.run.was_cut_off && is_mark && is_last
}

/// Returns whether a block is the end of an interrupted subagent, which is stored and not streamed:
/// the harness's answer to an open call, or the mark of the interruption.
fn ends_interruption(sides: &Sides<'_>, block: &Block) -> bool {
    let is_end = match &block.body {
        BlockBody::ToolResult(result) => {
            let call = sides.in_stream.get(&BlockId::from(&result.tool_use_id));
            result.is_error && call.is_some_and(|call| call.interrupted)
        }
        BlockBody::System(body) => &*body.subtype == "interrupted",
        _ => false,
    };
    let last_common =
        sides.transcript.iter().rposition(|stored| sides.in_stream.contains_key(&stored.id));
    let place = sides.transcript.iter().position(|stored| stored.id == block.id);
    is_end && place > last_common && sides.shared.stopped.contains(&sides.pair.name)
}

/// Returns whether a block is what a subagent did after its caller was interrupted, with which the
/// stream of some versions ends.
fn is_after_interruption(sides: &Sides<'_>, block: &Block) -> bool {
    let run = sides.pair.run;
    let last_common =
        sides.transcript.iter().rposition(|stored| sides.in_stream.contains_key(&stored.id));
    let place = sides.transcript.iter().position(|stored| stored.id == block.id);
    run.agent.omits_after_interruption(run.version.as_deref())
        && sides.shared.ends_interrupted
        && last_common.is_some()
        && place > last_common
}

/// Returns whether a block is the result of a call that the file has without one, and the agent
/// connected to the model again right after it.
fn is_cut_result(sides: &Sides<'_>, block: &Block) -> bool {
    let run = sides.pair.run;
    let BlockBody::ToolResult(result) = &block.body else { return false };
    let call = sides.in_transcript.get(&BlockId::from(&result.tool_use_id));
    let is_call = |it: &&Block| matches!(it.body, BlockBody::ToolUse(_) | BlockBody::ToolResult(_));
    let place = sides.stream.iter().position(|streamed| streamed.id == block.id);
    let mut rest = sides.stream.iter().skip(place.unwrap_or(usize::MAX)).skip_while(is_call);
    let is_retry =
        |it: &Block| matches!(&it.body, BlockBody::System(it) if &*it.subtype == "retry");
    run.agent.loses_results_at_cut(run.version.as_deref())
        && call.is_some_and(|call| call.interrupted)
        && rest.next().is_some_and(is_retry)
}

/// Returns whether a block is part of an answer that was cut off and replaced.
fn is_replaced(sides: &Sides<'_>, block: &Block) -> bool {
    let message = block.message_id.as_ref();
    message.is_some_and(|message| sides.pair.run.replaced_answers.contains(message.as_str()))
}

/// Returns whether a block is a prompt that the file has in its queue: the agent was at work, so it
/// is not the first block of the session.
fn is_queued_prompt(sides: &Sides<'_>, block: &Block) -> bool {
    let is_queued = |text: String| sides.pair.run.queued_prompts.contains(&text);
    let is_first = sides.stream.first().is_some_and(|first| first.id == block.id);
    sides.pair.depth == 0 && !is_first && prompt_text(block).is_some_and(is_queued)
}

/// Returns whether a block is in a session of the stream that the transcript does not contain: the
/// one that a command left, or the one that it began.
fn is_in_other_session(sides: &Sides<'_>, block: &Block) -> bool {
    let is_left = match sides.pair.depth {
        0 => block.inactive,
        _ => return sides.pair.run.lacks_session() && sides.pair.transcript.is_none(),
    };
    match is_left {
        true => sides.pair.run.lacks_first_session,
        false => sides.pair.run.lacks_last_session && is_after_end_of_file(sides, block),
    }
}

/// Returns whether a block is text of a subagent whose text was not forwarded.
///
/// Without forwarding the stream lacks the text of every subagent that its caller waits for, and
/// every block of a nested one. A stream that has the text of one was asked to forward it.
fn is_unforwarded(sides: &Sides<'_>, block: &Block) -> bool {
    let has_words = sides.stream.iter().any(is_words);
    let is_awaited = !sides.pair.is_background();
    let run = sides.pair.run;
    let is_unstreamed = !is_awaited
        && sides.stream.is_empty()
        && run.agent.omits_background(run.version.as_deref());
    // Without forwarding, what the harness wrote in place of an answer is missing as well.
    let is_spoken = is_words(block) || is_harness_word(block);
    let is_missing = (is_spoken && is_awaited) || sides.pair.depth > 1 || is_unstreamed;
    !sides.shared.forwards_text && !has_words && is_missing
}

/// Returns whether the harness wrote the block in place of an answer: an error, or the mark of an
/// interruption.
fn is_harness_word(block: &Block) -> bool {
    match &block.body {
        BlockBody::Error(_) => true,
        BlockBody::System(body) => &*body.subtype == "interrupted",
        _ => false,
    }
}

/// Returns whether this is a subagent that is stored apart and missing in the files.
fn is_unexported(sides: &Sides<'_>) -> bool {
    let run = sides.pair.run;
    let is_stored = run.stored_sessions.contains(sides.pair.name.as_str());
    run.agent.stores_subagents_apart()
        && sides.pair.depth > 0
        && sides.in_transcript.is_empty()
        && !is_stored
}

/// Returns whether this is a subagent without a file, whose result its caller's file has.
fn is_unwritten(sides: &Sides<'_>) -> bool {
    let (run, header) = (sides.pair.run, sides.pair.headers[1].as_ref());
    let has_result = header.is_some_and(|it| it.output.is_some() && it.tool_use_id.is_some());
    let name = header.and_then(|it| it.agent_id.as_ref());
    // A run that was cut off lacks more, for another reason.
    run.agent.loses_subagents_at_exit(run.version.as_deref())
        && !run.was_cut_off
        && sides.pair.depth > 0
        && sides.in_transcript.is_empty()
        && has_result
        && name.is_some_and(|name| !run.subagent_files.contains(name.bare()))
}

/// Returns the known reason why a file lacks the end of a run.
///
/// The stream must show it: a run that reported its end was not killed, and neither was one that
/// reported an interruption, that ended its turn, or whose file has the agent's own account; one that
/// its host interrupted was not interrupted by a signal.
pub(super) fn lost_end(run: &Run) -> Option<RunGap> {
    if run.was_interrupted_by_signal {
        let loses_end = run.agent.loses_end_at_signal(run.version.as_deref());
        return loses_end.then_some(RunGap::FileEndsAtSignal);
    }
    let loses_end = run.was_killed && run.agent.loses_end_at_kill();
    loses_end.then_some(RunGap::FileEndsAtKill)
}

/// Returns whether the stream has the block after everything that the file has.
fn is_after_end_of_file(sides: &Sides<'_>, block: &Block) -> bool {
    let last_common =
        sides.stream.iter().rposition(|streamed| sides.in_transcript.contains_key(&streamed.id));
    let place = sides.stream.iter().position(|streamed| streamed.id == block.id);
    place > last_common
}

/// Returns the known reason why a field of a block differs: one side lacks the result of the call,
/// or the session that made the block inactive.
pub(super) fn of_field(sides: &Sides<'_>, block: &BlockId, name: &str) -> Option<RunGap> {
    let (streamed, stored) = (sides.in_stream.get(block)?, sides.in_transcript.get(block)?);
    match name {
        "inactive" if sides.pair.depth == 0 => {
            let is_left = streamed.inactive && !stored.inactive;
            (is_left && sides.pair.run.lacks_last_session).then_some(RunGap::OtherSession)
        }
        "interrupted" | "status" => {
            let result = BlockId::from(format!("result:{block}"));
            match (sides.in_stream.get(&result), sides.in_transcript.get(&result)) {
                (Some(answer), None) if stored.interrupted => of(sides, answer, Side::Stream),
                (None, Some(answer)) if streamed.interrupted => of(sides, answer, Side::Transcript),
                _ => lost_outcome(sides.pair.run, sides.shared, block),
            }
        }
        "agentId" => unreported_agent(sides.pair.run, streamed.id.as_str()),
        "output" if is_shortened(streamed, stored) => Some(RunGap::ShortenedOutput),
        "output" | "durationMs" => lost_outcome(sides.pair.run, sides.shared, block),
        _ => None,
    }
}

/// Returns the known reason why only the file names the subagent of a call: the stream names it at
/// the end of the run, and was stopped before.
pub(super) fn unreported_agent(run: &Run, call: &str) -> Option<RunGap> {
    let was_stopped = run.was_cut_off || run.was_interrupted_by_signal;
    (was_stopped && run.unnamed.contains(call)).then_some(RunGap::StreamEndsAtKill)
}

/// Returns the known reason why only the stream has the outcome of a subagent, which is part of the
/// call's block.
pub(super) fn lost_outcome(run: &Run, shared: &Shared, call: &BlockId) -> Option<RunGap> {
    lost_end(run).filter(|_| shared.lost_outcomes.contains(call))
}

/// The most letters that stand in place of the middle of an output.
const LONGEST_MARK: usize = 64;

/// Returns whether the file has the output of a tool without its middle: what it has before and
/// after a short mark is the beginning and the end of the streamed output.
fn is_shortened(streamed: &Block, stored: &Block) -> bool {
    let text = |block: &Block| match &block.body {
        BlockBody::ToolResult(result) => result.output.as_ref()?.to_text(),
        _ => None,
    };
    let (Some(whole), Some(short)) = (text(streamed), text(stored)) else { return false };
    let (whole, short) = (whole.trim_end(), short.trim_end());
    let head = whole.bytes().zip(short.bytes()).take_while(|(a, b)| a == b).count();
    let tails = whole.bytes().rev().zip(short.bytes().rev());
    let tail = tails.take(short.len() - head).take_while(|(a, b)| a == b).count();
    let mark = &short.as_bytes()[head..short.len() - tail];
    whole.len() > short.len()
        && mark.len() <= LONGEST_MARK
        && memchr::memmem::find(mark, b"truncated").is_some()
}
