//! Whole blocks: inserted, replaced and removed.

use std::sync::Arc;

use crate::block::{Block, BlockBody, BlockStatus};
use crate::change::Change;
use crate::event::{BlockRemove, BlockUpsert, Placement, Rank, RemoveReason};
use crate::id::{BlockId, ConversationId, ToolUseId};
use crate::outcome::{Anomaly, Outcome};
use crate::state::{Entry, Facts, Occurrence, RANKS, Slot};

use super::placement::{insert, insert_at, place};
use super::step::Step;
use super::subagent;

pub(super) fn upsert(
    step: &mut Step<'_>,
    conversation: &ConversationId,
    payload: &BlockUpsert,
) -> Outcome {
    let slot = step.find_or_create(conversation);
    let id = step.conversation(slot).resolve(&payload.block.id).clone();
    if let Some(&by) = step.conversation(slot).rare.removed.get(&id) {
        // Only the rank that removed a block may bring it back; otherwise the order of the sources
        // would matter.
        if by != step.rank {
            return Outcome::Ignored(Anomaly::Removed { block: id, by });
        }
        let conversation = step.conversation_mut(slot);
        Arc::make_mut(&mut conversation.rare).removed.remove(&id);
    }
    if let BlockBody::Subagent(edge) = &payload.block.body {
        subagent::update_from_edge(step, edge, payload.block.status);
    }
    // Updating the edge may have merged two subagents, so the slot found above may be gone.
    let slot = step.find_or_create(conversation);
    subagent::adopt_shorter_name(step, slot, conversation);
    let id = step.conversation(slot).resolve(&id).clone();
    if let Some(old) = &payload.replaces {
        adopt(step, slot, old, &id);
    }
    step.state.settle_block(slot, &id);
    if let Slot::Subagent(index) = slot
        && !step.settled().subagents[index].active.has(step.rank)
    {
        let rank = step.rank;
        step.state.settled_mut().subagent_mut(index).active.insert(rank);
    }
    wake(step, slot);
    put(step, slot, id, payload)
}

/// Stores the reported block.
fn put(step: &mut Step<'_>, slot: Slot, id: BlockId, payload: &BlockUpsert) -> Outcome {
    let rank = step.rank;
    let known = step.conversation(slot).locate(&id).map(|(at, entry)| (at, entry.clone()));
    let mut facts = known.as_ref().map(|(_, entry)| entry.facts().into_owned()).unwrap_or_default();

    // A preview that arrives after the block itself adds nothing, but it confirms the preview: a
    // later `abandoned` must not remove the block.
    if payload.preview && facts.is_firm() {
        if !facts.confirmed
            && let Some((position, _)) = known
        {
            facts.confirmed = true;
            step.set(slot, position, facts);
        }
        return step.outcome();
    }
    let occurrence = facts.apply_upsert(rank, layer(step, slot, &id, payload), payload);
    let left = match &payload.block.body {
        BlockBody::ToolUse(_) | BlockBody::Subagent(_) => {
            if let BlockBody::ToolUse(body) = &payload.block.body {
                step.state.settled_mut().note_caller(&body.tool_use_id, slot);
            }
            let run = subagent::run_of(step, slot, &id, &payload.block);
            // The block may have shown another call before.
            let left = run.as_ref().and(facts.call.take_if(|call| run.as_ref() != Some(call)));
            facts.call = run.or(facts.call);
            left
        }
        _ => facts.call.take(),
    };
    facts.answer = answer(step, slot, facts.tool_use_id(), &id);

    let mut anomaly = unknown_anchor(step, slot, &id, &payload.after);
    let was_result = known.as_ref().and_then(|(_, entry)| entry.result_of());
    let shown = match known {
        Some((position, known)) => {
            let shown = step.set(slot, position, facts);
            anomaly = type_change(&known.shown(), &shown).or(anomaly);
            place(step, slot, position, &payload.after, occurrence);
            shown
        }
        None => insert(step, slot, id, facts, &payload.after),
    };
    if let Some(call) = left {
        subagent::drop_edge(step, &call, slot);
    }
    for call in was_result.iter().chain(shown.body.result_of()) {
        answer_call(step, slot, call);
    }
    step.outcome_with(anomaly)
}

