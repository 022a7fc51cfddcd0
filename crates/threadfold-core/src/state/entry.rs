//! One block in a conversation: what each rank reported, and what is shown.
//!
//! What is shown is a pure function of what was reported, so the order in which sources of
//! different rank report cannot matter.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use crate::block::{Block, BlockBody, BlockStatus, SubagentBlock};
use crate::event::Rank;
use crate::id::{BlockId, ConversationId, ToolUseId};
use crate::json::Json;

use super::order::Label;
use super::sequence::SequenceItem;
use super::spill::SpilledBlock;
use super::subagent::RunView;

/// What the sources of one rank reported about a block.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct RankReport {
    /// The block, as last reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) block: Option<Arc<Block>>,
    /// This rank has placed the block, with or without reporting it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) known: bool,
    /// A turn ended since the block was reported.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) idle: bool,
    /// The block left the active path.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) inactive: bool,
}

pub(crate) fn is_false(mark: &bool) -> bool {
    !mark
}

/// One block in a conversation. Cheap to clone.
///
/// It is 32 bytes, and a spilled block takes nothing else: a session may have a million blocks of
/// which each came from a few bytes.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) label: Label,
    pub(super) residence: Residence,
}

/// Where the facts about a block are held.
#[derive(Clone)]
pub(super) enum Residence {
    InMemory(Arc<ResidentBlock>),
    Spilled(SpilledBlock),
}

/// A block in memory.
pub(super) struct ResidentBlock {
    pub(super) id: BlockId,
    pub(super) facts: Facts,
    pub(super) shown: Arc<Block>,
    /// The hash of the shown block, computed on first use.
    pub(super) hash: OnceLock<[u8; 32]>,
}

impl SequenceItem for Entry {
    fn key(&self) -> u64 {
        self.label
    }
}

impl Entry {
    /// Returns an entry without a position.
    pub(super) fn new(id: BlockId, facts: Facts, shown: Arc<Block>) -> Self {
        Self::with_hash(id, facts, shown, OnceLock::new())
    }

    /// Returns an entry without a position, whose hash may be known.
    pub(super) fn with_hash(
        id: BlockId,
        facts: Facts,
        shown: Arc<Block>,
        hash: OnceLock<[u8; 32]>,
    ) -> Self {
        let block = ResidentBlock { id, facts, shown, hash };
        Self { label: 0, residence: Residence::InMemory(Arc::new(block)) }
    }

    /// Returns the id of the block.
    pub(crate) fn id(&self) -> Cow<'_, BlockId> {
        match &self.residence {
            Residence::InMemory(block) => Cow::Borrowed(&block.id),
            Residence::Spilled(spilled) => Cow::Owned(spilled.id()),
        }
    }

    /// Returns true if the block has this id.
    pub(super) fn has_id(&self, id: &BlockId) -> bool {
        match &self.residence {
            Residence::InMemory(block) => block.id == *id,
            Residence::Spilled(spilled) => spilled.has_id(id),
        }
    }

    /// Returns true if the block is in memory and has this id.
    pub(crate) fn is_resident(&self, id: &BlockId) -> bool {
        match &self.residence {
            Residence::InMemory(block) => block.id == *id,
            Residence::Spilled(_) => false,
        }
    }

    /// Returns the facts about the block.
    pub(crate) fn facts(&self) -> Cow<'_, Facts> {
        match &self.residence {
            Residence::InMemory(block) => Cow::Borrowed(&block.facts),
            Residence::Spilled(spilled) => Cow::Owned(spilled.read().facts),
        }
    }

    /// Returns the block that readers see.
    pub(crate) fn shown(&self) -> Cow<'_, Arc<Block>> {
        match &self.residence {
            Residence::InMemory(block) => Cow::Borrowed(&block.shown),
            Residence::Spilled(spilled) => Cow::Owned(spilled.shown()),
        }
    }

    /// Returns true if a source of this rank has placed the block.
    pub(crate) fn is_known(&self, rank: Rank) -> bool {
        match &self.residence {
            Residence::InMemory(block) => block.facts.report(rank).known,
            Residence::Spilled(spilled) => spilled.is_known(rank),
        }
    }

    /// Returns true if the block left the active path of a source of this rank.
    pub(crate) fn is_inactive(&self, rank: Rank) -> bool {
        match &self.residence {
            Residence::InMemory(block) => block.facts.report(rank).inactive,
            Residence::Spilled(spilled) => spilled.is_inactive(rank),
        }
    }

    /// Returns the call that spawned a subagent.
    pub(crate) fn call(&self) -> Option<ToolUseId> {
        match &self.residence {
            Residence::InMemory(block) => block.facts.call.clone(),
            Residence::Spilled(spilled) => spilled.call(),
        }
    }

    /// Returns the block with the call that spawned its subagent, if it shows a subagent.
    pub(super) fn edge(&self) -> Option<(Option<ToolUseId>, BlockId)> {
        let call = self.call();
        let shows_one = call.is_some() || self.may_be("subagent");
        shows_one.then(|| (call, self.id().into_owned()))
    }

    /// Returns true if the block may be shown with this type.
    pub(crate) fn may_be(&self, kind: &str) -> bool {
        match &self.residence {
            Residence::InMemory(block) => block.shown.body.kind() == kind,
            Residence::Spilled(spilled) => spilled.may_be(kind),
        }
    }

    /// Returns the call whose result this block is.
    pub(crate) fn result_of(&self) -> Option<ToolUseId> {
        if !self.may_be("tool_result") {
            return None;
        }
        self.shown().body.result_of().cloned()
    }
}

