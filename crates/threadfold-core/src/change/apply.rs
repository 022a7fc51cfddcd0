//! Applies changes to a state.

use std::sync::Arc;

use crate::block::{Block, BlockStatus};
use crate::event::Rank;
use crate::id::{BlockId, ConversationId};
use crate::state::{
    Conversation, ConversationState, Facts, RANKS, RankedValue, Run, RunEnd, Slot, Subagent,
    SubagentHeader,
};

use super::Change;

/// Returns `state` with `changes` applied.
///
/// The result shows the same as the reducer's state, but it does not know which source reported
/// what. Use it to display a session, not to fold further events. A change that does not fit is
/// skipped.
///
/// ```
/// use threadfold_core::{ConversationState, SessionEvent, apply_changes};
///
/// let event = SessionEvent::from_json(
///     r#"{"type":"block:upsert","payload":{"block":
///        {"id":"b1","type":"assistant_text","status":"complete","content":"Hello"}}}"#,
/// )?;
/// let before = ConversationState::default();
/// let (mut after, mut changes) = (before.clone(), Vec::new());
/// let _ = after.apply_with(&event, &mut changes);
/// assert_eq!(apply_changes(&before, &changes), after);
/// # Ok::<(), threadfold_core::DecodeError>(())
/// ```
#[must_use]
pub fn apply_changes(state: &ConversationState, changes: &[Change]) -> ConversationState {
    let mut state = state.clone();
    for change in changes {
        apply(&mut state, change);
    }
    state
}

fn apply(state: &mut ConversationState, change: &Change) -> Option<()> {
    match change {
        Change::BlockInserted { conversation_id, after, block } => {
            let conversation = conversation(state, conversation_id)?;
            let position = match after {
                None => 0,
                Some(after) => conversation.position(after)? + 1,
            };
            insert(conversation, position, block);
        }
        Change::BlockReplaced { conversation_id, block } => {
            let conversation = conversation(state, conversation_id)?;
            let position = conversation.position(&block.id)?;
            conversation.set(position, facts(block), block.clone());
        }
        Change::BlockMarked { conversation_id, block_id, status, interrupted, inactive } => {
            edit(state, conversation_id, block_id, |block| {
                block.status = *status;
                block.interrupted = *interrupted;
                block.inactive = *inactive;
            })?;
        }
        Change::BlockMoved { conversation_id, block_id, after } => {
            let conversation = conversation(state, conversation_id)?;
            let from = conversation.position(block_id)?;
            let behind = match after {
                None => 0,
                Some(after) => conversation.position(after)? + 1,
            };
            conversation.shift(from, if from < behind { behind - 1 } else { behind });
        }
        Change::BlockRemoved { conversation_id, block_id } => {
            let conversation = conversation(state, conversation_id)?;
            let position = conversation.position(block_id)?;
            conversation.remove(position);
        }
        Change::TextAppended { conversation_id, block_id, field, text } => {
            edit(state, conversation_id, block_id, |block| {
                if let Some(grown) = block.text_mut(*field) {
                    grown.append(text);
                }
            })?;
        }
        Change::SubagentChanged { conversation_id, subagent } => {
            set_header(state, conversation_id, subagent);
        }
        Change::ConversationRenamed { from, to } => {
            let index = find(state, from)?;
            state.settle_conversation(Slot::Subagent(index));
            let conversation = &mut state.settled_mut().subagent_mut(index).conversation;
            conversation.name = to.clone();
            for position in 0..conversation.len() {
                let mut block = Block::clone(&conversation.at(position)?.shown());
                block.conversation_id = to.clone();
                conversation.set(position, facts(&block), Arc::new(block));
            }
        }
        Change::SubagentUnited { conversation_id, into, blocks } => {
            let (gone, stays) = (find(state, conversation_id)?, find(state, into)?);
            state.settle_conversation(Slot::Subagent(gone));
            state.settle_conversation(Slot::Subagent(stays));
            let settled = state.settled_mut();
            *settled.subagent_mut(gone) = Subagent { united: true, ..Subagent::nameless() };
            let conversation = &mut settled.subagent_mut(stays).conversation;
            *conversation = Conversation::named(into.clone());
            blocks.iter().for_each(|block| insert(conversation, conversation.len(), block));
        }
    }
    Some(())
}

