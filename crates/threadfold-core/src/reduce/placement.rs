//! Inserts blocks at their position and moves them.

use std::sync::Arc;

use crate::block::Block;
use crate::change::Change;
use crate::event::Placement;
use crate::id::BlockId;
use crate::state::{Facts, Occurrence, Slot};

use super::step::Step;
use super::subagent::add_edge;

/// Inserts a new block at the position that its source gives it, and returns what readers see.
pub(super) fn insert(
    step: &mut Step<'_>,
    slot: Slot,
    id: BlockId,
    facts: Facts,
    place: &Placement,
) -> Arc<Block> {
    let position = step.conversation(slot).position_for_new(step.rank, place);
    insert_at(step, slot, position, id, facts)
}

pub(super) fn insert_at(
    step: &mut Step<'_>,
    slot: Slot,
    position: usize,
    id: BlockId,
    facts: Facts,
) -> Arc<Block> {
    if let Some(call) = &facts.call {
        add_edge(step, call, slot);
    }
    let block = step.show(slot, &id, &facts);
    step.conversation_mut(slot).insert(position, id, facts, block.clone());
    step.record_change(|settled| Change::BlockInserted {
        conversation_id: settled.conversation(slot).name.clone(),
        after: settled.conversation(slot).id_before(position),
        block: block.clone(),
    });
    block
}

/// Moves the block at `position`, which was just reported, to the position that its source gives
/// it.
pub(super) fn place(
    step: &mut Step<'_>,
    slot: Slot,
    position: usize,
    place: &Placement,
    occurrence: Occurrence,
) {
    if *place == Placement::Unspecified {
        return;
    }
    let rank = step.rank;
    let moved = step.conversation_mut(slot).move_into_place(rank, position, place, occurrence);
    for id in moved {
        step.record_change(|settled| {
            let conversation = settled.conversation(slot);
            Change::BlockMoved {
                conversation_id: conversation.name.clone(),
                after: conversation.position(&id).and_then(|at| conversation.id_before(at)),
                block_id: id,
            }
        });
    }
}
