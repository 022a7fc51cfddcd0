//! One block's place in a conversation: what each source said of it, and what is shown.
//!
//! What is shown is a function of what was said, so the order in which sources of different
//! rank speak cannot matter.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use crate::block::{Block, BlockBody, BlockStatus, Subagent};
use crate::event::Rank;
use crate::id::{BlockId, ConversationId, ToolUseId};
use crate::json::Json;

use super::order::Label;
use super::shelf::Away;
use super::subagent::RunShown;

/// What one rank of sources has said and done about a block.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Said {
    /// The block, as it was last said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) block: Option<Arc<Block>>,
    /// This rank has given the block a place, with or without saying it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) known: bool,
    /// A turn ended since it was said.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) idle: bool,
    /// It went off the active path.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) inactive: bool,
}

pub(crate) fn is_false(mark: &bool) -> bool {
    !mark
}

/// One block's place in a conversation.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) label: Label,
    pub(crate) id: BlockId,
    /// The hash of what readers see, once someone asked.
    pub(crate) hash: OnceLock<[u8; 32]>,
    pub(super) kept: Kept,
}

/// What is known of a block, and what readers see.
#[derive(Clone)]
pub(super) enum Kept {
    Here { facts: Facts, shown: Arc<Block> },
    Away(Away),
}

impl Entry {
    /// Returns an entry that has no place yet.
    pub(super) fn new(id: BlockId, facts: Facts, shown: Arc<Block>) -> Self {
        Self { label: 0, id, hash: OnceLock::new(), kept: Kept::Here { facts, shown } }
    }

    /// Returns all that is known of the block.
    pub(crate) fn facts(&self) -> Cow<'_, Facts> {
        match &self.kept {
            Kept::Here { facts, .. } => Cow::Borrowed(facts),
            Kept::Away(away) => Cow::Owned(away.facts()),
        }
    }

    /// Returns what readers see.
    pub(crate) fn shown(&self) -> Cow<'_, Arc<Block>> {
        match &self.kept {
            Kept::Here { shown, .. } => Cow::Borrowed(shown),
            Kept::Away(away) => Cow::Owned(away.shown(&self.id)),
        }
    }

    /// Says whether a source of this rank has given the block a place.
    pub(crate) fn is_known(&self, rank: Rank) -> bool {
        match &self.kept {
            Kept::Here { facts, .. } => facts.said(rank).known,
            Kept::Away(away) => away.is_known(rank),
        }
    }

    /// Says whether the block went off the active path of a source of this rank.
    pub(crate) fn is_inactive(&self, rank: Rank) -> bool {
        match &self.kept {
            Kept::Here { facts, .. } => facts.said(rank).inactive,
            Kept::Away(away) => away.is_inactive(rank),
        }
    }

    /// Returns the call that made a subagent. A block that shows one is never put away.
    pub(crate) fn call(&self) -> Option<&ToolUseId> {
        match &self.kept {
            Kept::Here { facts, .. } => facts.call.as_ref(),
            Kept::Away(_) => None,
        }
    }

    /// Says whether the block may be shown as one of this type.
    pub(crate) fn may_be(&self, kind: &str) -> bool {
        match &self.kept {
            Kept::Here { shown, .. } => shown.body.kind() == kind,
            Kept::Away(away) => away.may_be(kind),
        }
    }

    /// Returns the call whose result this is.
    pub(crate) fn result_of(&self) -> Option<ToolUseId> {
        if !self.may_be("tool_result") {
            return None;
        }
        match &self.shown().body {
            BlockBody::ToolResult(result) => Some(result.tool_use_id.clone()),
            _ => None,
        }
    }
}

/// All that is known of a block; what is shown follows from it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Facts {
    #[serde(default)]
    pub(crate) stream: Said,
    #[serde(default)]
    pub(crate) transcript: Said,
    /// The stream's word is a preview that may be taken back.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) preview: bool,
    /// A preview was confirmed: taking it back takes nothing.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) confirmed: bool,
    /// How the tool call was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) answer: Option<BlockStatus>,
    /// The call that made a subagent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) call: Option<ToolUseId>,
}