fn facts(block: &Block) -> Facts {
    let mut facts = Facts::default();
    facts.stream.block = Some(Arc::new(block.clone()));
    // The state has no sources, so everything is attributed to one rank.
    facts.stream.known = true;
    facts.stream.inactive = block.inactive;
    facts
}

fn insert(conversation: &mut Conversation, position: usize, block: &Arc<Block>) {
    conversation.insert(position, block.id.clone(), facts(block), block.clone());
}

fn edit(
    state: &mut ConversationState,
    name: &ConversationId,
    id: &BlockId,
    change: impl FnOnce(&mut Block),
) -> Option<()> {
    let slot = slot(state, name)?;
    state.settle_block(slot, id);
    let conversation = state.settled_mut().conversation_mut(slot);
    let position = conversation.position(id)?;
    let mut block = Block::clone(&conversation.at(position)?.shown());
    change(&mut block);
    conversation.set(position, facts(&block), Arc::new(block));
    Some(())
}

/// Returns the subagent whose conversation is shown under exactly this name.
fn find(state: &ConversationState, name: &ConversationId) -> Option<usize> {
    let settled = &state.settled;
    let shown = |index: &usize| settled.subagents[*index].conversation.name == *name;
    match settled.resolve(name) {
        Some(Slot::Subagent(index)) if shown(&index) => Some(index),
        _ => (0..settled.subagents.len()).find(shown),
    }
}

fn slot(state: &ConversationState, name: &ConversationId) -> Option<Slot> {
    if name.is_main() { Some(Slot::Main) } else { find(state, name).map(Slot::Subagent) }
}

fn conversation<'a>(
    state: &'a mut ConversationState,
    name: &ConversationId,
) -> Option<&'a mut Conversation> {
    let slot = slot(state, name)?;
    state.settle_conversation(slot);
    Some(state.settled_mut().conversation_mut(slot))
}

fn set_header(state: &mut ConversationState, name: &ConversationId, header: &SubagentHeader) {
    let found = find(state, name);
    let settled = state.settled_mut();
    let index = found.unwrap_or_else(|| {
        let mut subagent = Subagent::nameless();
        subagent.conversation.name = name.clone();
        settled.subagents.push(subagent)
    });
    let subagent = settled.subagent_mut(index);
    subagent.names.agent_id.clone_from(&header.agent_id);
    subagent.runs = runs(header);
    subagent.internal = header.internal;
    for rank in RANKS {
        match header.status {
            // The runs have their own status.
            BlockStatus::Success if subagent.runs.is_empty() => subagent.idle.insert(rank),
            _ => subagent.idle.remove(rank),
        }
    }
    let calls: Vec<_> = subagent.runs.iter().map(|run| run.tool_use_id.clone()).collect();
    for call in calls {
        settled.calls.insert(call.as_str(), index);
    }
    if let Some(agent) = &header.agent_id {
        settled.names.insert(agent.bare(), index);
    }
}

fn runs(header: &SubagentHeader) -> Vec<Run> {
    let one = header.tool_use_id.as_ref().map(|call| crate::state::RunHeader {
        tool_use_id: call.clone(),
        prompt: header.prompt.clone(),
        status: header.status,
        output: header.output.clone(),
        duration_ms: header.duration_ms,
    });
    let listed =
        if header.runs.is_empty() { one.into_iter().collect() } else { header.runs.clone() };
    let rank = Rank::Stream;
    listed
        .into_iter()
        .map(|shown| {
            let mut run = Run::of(shown.tool_use_id);
            // Which conversation contains the call is in its block; here it only counts that one
            // does.
            if !header.unplaced {
                run.add_edge(Slot::Main);
            }
            run.prompt = shown.prompt.map(|value| RankedValue { rank, value });
            if !shown.status.is_open() {
                let failed = shown.status == BlockStatus::Error;
                let (output, duration_ms) = (shown.output, shown.duration_ms);
                run.end(rank, RunEnd { failed, output, duration_ms });
            }
            run
        })
        .collect()
}
