//! Merges two subagents that turn out to be the same one.

use std::sync::Arc;

use crate::change::Change;
use crate::event::Placement;
use crate::id::BlockId;
use crate::state::{Entry, Facts, Map, Occurrence, RANKS, Slot, Subagent};

use super::block::{adopt, answer_call};
use super::interruption;
use super::step::Step;

/// Merges `younger` into `elder`, without duplicating blocks.
pub(super) fn unite(step: &mut Step<'_>, elder: usize, younger: usize) {
    step.state.settle_conversation(Slot::Subagent(elder));
    step.state.settle_conversation(Slot::Subagent(younger));
    // The slot stays as a tombstone: removing it would shift the indexes of all later subagents.
    let gone = Subagent { united: true, ..Subagent::nameless() };
    let settled = step.state.settled_mut();
    let young = std::mem::replace(settled.subagent_mut(younger), gone);

    for bare in &young.names.bare {
        settled.names.insert(bare, elder);
    }
    for run in &young.runs {
        settled.calls.insert(run.tool_use_id.as_str(), elder);
        for &slot in &run.edges {
            if let Slot::Subagent(caller) = slot {
                settled.inside.insert((caller, elder));
            }
        }
    }
    let target = settled.subagent_mut(elder);
    if let Some(name) = &young.names.agent_id {
        target.names.add(name, young.names.kind);
    }
    for bare in young.names.bare {
        if !target.names.bare.contains(&bare) {
            target.names.bare.push(bare);
        }
    }
    for run in young.runs {
        let call = run.tool_use_id.clone();
        target.run_mut(&call).unite(run);
    }
    target.sort_runs();
    target.active.extend(young.active);
    target.idle.extend(young.idle);
    target.internal |= young.internal;
    let rare = Arc::make_mut(&mut target.conversation.rare);
    rare.aliases = followed(&young.conversation.rare.aliases.clone().union(rare.aliases.clone()));
    let mut adopted: Vec<_> = rare.aliases.clone().into_iter().collect();
    rare.removed = young.conversation.rare.removed.clone().union(rare.removed.clone());
    let name = young.conversation.name.clone();
    let entries: Vec<_> = young.conversation.entries().cloned().collect();
    let slot = Slot::Subagent(elder);
    // Map iteration has no meaningful order, and the result must not depend on it.
    adopted.sort();
    for (old, new) in adopted {
        if step.conversation(slot).position(&old).is_some() {
            adopt(step, slot, &old, &new);
        }
    }
    move_edges(step, &entries, elder, younger);
    take_in(step, slot, &entries);
    let answered: Vec<_> =
        step.conversation(slot).entries().filter_map(|entry| entry.result_of()).collect();
    answered.iter().for_each(|call| answer_call(step, slot, call));

    step.record_change(|settled| Change::SubagentUnited {
        conversation_id: name,
        into: settled.conversation(slot).name.clone(),
        blocks: settled
            .conversation(slot)
            .entries()
            .map(|entry| entry.shown().into_owned())
            .collect(),
    });
    update_interruptions(step, elder, younger);
}

/// Updates the subagent and those that it called as the younger one: what contains them changed.
fn update_interruptions(step: &mut Step<'_>, elder: usize, younger: usize) {
    let mut indexes = step.settled().called_inside(elder);
    indexes.append(&mut step.settled().called_inside(younger));
    indexes.push(elder);
    indexes.retain(|&index| !step.settled().subagents.is_united(index));
    indexes.sort_unstable();
    indexes.dedup();
    for index in indexes {
        interruption::update(step, index, None);
    }
}

/// Resolves each alias to the end of its chain. Aliases that form a cycle are dropped.
fn followed(aliases: &Map<BlockId, BlockId>) -> Map<BlockId, BlockId> {
    let last = |old: &BlockId| {
        let mut name = old;
        for _ in 0..=aliases.len() {
            match aliases.get(name) {
                Some(next) => name = next,
                None => return Some((old.clone(), name.clone())),
            }
        }
        None
    };
    aliases.keys().filter_map(last).collect()
}

/// Moves the calls in the younger's conversation to the elder's.
fn move_edges(step: &mut Step<'_>, entries: &[Entry], elder: usize, younger: usize) {
    let settled = step.state.settled_mut();
    for entry in entries {
        if let Some(call) = entry.facts().call_of_block() {
            settled.note_caller(call, Slot::Subagent(elder));
        }
    }
    for call in entries.iter().filter_map(|entry| entry.call()) {
        let Some(index) = settled.calls.get(call.as_str()) else {
            continue;
        };
        let run = settled.subagent_mut(index).run_mut(&call);
        run.edges.retain(|&slot| slot != Slot::Subagent(younger));
        settled.add_edge(index, &call, Slot::Subagent(elder));
    }
}

fn take_in(step: &mut Step<'_>, slot: Slot, entries: &[Entry]) {
    let is_known = |rank| step.conversation(slot).entries().any(|entry| entry.is_known(rank));
    let start = |rank| {
        if is_known(rank) { Placement::Unspecified } else { Placement::First }
    };
    let mut behind = RANKS.map(start);
    for entry in entries {
        let id = step.conversation(slot).resolve(&entry.id()).clone();
        let mut facts = entry.facts().into_owned();
        let known = step.conversation(slot).position(&id);
        let joined = known.and_then(|at| step.conversation(slot).at(at)).cloned();
        if let Some(mine) = &joined {
            facts = join(&mine.facts(), &facts);
        }
        if let Some(call) = &facts.call
            && !step.conversation(slot).may_claim(&id, call)
        {
            facts.call = None;
        }
        let shown = step.show(slot, &id, &facts);
        let conversation = step.conversation_mut(slot);
        for (rank, behind) in RANKS.into_iter().zip(&mut behind) {
            if !entry.is_known(rank) {
                continue;
            }
            match conversation.position(&id) {
                None => {
                    let position = conversation.position_for_new(rank, behind);
                    conversation.insert(position, id.clone(), facts.clone(), shown.clone());
                }
                Some(position) => {
                    let first = joined.as_ref().is_none_or(|mine| !mine.is_known(rank));
                    let occurrence = if first { Occurrence::First } else { Occurrence::Repeated };
                    conversation.set(position, facts.clone(), shown.clone());
                    conversation.move_into_place(rank, position, behind, occurrence);
                }
            }
            *behind = Placement::After(id.clone());
        }
    }
}

/// Merges the facts about one block. At equal rank the younger's report wins, because it is later.
fn join(mine: &Facts, its: &Facts) -> Facts {
    let mut joined = mine.clone();
    for rank in RANKS {
        let (report, other) = (joined.report_mut(rank), its.report(rank));
        if other.block.is_some() {
            report.block.clone_from(&other.block);
            report.idle = other.idle;
        }
        report.known |= other.known;
        report.inactive |= other.inactive;
    }
    joined.preview = mine.preview && its.preview;
    joined.confirmed = mine.confirmed || its.confirmed;
    joined.answer = its.answer.or(mine.answer);
    joined.call = its.call.clone().or_else(|| mine.call.clone());
    joined
}
