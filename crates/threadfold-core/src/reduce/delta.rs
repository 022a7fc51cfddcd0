//! Appends text. This is the hot path: it touches no tree and no map.

use std::sync::Arc;

use crate::change::Change;
use crate::event::{BlockDelta, Rank};
use crate::id::ConversationId;
use crate::outcome::{Anomaly, Outcome};
use crate::state::{OpenText, Slot};

use super::step::Step;

pub(super) fn append(
    step: &mut Step<'_>,
    conversation: &ConversationId,
    payload: &BlockDelta,
) -> Outcome {
    let rank = step.rank;
    let latest = usize::from(step.state.latest);
    let open = step.state.open.find(&payload.block_id, latest, |open| {
        open.addressed_as == *conversation && open.field == payload.field && open.rank == rank
    });
    match open {
        Some(index) => append_to_open(step, index, payload),
        None => append_to_settled(step, conversation, payload),
    }
}

fn append_to_open(step: &mut Step<'_>, index: usize, payload: &BlockDelta) -> Outcome {
    let length = step.state.lengths[index] as usize;
    let buffer = &step.state.open[index].buffer;
    let text = match new_text(payload, length, |at, known| buffer.holds(at, known)) {
        Ok("") => return Outcome::Unchanged,
        Ok(text) => text,
        Err(anomaly) => return Outcome::Ignored(anomaly),
    };
    let Ok(grown) = u32::try_from(length + text.len()) else {
        // The length of an open text is a `u32`. A longer text grows in the tree instead.
        let open = &step.state.open[index];
        let (slot, block) = (open.slot, open.block.clone());
        step.state.settle_block(slot, &block);
        return append_in_tree(step, slot, payload);
    };
    // Another state has already appended to the shared buffer, so this one continues in a copy.
    if !step.state.open[index].buffer.push(length, text) {
        let buffer = step.state.open[index].buffer.fork(length, text);
        Arc::make_mut(&mut step.state.open).set_buffer(index, buffer);
    }
    step.state.lengths[index] = grown;
    step.state.latest = index as u8;
    step.record_state_change(|state| appended(&state.open[index].name, payload, text));
    Outcome::Applied
}

/// Returns the part of the delta that is new. The overlap with existing text must match; `holds`
/// compares it.
fn new_text(
    payload: &BlockDelta,
    length: usize,
    holds: impl FnOnce(usize, &str) -> bool,
) -> Result<&str, Anomaly> {
    let Some(offset) = payload.offset else {
        return Ok(&payload.delta);
    };
    let have = length as u64;
    if offset > have {
        return Err(Anomaly::Gap { block: payload.block_id.clone(), have, offset });
    }
    let known = (have - offset).min(payload.delta.len() as u64) as usize;
    let block = || payload.block_id.clone();
    let Some((old, new)) = payload.delta.split_at_checked(known) else {
        return Err(Anomaly::BadOffset { block: block(), offset });
    };
    if !old.is_empty() && !holds(offset as usize, old) {
        return Err(Anomaly::TextMismatch { block: block(), offset });
    }
    Ok(new)
}

fn append_to_settled(
    step: &mut Step<'_>,
    conversation: &ConversationId,
    payload: &BlockDelta,
) -> Outcome {
    let unknown = || Outcome::Ignored(Anomaly::UnknownBlock { block: payload.block_id.clone() });
    let Some(slot) = step.find(conversation) else {
        return unknown();
    };
    let Some(entry) = step.conversation(slot).entry(&payload.block_id) else {
        return unknown();
    };
    let (rank, field) = (step.rank, payload.field);

    let facts = entry.facts();
    if facts.report(rank).block.is_none() {
        // A delta for a block that only the transcript has is late, not wrong: its text is already
        // there.
        let outranked = rank == Rank::Stream && facts.transcript.block.is_some();
        return match outranked {
            true => Outcome::Unchanged,
            false => unknown_text(payload),
        };
    }
    let grows_alone = facts.only_rank() == Some(rank)
        && facts.call.is_none()
        && entry.id().as_str() == payload.block_id.as_str();
    if !grows_alone {
        let id = entry.id().into_owned();
        step.state.settle_block(slot, &id);
        return append_in_tree(step, slot, payload);
    }
    let label = entry.label;
    let mut text = facts.report(rank).block.as_ref().and_then(|block| block.text(field));
    let name = step.conversation(slot).name.clone();
    // Another text field of the same block may be open.
    if step.state.has_open_text(slot, &payload.block_id) {
        step.state.settle_block(slot, &payload.block_id);
        let Some(entry) = step.conversation(slot).entry(&payload.block_id) else {
            return unknown();
        };
        text = entry.facts().report(rank).block.as_ref().and_then(|block| block.text(field));
    }
    let Some(mut text) = text else { return unknown_text(payload) };
    let length = text.len();
    match new_text(payload, length, |at, known| text.holds(at, known)) {
        Ok("") => return Outcome::Unchanged,
        Ok(_) => {}
        Err(anomaly) => return Outcome::Ignored(anomaly),
    }
    let Ok(open_length) = u32::try_from(length) else { return append_in_tree(step, slot, payload) };
    let buffer = text.grow();
    let open = OpenText {
        slot,
        label,
        addressed_as: conversation.clone(),
        name,
        block: payload.block_id.clone(),
        field,
        rank,
        buffer,
    };
    let index = step.state.open_text(open, open_length);
    append_to_open(step, index, payload)
}

/// Appends to a text that a higher rank hides, or that is too long to be open.
fn append_in_tree(step: &mut Step<'_>, slot: Slot, payload: &BlockDelta) -> Outcome {
    let unknown = || Outcome::Ignored(Anomaly::UnknownBlock { block: payload.block_id.clone() });
    let rank = step.rank;
    let Some((position, entry)) = step.conversation(slot).locate(&payload.block_id) else {
        return unknown();
    };
    let mut facts = entry.facts().into_owned();
    let text = match &mut facts.report_mut(rank).block {
        Some(block) => Arc::make_mut(block).text_mut(payload.field),
        None => None,
    };
    let Some(text) = text else {
        return unknown_text(payload);
    };
    match new_text(payload, text.len(), |at, known| text.holds(at, known)) {
        Ok("") => return Outcome::Unchanged,
        Ok(new) => text.append(new),
        Err(anomaly) => return Outcome::Ignored(anomaly),
    }
    step.set(slot, position, facts);
    step.outcome()
}

fn unknown_text(payload: &BlockDelta) -> Outcome {
    Outcome::Ignored(Anomaly::UnknownText { block: payload.block_id.clone(), field: payload.field })
}

fn appended(name: &ConversationId, payload: &BlockDelta, text: &str) -> Change {
    Change::TextAppended {
        conversation_id: name.clone(),
        block_id: payload.block_id.clone(),
        field: payload.field,
        text: match text.len() == payload.delta.len() {
            true => payload.delta.clone(),
            false => text.into(),
        },
    }
}
