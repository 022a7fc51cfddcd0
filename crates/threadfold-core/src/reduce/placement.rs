//! Where blocks go, and what that moves.

use crate::change::Change;
use crate::event::Place;
use crate::id::BlockId;
use crate::state::{Facts, News, Slot};

use super::step::Step;
use super::subagent::stands_in;

/// Puts a block that is not there yet where its source has it.
pub(super) fn insert(step: &mut Step<'_>, slot: Slot, id: BlockId, facts: Facts, place: &Place) {
    let position = step.conversation(slot).place_of_new(step.rank, place);
    insert_at(step, slot, position, id, facts);
}

pub(super) fn insert_at(
    step: &mut Step<'_>,
    slot: Slot,
    position: usize,
    id: BlockId,
    facts: Facts,
) {
    if let Some(call) = &facts.call {
        stands_in(step, call, slot);
    }
    let block = step.show(slot, &id, &facts);
    step.conversation_mut(slot).insert(position, id, facts, block.clone());
    step.moved(|settled| Change::BlockInserted {
        conversation_id: settled.conversation(slot).name.clone(),
        after: settled.conversation(slot).id_before(position),
        block,
    });
}

/// Brings the block at `position`, just said, where its source has it.
pub(super) fn place(step: &mut Step<'_>, slot: Slot, position: usize, place: &Place, news: News) {
    if *place == Place::Unsaid {
        return;
    }
    let rank = step.rank;
    let moved = step.conversation_mut(slot).bring_into_place(rank, position, place, news);
    for id in moved {
        step.moved(|settled| {
            let conversation = settled.conversation(slot);
            Change::BlockMoved {
                conversation_id: conversation.name.clone(),
                after: conversation.position(&id).and_then(|at| conversation.id_before(at)),
                block_id: id,
            }
        });
    }
}
