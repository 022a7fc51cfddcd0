//! Text that grows. The one step that touches no tree and no map.

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
    said: &BlockDelta,
) -> Outcome {
    let rank = step.rank;
    let texts = &step.state.open;
    let latest = usize::from(step.state.latest).min(texts.len());
    let open = (latest..texts.len()).chain(0..latest).find(|&index| {
        let open = &texts[index];
        open.block == said.block_id
            && open.said_as == *conversation
            && open.field == said.field
            && open.rank == rank
    });
    match open {
        Some(index) => append_to_open(step, index, said),
        None => append_to_settled(step, conversation, said),
    }
}

fn append_to_open(step: &mut Step<'_>, index: usize, said: &BlockDelta) -> Outcome {
    let length = step.state.lengths[index] as usize;
    let buffer = &step.state.open[index].buffer;
    let text = match new_text(said, length, |at, known| buffer.holds(at, known)) {
        Ok("") => return Outcome::Unchanged,
        Ok(text) => text,
        Err(anomaly) => return Outcome::Ignored(anomaly),
    };
    let Ok(grown) = u32::try_from(length + text.len()) else {
        // Longer than an open text can be: it grows in the tree from here on.
        let open = &step.state.open[index];
        let (slot, block) = (open.slot, open.block.clone());
        step.state.settle_block(slot, &block);
        return append_in_tree(step, slot, said);
    };
    if !step.state.open[index].buffer.push(length, text) {
        let buffer = step.state.open[index].buffer.fork(length, text);
        Arc::make_mut(&mut step.state.open)[index].buffer = buffer;
    }
    step.state.lengths[index] = grown;
    step.state.latest = index as u8;
    let name = &step.state.open[index].name;
    let change = appended(name, said, text);
    step.moved(|_| change());
    Outcome::Applied
}

/// Returns the part of the delta that is not there yet. What is there must be the same; `holds`
/// tells whether a text stands at a place.
fn new_text(
    said: &BlockDelta,
    length: usize,
    holds: impl FnOnce(usize, &str) -> bool,
) -> Result<&str, Anomaly> {
    let Some(offset) = said.offset else {
        return Ok(&said.delta);
    };
    let have = length as u64;
    if offset > have {
        return Err(Anomaly::Gap { block: said.block_id.clone(), have, offset });
    }
    let known = (have - offset).min(said.delta.len() as u64) as usize;
    let block = || said.block_id.clone();
    let Some((old, new)) = said.delta.split_at_checked(known) else {
        return Err(Anomaly::BadOffset { block: block(), offset });
    };
    if !old.is_empty() && !holds(offset as usize, old) {
        return Err(Anomaly::OtherText { block: block(), offset });
    }
    Ok(new)
}

fn append_to_settled(
    step: &mut Step<'_>,
    conversation: &ConversationId,
    said: &BlockDelta,
) -> Outcome {
    let unknown = || Outcome::Ignored(Anomaly::UnknownBlock { block: said.block_id.clone() });
    let Some(slot) = step.find(conversation) else {
        return unknown();
    };
    let Some(entry) = step.conversation(slot).entry(&said.block_id) else {
        return unknown();
    };
    let (rank, field) = (step.rank, said.field);

    let facts = entry.facts();
    if facts.said(rank).block.is_none() {
        let outranked = rank == Rank::Stream && facts.transcript.block.is_some();
        return match outranked {
            true => Outcome::Unchanged,
            false => no_such_text(said),
        };
    }
    let grows_alone = facts.only_rank() == Some(rank)
        && facts.call.is_none()
        && *entry.id.as_str() == *said.block_id.as_str();
    if !grows_alone {
        let id = entry.id.clone();
        step.state.settle_block(slot, &id);
        return append_in_tree(step, slot, said);
    }
    // Another text of the same block may be growing.
    step.state.settle_block(slot, &said.block_id);
    let conversation_now = step.conversation(slot);
    let name = conversation_now.name.clone();
    let text = conversation_now
        .entry(&said.block_id)
        .and_then(|entry| entry.facts().said(rank).block.as_ref()?.text(field));
    let Some(mut text) = text else { return no_such_text(said) };
    let length = text.len();
    match new_text(said, length, |at, known| text.holds(at, known)) {
        Ok("") => return Outcome::Unchanged,
        Ok(_) => {}
        Err(anomaly) => return Outcome::Ignored(anomaly),
    }
    let Ok(open_length) = u32::try_from(length) else { return append_in_tree(step, slot, said) };
    let buffer = text.grow();
    let open = OpenText {
        slot,
        said_as: conversation.clone(),
        name,
        block: said.block_id.clone(),
        field,
        rank,
        buffer,
    };
    let index = step.state.open_text(open, open_length);
    append_to_open(step, index, said)
}

/// Appends to a text that other words stand over, or that is too long to be open.
fn append_in_tree(step: &mut Step<'_>, slot: Slot, said: &BlockDelta) -> Outcome {
    let unknown = || Outcome::Ignored(Anomaly::UnknownBlock { block: said.block_id.clone() });
    let rank = step.rank;
    let Some(position) = step.conversation(slot).position(&said.block_id) else {
        return unknown();
    };
    let Some(entry) = step.conversation(slot).at(position) else {
        return unknown();
    };
    let mut facts = entry.facts().into_owned();
    let text = match &mut facts.said_mut(rank).block {
        Some(block) => Arc::make_mut(block).text_mut(said.field),
        None => None,
    };
    let Some(text) = text else {
        return no_such_text(said);
    };
    match new_text(said, text.len(), |at, known| text.holds(at, known)) {
        Ok("") => return Outcome::Unchanged,
        Ok(new) => text.append(new),
        Err(anomaly) => return Outcome::Ignored(anomaly),
    }
    step.set(slot, position, facts);
    step.outcome()
}

fn no_such_text(said: &BlockDelta) -> Outcome {
    Outcome::Ignored(Anomaly::NoSuchText { block: said.block_id.clone(), field: said.field })
}

fn appended(
    name: &ConversationId,
    said: &BlockDelta,
    text: &str,
) -> impl FnOnce() -> Change + use<> {
    let conversation_id = name.clone();
    let block_id = said.block_id.clone();
    let field = said.field;
    let text: Arc<str> =
        if text.len() == said.delta.len() { said.delta.clone() } else { text.into() };
    move || Change::TextAppended { conversation_id, block_id, field, text }
}
