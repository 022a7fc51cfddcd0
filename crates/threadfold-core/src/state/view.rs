//! Read access to a state: blocks in order, subagents with their names.

use std::borrow::Cow;
use std::sync::Arc;

use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};

use crate::block::{Block, BlockBody, BlockStatus};
use crate::id::{AgentId, BlockId, ConversationId, ToolUseId};
use crate::json_object::Field;

use super::conversation::Conversation;
use super::{ConversationState, Entry, Slot, SubagentHeader};

/// The blocks of one conversation, in order.
#[derive(Clone, Copy)]
pub struct Blocks<'a> {
    state: &'a ConversationState,
    slot: Slot,
}

impl<'a> Blocks<'a> {
    pub(crate) fn new(state: &'a ConversationState, slot: Slot) -> Self {
        Self { state, slot }
    }

    fn conversation(&self) -> &'a Conversation {
        self.state.settled.conversation(self.slot)
    }

    /// Returns the number of blocks.
    pub fn len(&self) -> usize {
        self.conversation().len()
    }

    /// Returns true if there are no blocks.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the block at `position`.
    pub fn get(&self, position: usize) -> Option<Cow<'a, Block>> {
        self.conversation().at(position).map(|entry| self.shown(entry))
    }

    /// Returns the block with this id.
    pub fn find(&self, id: &BlockId) -> Option<Cow<'a, Block>> {
        self.conversation().entry(id).map(|entry| self.shown(entry))
    }

    /// Returns the position of the block with this id.
    pub fn position(&self, id: &BlockId) -> Option<usize> {
        self.conversation().position(id)
    }

    /// Returns the block that is this call, or shows the subagent that it ran.
    pub fn call(&self, call: &ToolUseId) -> Option<Cow<'a, Block>> {
        let block = self.get(self.conversation().call(call)?)?;
        let is_call = match &block.body {
            BlockBody::ToolUse(body) => body.tool_use_id == *call,
            BlockBody::Subagent(body) => body.tool_use_id.as_ref() == Some(call),
            _ => false,
        };
        is_call.then_some(block)
    }

    /// Returns the block that is the result of this call.
    pub fn result(&self, call: &ToolUseId) -> Option<Cow<'a, Block>> {
        let block = self.shown(self.conversation().result(call)?);
        let is_result =
            matches!(&block.body, BlockBody::ToolResult(body) if body.tool_use_id == *call);
        is_result.then_some(block)
    }

    /// Returns the blocks in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Cow<'a, Block>> + use<'a> {
        let blocks = *self;
        self.conversation().entries().map(move |entry| blocks.shown(entry))
    }

    /// Returns the blocks of one type in order, without reading back spilled blocks of other types.
    pub fn of_kind(&self, kind: &'a str) -> impl Iterator<Item = Cow<'a, Block>> + use<'a> {
        let blocks = *self;
        let entries = self.conversation().entries().filter(move |entry| entry.may_be(kind));
        let shown = entries.map(move |entry| blocks.shown(entry));
        shown.filter(move |block| block.body.kind() == kind)
    }

    fn shown(&self, entry: &'a Entry) -> Cow<'a, Block> {
        match (self.state.with_open_text(self.slot, entry), entry.shown()) {
            (Some(grown), _) => Cow::Owned(grown),
            (None, Cow::Borrowed(shown)) => Cow::Borrowed(shown),
            (None, Cow::Owned(shown)) => Cow::Owned(Arc::unwrap_or_clone(shown)),
        }
    }
}

impl Serialize for Blocks<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.len()))?;
        for block in self.iter() {
            list.serialize_element(&*block)?;
        }
        list.end()
    }
}

/// A subagent of a state.
#[derive(Clone, Copy)]
pub struct SubagentRef<'a> {
    state: &'a ConversationState,
    index: usize,
}

impl<'a> SubagentRef<'a> {
    pub(crate) fn new(state: &'a ConversationState, index: usize) -> Self {
        Self { state, index }
    }

    fn subagent(&self) -> &'a super::Subagent {
        &self.state.settled.subagents[self.index]
    }

    /// Returns the name that its blocks carry.
    pub fn conversation_id(&self) -> &'a ConversationId {
        &self.subagent().conversation.name
    }

    /// Returns the latest call that ran it.
    pub fn tool_use_id(&self) -> Option<ToolUseId> {
        let subagent = self.subagent();
        let latest = subagent.runs.last().map(|run| run.tool_use_id.clone());
        latest.or_else(|| subagent.call_by_name())
    }

    /// Returns its own id.
    pub fn agent_id(&self) -> Option<&'a AgentId> {
        self.subagent().names.agent_id.as_ref()
    }

    /// Returns true if a call started it, but no conversation is known to contain that call.
    pub fn is_unplaced(&self) -> bool {
        self.header().unplaced
    }

    /// Returns its status.
    pub fn status(&self) -> BlockStatus {
        self.header().status
    }

    /// Returns whether it is a helper of the agent itself, which views and counts leave out.
    pub fn is_internal(&self) -> bool {
        let subagent = self.subagent();
        subagent.internal && subagent.runs.is_empty()
    }

    /// Returns everything about it except its blocks.
    pub fn header(&self) -> SubagentHeader {
        self.subagent().header()
    }

    /// Returns its blocks.
    pub fn blocks(&self) -> Blocks<'a> {
        Blocks::new(self.state, Slot::Subagent(self.index))
    }
}

impl Serialize for SubagentRef<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let header = self.header();
        let mut map = serializer.serialize_map(None)?;
        header.tool_use_id.write("toolUseId", &mut map)?;
        header.agent_id.write("agentId", &mut map)?;
        header.unplaced.write("unplaced", &mut map)?;
        header.status.write("status", &mut map)?;
        header.prompt.write("prompt", &mut map)?;
        header.output.write("output", &mut map)?;
        header.duration_ms.write("durationMs", &mut map)?;
        if !header.runs.is_empty() {
            map.serialize_entry("runs", &header.runs)?;
        }
        if header.internal {
            map.serialize_entry("internal", &true)?;
        }
        map.serialize_entry("blocks", &self.blocks())?;
        map.end()
    }
}

/// `{ "blocks": […], "subagents": […] }`.
impl Serialize for ConversationState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("blocks", &self.blocks())?;
        map.serialize_entry("subagents", &self.subagents())?;
        map.end()
    }
}