/// Returns an anomaly if a block is to follow one that is not there.
fn unknown_anchor(step: &Step<'_>, slot: Slot, id: &BlockId, place: &Placement) -> Option<Anomaly> {
    let Placement::After(after) = place else { return None };
    let conversation = step.conversation(slot);
    let is_known = conversation.position(after).is_some() || conversation.resolve(after) == id;
    (!is_known).then(|| Anomaly::UnknownAnchor { block: id.clone(), after: after.clone() })
}

/// Returns the block in the form that the state stores.
fn layer(step: &Step<'_>, slot: Slot, id: &BlockId, payload: &BlockUpsert) -> Block {
    let mut block = payload.block.clone();
    block.id = id.clone();
    block.conversation_id = step.conversation(slot).name.clone();
    block.inactive = false;
    if let BlockBody::ToolUse(call) = &mut block.body
        && call.input.is_some()
    {
        call.input_text = None;
    }
    block
}

impl Facts {
    /// Applies a whole block from a source of `rank`.
    fn apply_upsert(&mut self, rank: Rank, mut block: Block, payload: &BlockUpsert) -> Occurrence {
        let was_preview = self.preview;
        if was_preview && !payload.preview {
            self.preview = false;
            self.confirmed = true;
            // The transcript's report replaces the preview as a whole, which the stream never
            // confirmed.
            if rank == Rank::Transcript {
                self.stream = Facts::default().stream;
            }
        }
        self.preview |= payload.preview;
        let mine = self.report_mut(rank);
        // A repeated report that is still pending must not reopen what its source has closed.
        if let Some(old) = &mine.block
            && !was_preview
            && old.body.kind() == block.body.kind()
            && !old.status.is_open()
            && block.status.is_open()
        {
            block.status = old.status;
            block.interrupted = old.interrupted;
        }
        let occurrence = if mine.known { Occurrence::Repeated } else { Occurrence::First };
        mine.block = Some(Arc::new(block));
        mine.known = true;
        mine.idle = false;
        mine.inactive |= payload.block.inactive;
        occurrence
    }
}

fn type_change(old: &Block, new: &Block) -> Option<Anomaly> {
    let (from, to) = (old.body.kind(), new.body.kind());
    let call = |kind| matches!(kind, "tool_use" | "subagent");
    (from != to && !(call(from) && call(to))).then(|| Anomaly::TypeChanged {
        block: new.id.clone(),
        from: from.into(),
        to: to.into(),
    })
}

/// A subagent without a caller is running again as soon as it emits a block.
fn wake(step: &mut Step<'_>, slot: Slot) {
    if let Slot::Subagent(index) = slot
        && step.settled().subagents[index].idle.has(step.rank)
    {
        let rank = step.rank;
        let before = step.settled().subagents[index].header();
        step.state.settled_mut().subagent_mut(index).idle.remove(rank);
        subagent::idle_changed(step, index, &before);
    }
}

/// Returns the status that a call's result gives it, if there is a result.
fn answer(
    step: &Step<'_>,
    slot: Slot,
    call: Option<&ToolUseId>,
    block: &BlockId,
) -> Option<BlockStatus> {
    let result = step.conversation(slot).result(call?)?;
    let shown = result.shown();
    match &shown.body {
        _ if shown.status.is_open() || *result.id() == *block => None,
        BlockBody::ToolResult(body) if body.is_error => Some(BlockStatus::Error),
        BlockBody::ToolResult(_) => Some(BlockStatus::Complete),
        _ => None,
    }
}

