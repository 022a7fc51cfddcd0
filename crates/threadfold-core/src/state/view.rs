//! Read access to a state: blocks in order, subagents with their names.

use std::borrow::Cow;
use std::sync::Arc;

use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};

use crate::block::{Block, BlockBody, BlockStatus};
use crate::id::{AgentId, BlockId, ConversationId, ToolUseId};
use crate::json_object::Field;

use super::conversation::Conversation;
use super::subagents::SubagentView;
use super::{ConversationState, Entry, Slot, Subagent, SubagentHeader};

/// The blocks of one conversation, in order.
#[derive(Clone)]
pub struct Blocks<'a> {
    state: &'a ConversationState,
    slot: Slot,
    conversation: HeldConversation<'a>,
}

/// A conversation, for as long as somebody reads it.
#[derive(Clone)]
enum HeldConversation<'a> {
    InMemory(&'a Conversation),
    /// A spilled subagent that was read back.
    ReadBack(Arc<Subagent>),
}

impl<'a> Blocks<'a> {
    pub(crate) fn new(state: &'a ConversationState, slot: Slot) -> Self {
        let conversation = match slot {
            Slot::Main => HeldConversation::InMemory(&state.settled.main),
            Slot::Subagent(index) => match state.settled.subagents.view(index) {
                SubagentView::InMemory(it) => HeldConversation::InMemory(&it.conversation),
                SubagentView::ReadBack(it) => HeldConversation::ReadBack(it),
            },
        };
        Self { state, slot, conversation }
    }

    fn conversation(&self) -> &Conversation {
        match &self.conversation {
            HeldConversation::InMemory(conversation) => conversation,
            HeldConversation::ReadBack(subagent) => &subagent.conversation,
        }
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
        self.shown_by(|conversation| conversation.at(position))
    }

    /// Returns the block with this id.
    pub fn find(&self, id: &BlockId) -> Option<Cow<'a, Block>> {
        self.shown_by(|conversation| conversation.entry(id))
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
        let block = self.shown_by(|conversation| conversation.result(call))?;
        let is_result =
            matches!(&block.body, BlockBody::ToolResult(body) if body.tool_use_id == *call);
        is_result.then_some(block)
    }

    /// Returns the blocks in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Cow<'a, Block>> + use<'a> {
        self.filtered(|_| true)
    }

    /// Returns the blocks of one type in order, without reading back spilled blocks of other types.
    pub fn of_kind(&self, kind: &'a str) -> impl Iterator<Item = Cow<'a, Block>> + use<'a> {
        let shown = self.filtered(move |entry| entry.may_be(kind));
        shown.filter(move |block| block.body.kind() == kind)
    }

    /// Returns the blocks for which `filter` holds, in order.
    fn filtered<F: Fn(&Entry) -> bool + Clone + 'a>(
        &self,
        filter: F,
    ) -> impl DoubleEndedIterator<Item = Cow<'a, Block>> + use<'a, F> {
        let (state, slot) = (self.state, self.slot);
        let (in_memory, read_back) = match &self.conversation {
            HeldConversation::InMemory(conversation) => (Some(*conversation), None),
            HeldConversation::ReadBack(subagent) => (None, Some(subagent.clone())),
        };
        let is_wanted = filter.clone();
        let in_memory = in_memory.into_iter().flat_map(Conversation::entries);
        let in_memory = in_memory.filter(move |entry| is_wanted(entry));
        let read_back = read_back.into_iter().flat_map(move |subagent| {
            let filter = filter.clone();
            (0..subagent.conversation.len()).filter_map(move |position| {
                let entry = subagent.conversation.at(position).filter(|entry| filter(entry))?;
                Some(owned(state, slot, entry))
            })
        });
        in_memory.map(move |entry| shown(state, slot, entry)).chain(read_back)
    }

    /// Returns a block of the conversation.
    fn shown_by(
        &self,
        find: impl for<'c> Fn(&'c Conversation) -> Option<&'c Entry>,
    ) -> Option<Cow<'a, Block>> {
        match &self.conversation {
            HeldConversation::InMemory(conversation) => {
                find(conversation).map(|entry| shown(self.state, self.slot, entry))
            }
            HeldConversation::ReadBack(subagent) => {
                find(&subagent.conversation).map(|entry| owned(self.state, self.slot, entry))
            }
        }
    }
}

fn shown<'a>(state: &ConversationState, slot: Slot, entry: &'a Entry) -> Cow<'a, Block> {
    match (state.with_open_text(slot, entry), entry.shown()) {
        (Some(grown), _) => Cow::Owned(grown),
        (None, Cow::Borrowed(shown)) => Cow::Borrowed(shown),
        (None, Cow::Owned(shown)) => Cow::Owned(Arc::unwrap_or_clone(shown)),
    }
}

/// Returns a block of a subagent that was read back.
fn owned<'a>(state: &ConversationState, slot: Slot, entry: &Entry) -> Cow<'a, Block> {
    Cow::Owned(shown(state, slot, entry).into_owned())
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

    fn subagent(&self) -> SubagentView<'a> {
        self.state.settled.subagents.view(self.index)
    }

    /// Returns the name that its blocks carry.
    pub fn conversation_id(&self) -> ConversationId {
        self.subagent().conversation.name.clone()
    }

    /// Returns the latest call that ran it.
    pub fn tool_use_id(&self) -> Option<ToolUseId> {
        let subagent = self.subagent();
        let latest = subagent.runs.last().map(|run| run.tool_use_id.clone());
        latest.or_else(|| subagent.call_by_name())
    }

    /// Returns its own id.
    pub fn agent_id(&self) -> Option<AgentId> {
        self.subagent().names.agent_id.clone()
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