/// All facts about a block. What is shown is computed from them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Facts {
    #[serde(default)]
    pub(crate) stream: RankReport,
    #[serde(default)]
    pub(crate) transcript: RankReport,
    /// The stream's report is a preview that the source may abandon.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) preview: bool,
    /// A preview was confirmed, so abandoning it has no effect.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) confirmed: bool,
    /// The status that the call's result gives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) answer: Option<BlockStatus>,
    /// The call that spawned a subagent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) call: Option<ToolUseId>,
}

pub(crate) const RANKS: [Rank; 2] = [Rank::Transcript, Rank::Stream];

impl Facts {
    pub(crate) fn report(&self, rank: Rank) -> &RankReport {
        match rank {
            Rank::Stream => &self.stream,
            Rank::Transcript => &self.transcript,
        }
    }

    pub(crate) fn report_mut(&mut self, rank: Rank) -> &mut RankReport {
        match rank {
            Rank::Stream => &mut self.stream,
            Rank::Transcript => &mut self.transcript,
        }
    }

    /// Returns true if a source has reported the block for good.
    pub(crate) fn is_firm(&self) -> bool {
        self.transcript.block.is_some() || (self.stream.block.is_some() && !self.preview)
    }

    /// Returns true if a source reported the block. If none did, it only shows a subagent.
    pub(crate) fn is_reported(&self) -> bool {
        self.transcript.block.is_some() || self.stream.block.is_some()
    }

    /// Returns the rank that reported the block, if only one did.
    pub(crate) fn only_rank(&self) -> Option<Rank> {
        match (&self.stream.block, &self.transcript.block) {
            (Some(_), None) => Some(Rank::Stream),
            (None, Some(_)) => Some(Rank::Transcript),
            _ => None,
        }
    }

    /// Returns the tool call that the block is, whatever it is shown as.
    pub(crate) fn tool_use_id(&self) -> Option<&ToolUseId> {
        RANKS.iter().find_map(|&rank| match &self.report(rank).block.as_ref()?.body {
            BlockBody::ToolUse(body) => Some(&body.tool_use_id),
            _ => None,
        })
    }

    /// Returns the call that the block is, whether or not it spawned a subagent.
    pub(crate) fn call_of_block(&self) -> Option<&ToolUseId> {
        self.call.as_ref().or_else(|| self.tool_use_id())
    }

    /// Returns the block that readers see, for one that spawned no subagent.
    pub(crate) fn show_without_run(
        &self,
        id: &BlockId,
        conversation: &ConversationId,
    ) -> Arc<Block> {
        self.show(id, conversation, None, false)
    }