pub(crate) const RANKS: [Rank; 2] = [Rank::Transcript, Rank::Stream];

impl Facts {
    pub(crate) fn said(&self, rank: Rank) -> &Said {
        match rank {
            Rank::Stream => &self.stream,
            Rank::Transcript => &self.transcript,
        }
    }

    pub(crate) fn said_mut(&mut self, rank: Rank) -> &mut Said {
        match rank {
            Rank::Stream => &mut self.stream,
            Rank::Transcript => &mut self.transcript,
        }
    }

    /// Says whether some source has said the block for good.
    pub(crate) fn is_firm(&self) -> bool {
        self.transcript.block.is_some() || (self.stream.block.is_some() && !self.preview)
    }

    /// Returns the only rank that said the block, if it is the only one.
    pub(crate) fn only_rank(&self) -> Option<Rank> {
        match (&self.stream.block, &self.transcript.block) {
            (Some(_), None) => Some(Rank::Stream),
            (None, Some(_)) => Some(Rank::Transcript),
            _ => None,
        }
    }

    /// Returns the tool call that this block is, whatever it is shown as.
    pub(crate) fn tool_use_id(&self) -> Option<&ToolUseId> {
        RANKS.iter().find_map(|&rank| match &self.said(rank).block.as_ref()?.body {
            BlockBody::ToolUse(body) => Some(&body.tool_use_id),
            _ => None,
        })
    }

    /// Returns the call that this block is, whether or not it made a subagent.
    pub(crate) fn call_of_block(&self) -> Option<&ToolUseId> {
        self.call.as_ref().or_else(|| self.tool_use_id())
    }

    /// Returns what readers see.
    pub(crate) fn show(
        &self,
        id: &BlockId,
        conversation: &ConversationId,
        run: Option<&RunShown>,
    ) -> Arc<Block> {
        let said = match (&self.transcript.block, &self.stream.block) {
            (Some(top), Some(under)) => Arc::new(top.over(under)),
            (Some(only), None) | (None, Some(only)) => only.clone(),
            (None, None) => Arc::new(Block::new(id.clone(), Subagent::unsaid())),
        };
        let (status, interrupted) = match run {
            Some(run) => (run.status, run.interrupted),
            None => self.closing(&said),
        };
        let inactive = self.stream.inactive || self.transcript.inactive;
        let as_said = run.is_none()
            && (said.status, said.interrupted, said.inactive) == (status, interrupted, inactive)
            && said.conversation_id == *conversation
            && said.id == *id;
        if as_said {
            return said;
        }
        let mut shown = Block::clone(&said);
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

    /// Returns how far the block has come: what its source closed counts before an answer,
    /// an answer before the end of a turn.
    fn closing(&self, said: &Block) -> (BlockStatus, bool) {
        let closed_by_source = RANKS.iter().find_map(|&rank| {
            self.said(rank).block.as_ref().filter(|block| !block.status.is_open())
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
        let ended = RANKS.iter().any(|&rank| self.said(rank).idle);
        match (ended, &said.body) {
            (false, _) => (said.status, said.interrupted),
            (true, BlockBody::Subagent(_)) => (BlockStatus::Error, true),
            (true, _) => (BlockStatus::Complete, true),
        }
    }
}

impl Block {
    /// Turns the call into the subagent it made; the call's own words stay in the metadata.
    fn become_subagent(&mut self, run: &RunShown) {
        let mut subagent = match &self.body {
            BlockBody::Subagent(body) => body.clone(),
            BlockBody::ToolUse(call) => {
                self.metadata.insert("toolName", Json::string(&call.tool_name));
                if let Some(input) = &call.input {
                    self.metadata.insert("input", input.clone());
                }
                Subagent { description: call.description.clone(), ..Subagent::unsaid() }
            }
            _ => Subagent::unsaid(),
        };
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

impl Subagent {
    fn unsaid() -> Self {
        Self {
            tool_use_id: None,
            agent_id: None,
            name: "".into(),
            description: None,
            input: None,
            output: None,
            duration_ms: None,
        }
    }
}