/// Updates a call after its result was added or removed.
pub(super) fn answer_call(step: &mut Step<'_>, slot: Slot, call: &ToolUseId) {
    let Some(position) = step.conversation(slot).call(call) else {
        return;
    };
    let Some(entry) = step.conversation(slot).at(position).cloned() else {
        return;
    };
    let answer = answer(step, slot, Some(call), &entry.id());
    let is_current = {
        let facts = entry.facts();
        facts.tool_use_id() != Some(call) || facts.answer == answer
    };
    if !is_current {
        step.state.settle_block(slot, &entry.id());
        let Some(entry) = step.conversation(slot).at(position) else {
            return;
        };
        let facts = Facts { answer, ..entry.facts().into_owned() };
        step.set(slot, position, facts);
    }
}

/// Renames the block `old` to `new`, because its source did.
pub(super) fn adopt(step: &mut Step<'_>, slot: Slot, old: &BlockId, new: &BlockId) {
    let old = step.conversation(slot).resolve(old).clone();
    if old == *new {
        return;
    }
    step.state.settle_block(slot, &old);
    step.state.settle_block(slot, new);
    if let Some(position) = step.conversation(slot).position(&old) {
        let mut facts = take_out(step, slot, position).facts().into_owned();
        let target = step.conversation(slot).position(new);
        match target {
            None => {
                insert_at(step, slot, position, new.clone(), facts);
            }
            Some(target) => {
                let Some(entry) = step.conversation(slot).at(target) else {
                    return;
                };
                let mut joined = entry.facts().into_owned();
                for rank in RANKS {
                    if joined.report(rank).block.is_none() {
                        *joined.report_mut(rank) = std::mem::take(facts.report_mut(rank));
                    }
                }
                step.set(slot, target, joined);
            }
        }
    }
    let aliases = &mut Arc::make_mut(&mut step.conversation_mut(slot).rare).aliases;
    // Keeps every alias one step long, so that resolving an id needs no loop.
    for (_, target) in aliases.iter_mut().filter(|(_, target)| **target == old) {
        *target = new.clone();
    }
    aliases.insert(old, new.clone());
}

pub(super) fn remove(
    step: &mut Step<'_>,
    conversation: &ConversationId,
    payload: &BlockRemove,
) -> Outcome {
    let unknown = || Outcome::Ignored(Anomaly::UnknownBlock { block: payload.block_id.clone() });
    let Some(slot) = step.find(conversation) else {
        return unknown();
    };
    let id = step.conversation(slot).resolve(&payload.block_id).clone();
    let Some(position) = step.conversation(slot).position(&id) else {
        return unknown();
    };
    let Some(entry) = step.conversation(slot).at(position) else {
        return unknown();
    };

    let rank = step.rank;
    if payload.reason == RemoveReason::Abandoned {
        let facts = entry.facts();
        let others = facts.transcript.block.is_some() && rank == Rank::Stream;
        // An abandoned preview must not take away what another source reported or what shows a
        // subagent.
        if others || facts.confirmed || facts.call.is_some() {
            return Outcome::Unchanged;
        }
    }
    step.state.settle_block(slot, &id);
    let entry = take_out(step, slot, position);
    if payload.reason != RemoveReason::Abandoned {
        let conversation = step.conversation_mut(slot);
        Arc::make_mut(&mut conversation.rare).removed.insert(id, rank);
    }
    if let Some(call) = entry.result_of() {
        answer_call(step, slot, &call);
    }
    step.outcome()
}

pub(super) fn take_out(step: &mut Step<'_>, slot: Slot, position: usize) -> Entry {
    let entry = step.conversation_mut(slot).remove(position);
    if let Some(call) = entry.call() {
        subagent::drop_edge(step, &call, slot);
    }
    let block_id = entry.id().into_owned();
    step.record_change(|settled| Change::BlockRemoved {
        conversation_id: settled.conversation(slot).name.clone(),
        block_id,
    });
    entry
}