    /// Returns the block that readers see.
    pub(crate) fn show(
        &self,
        id: &BlockId,
        conversation: &ConversationId,
        run: Option<&RunView>,
        is_conversation_interrupted: bool,
    ) -> Arc<Block> {
        let merged = match (&self.transcript.block, &self.stream.block) {
            (Some(top), Some(under)) => Arc::new(top.over(under)),
            (Some(only), None) | (None, Some(only)) => only.clone(),
            (None, None) => Arc::new(Block::new(id.clone(), SubagentBlock::empty())),
        };
        let (status, interrupted) = match run {
            Some(run) => (run.status, run.interrupted),
            None => match self.closing(&merged) {
                (status, _) if is_conversation_interrupted && status.is_open() => {
                    interrupted_status(&merged)
                }
                closing => closing,
            },
        };
        let inactive = self.stream.inactive || self.transcript.inactive;
        let as_reported = run.is_none()
            && (merged.status, merged.interrupted, merged.inactive)
                == (status, interrupted, inactive)
            && merged.conversation_id == *conversation
            && merged.id == *id;
        if as_reported {
            return merged;
        }
        let mut shown = Block::clone(&merged);
        shown.id = id.clone();
        shown.conversation_id = conversation.clone();
        shown.status = status;
        shown.interrupted = interrupted;
        shown.inactive = inactive;
        if let Some(run) = run {
            shown.become_subagent(run);
        }
        Arc::new(shown)
    }

    /// Returns the status and whether the block was interrupted. A close by its source takes
    /// precedence over a result, and a result over the end of a turn.
    fn closing(&self, merged: &Block) -> (BlockStatus, bool) {
        let closed_by_source = RANKS.iter().find_map(|&rank| {
            self.report(rank).block.as_ref().filter(|block| !block.status.is_open())
        });
        if let Some(block) = closed_by_source {
            return match (self.answer, block.interrupted) {
                (Some(answer), true) => (answer, false),
                _ => (block.status, block.interrupted),
            };
        }
        if let Some(answer) = self.answer {
            return (answer, false);
        }
        let ended = RANKS.iter().any(|&rank| self.report(rank).idle);
        if ended { interrupted_status(merged) } else { (merged.status, merged.interrupted) }
    }
}

/// Returns the status of an open block whose turn ended, and that it was interrupted.
fn interrupted_status(block: &Block) -> (BlockStatus, bool) {
    match &block.body {
        BlockBody::Subagent(_) => (BlockStatus::Error, true),
        _ => (BlockStatus::Complete, true),
    }
}

impl Block {
    /// Turns the call into the subagent that it spawned. The call's own fields stay in the
    /// metadata.
    fn become_subagent(&mut self, run: &RunView) {
        let mut subagent = match &self.body {
            BlockBody::Subagent(body) => body.clone(),
            BlockBody::ToolUse(call) => {
                self.metadata.insert("toolName", Json::string(&call.tool_name));
                if let Some(input) = &call.input {
                    self.metadata.insert("input", input.clone());
                }
                SubagentBlock { description: call.description.clone(), ..SubagentBlock::empty() }
            }
            _ => SubagentBlock::empty(),
        };
        if self.timestamp.is_none() {
            self.timestamp.clone_from(&run.time);
        }
        subagent.tool_use_id = Some(run.tool_use_id.clone());
        subagent.agent_id = run.agent_id.clone().or(subagent.agent_id);
        subagent.name = run.subagent_type.clone().unwrap_or(subagent.name);
        subagent.description = run.description.clone().or(subagent.description);
        subagent.input = run.prompt.as_deref().map(Json::string).or(subagent.input);
        subagent.output = run.output.clone().or(subagent.output);
        subagent.duration_ms = run.duration_ms.or(subagent.duration_ms);
        self.body = subagent.into();
    }
}

impl SubagentBlock {
    fn empty() -> Self {
        Self {
            tool_use_id: None,
            agent_id: None,
            name: Arc::default(),
            description: None,
            input: None,
            output: None,
            duration_ms: None,
        }
    }
}

impl BlockBody {
    /// Returns the call whose result this is.
    pub(crate) fn result_of(&self) -> Option<&ToolUseId> {
        match self {
            Self::ToolResult(result) => Some(&result.tool_use_id),
            _ => None,
        }
    }
}
