//! The active path: blocks that leave it stay in the state, marked inactive.

use std::sync::Arc;

use crate::event::{ContextChange, ContextChanged};
use crate::id::ConversationId;
use crate::outcome::{Anomaly, Outcome};
use crate::state::Slot;

use super::step::Step;

/// Marks the blocks that left the active path, and those that returned to it.
///
/// Each source marks only blocks that it reported itself, so the order of the sources does not
/// matter.
pub(super) fn changed(
    step: &mut Step<'_>,
    conversation: &ConversationId,
    payload: &ContextChanged,
) -> Outcome {
    let Some(slot) = step.find(conversation) else {
        let conversation = conversation.clone();
        return Outcome::Ignored(Anomaly::UnknownConversation { conversation });
    };
    let head = match &payload.head {
        None => None,
        Some(head) => match step.conversation(slot).position(head) {
            Some(position) => Some(position),
            None => {
                return Outcome::Ignored(Anomaly::UnknownBlock { block: head.clone() });
            }
        },
    };
    step.state.settle_conversation(slot);
    let length = step.conversation(slot).len();
    match payload.kind {
        ContextChange::Compaction | ContextChange::Reset => {
            compact(step, slot, head.unwrap_or(length));
        }
        ContextChange::Rewind | ContextChange::Edit | ContextChange::Revert => {
            go_back(step, slot, head);
        }
        // A call may have no block for its result, as a subagent's has none: nothing to mark then.
        ContextChange::Microcompaction => {
            for block in &payload.blocks {
                if let Some(position) = step.conversation(slot).position(block) {
                    deactivate(step, slot, position);
                }
            }
        }
    }
    step.outcome()
}

/// Marks all blocks before `end`. Blocks that an earlier compaction marked are skipped, so repeated
/// compactions stay linear.
fn compact(step: &mut Step<'_>, slot: Slot, end: usize) {
    let rank = step.rank;
    let conversation = step.conversation(slot);
    let marked = conversation.rare.compacted[rank as usize].as_ref();
    let start = marked.and_then(|id| conversation.position(id)).map_or(0, |at| at + 1);
    for position in start..end {
        deactivate(step, slot, position);
    }
    let conversation = step.conversation(slot);
    let last = (start..end)
        .rev()
        .filter_map(|at| conversation.at(at))
        .find(|entry| entry.is_known(rank))
        .map(|entry| entry.id().into_owned());
    if last.is_some() {
        let conversation = step.conversation_mut(slot);
        Arc::make_mut(&mut conversation.rare).compacted[rank as usize] = last;
    }
}

/// Marks all blocks after `head`. If `head` was inactive, it becomes active again, together with
/// the run of inactive blocks before it.
fn go_back(step: &mut Step<'_>, slot: Slot, head: Option<usize>) {
    let rank = step.rank;
    let first_to_go = head.map_or(0, |at| at + 1);
    let end = step.conversation(slot).len();
    let gone = step.conversation(slot).left_path(rank).unwrap_or(end..end);
    let mut position = first_to_go;
    while position < end {
        if gone.contains(&position) {
            position = gone.end;
        } else {
            deactivate(step, slot, position);
            position += 1;
        }
    }
    step.conversation_mut(slot).note_left_path(rank, first_to_go);
    let mut back = head;
    while let Some(position) = back {
        let is_off =
            step.conversation(slot).at(position).is_some_and(|entry| entry.is_inactive(rank));
        if !is_off {
            break;
        }
        activate(step, slot, position);
        back = position.checked_sub(1);
    }
}

fn deactivate(step: &mut Step<'_>, slot: Slot, position: usize) {
    set_inactive(step, slot, position, true);
}

fn activate(step: &mut Step<'_>, slot: Slot, position: usize) {
    set_inactive(step, slot, position, false);
}

fn set_inactive(step: &mut Step<'_>, slot: Slot, position: usize, inactive: bool) {
    let rank = step.rank;
    let Some(entry) = step.conversation(slot).at(position) else {
        return;
    };
    if entry.is_known(rank) && entry.is_inactive(rank) != inactive {
        let mut facts = entry.facts().into_owned();
        facts.report_mut(rank).inactive = inactive;
        step.set(slot, position, facts);
    }
}
