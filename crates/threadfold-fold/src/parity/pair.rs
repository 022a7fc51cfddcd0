//! Pairs of conversations: each conversation of a stream with that of the transcript.

use std::collections::{BTreeMap, BTreeSet};

use threadfold_convert::Agent;
use threadfold_convert::parity::BlockPlace;
use threadfold_core::{
    Block, BlockId, Blocks, ConversationId, ConversationState, SubagentHeader, SubagentRef,
};

/// The two sides of one conversation.
pub(super) struct Pair<'a> {
    pub(super) agent: Agent,
    pub(super) name: ConversationId,
    /// The depth of nesting; 0 for the main conversation.
    pub(super) depth: usize,
    pub(super) stream: Option<Blocks<'a>>,
    pub(super) transcript: Option<Blocks<'a>>,
    /// The subagent's header in the stream and in the transcript.
    pub(super) headers: [Option<SubagentHeader>; 2],
}

impl Pair<'_> {
    pub(super) fn place(&self) -> BlockPlace {
        let stored = self.headers[1].as_ref();
        let has_no_call = stored.is_some_and(|header| header.tool_use_id.is_none());
        BlockPlace { depth: self.depth, is_uncalled: self.depth > 0 && has_no_call }
    }
}

/// Pairs the subagents of both sides, by call or by id.
pub(super) fn subagent_pairs<'a>(
    agent: Agent,
    stream: &'a ConversationState,
    transcript: &'a ConversationState,
) -> Vec<Pair<'a>> {
    let twin = |subagent: &SubagentRef<'_>, other: &'a ConversationState| {
        let by_call = subagent.tool_use_id().and_then(|call| other.subagent(&(&call).into()));
        by_call.or_else(|| other.subagent(&subagent.agent_id()?.into()))
    };
    let mut pairs = Vec::new();
    let mut paired = BTreeSet::new();
    for stored in transcript.subagents() {
        let streamed = twin(&stored, stream);
        paired.extend(streamed.map(|it| it.conversation_id().clone()));
        pairs.push(Pair {
            agent,
            name: stored.conversation_id().clone(),
            depth: depth(transcript, &stored),
            headers: [streamed.map(|it| it.header()), Some(stored.header())],
            stream: streamed.map(|it| it.blocks()),
            transcript: Some(stored.blocks()),
        });
    }
    for streamed in stream.subagents() {
        if !paired.contains(streamed.conversation_id()) {
            pairs.push(Pair {
                agent,
                name: streamed.conversation_id().clone(),
                depth: depth(stream, &streamed),
                headers: [Some(streamed.header()), None],
                stream: Some(streamed.blocks()),
                transcript: None,
            });
        }
    }
    pairs
}

/// Returns how many calls lead from the main conversation to a subagent.
fn depth(state: &ConversationState, subagent: &SubagentRef<'_>) -> usize {
    let Some(call) = subagent.tool_use_id() else { return 1 };
    let id = BlockId::from(&call);
    if state.blocks().find(&id).is_some() {
        return 1;
    }
    let caller = state.subagents().into_iter().find(|it| it.blocks().find(&id).is_some());
    match caller {
        Some(caller) if caller.conversation_id() != subagent.conversation_id() => {
            1 + depth(state, &caller)
        }
        // The call is missing, so the caller is not the main conversation.
        _ => 2,
    }
}

/// Both sides of a conversation, with their blocks by id.
pub(super) struct Sides<'a> {
    pub(super) pair: &'a Pair<'a>,
    pub(super) stream: &'a [Block],
    pub(super) in_stream: BTreeMap<&'a BlockId, &'a Block>,
    pub(super) in_transcript: BTreeMap<&'a BlockId, &'a Block>,
    /// The blocks of the turns before the stream began.
    pub(super) earlier: &'a BTreeSet<BlockId>,
}

impl<'a> Sides<'a> {
    pub(super) fn new(
        pair: &'a Pair<'a>,
        stream: &'a [Block],
        transcript: &'a [Block],
        earlier: &'a BTreeSet<BlockId>,
    ) -> Self {
        let in_stream = stream.iter().map(|block| (&block.id, block)).collect();
        let in_transcript = transcript.iter().map(|block| (&block.id, block)).collect();
        Self { pair, stream, in_stream, in_transcript, earlier }
    }
}

pub(super) fn collect_blocks(blocks: Option<Blocks<'_>>) -> Vec<Block> {
    blocks.map_or(Vec::new(), |blocks| blocks.iter().map(|block| block.into_owned()).collect())
}
