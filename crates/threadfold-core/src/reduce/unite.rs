//! Two subagents that turn out to be one.

use std::sync::Arc;

use crate::change::Change;
use crate::event::Place;
use crate::id::BlockId;
use crate::state::{Entry, Facts, Map, News, RANKS, Slot, Subagent};

use super::block::{adopt, answer_call};
use super::step::Step;

/// Makes `younger` a part of `elder`, each block once.
pub(super) fn unite(step: &mut Step<'_>, elder: usize, younger: usize) {
    step.state.settle_conversation(Slot::Subagent(elder));
    step.state.settle_conversation(Slot::Subagent(younger));
    let gone = Subagent { united: true, ..Subagent::nameless() };
    let settled = step.state.settled_mut();
    let young = std::mem::replace(settled.subagent_mut(younger), gone);

    for bare in &young.names.bare {
        settled.names.insert(bare.clone(), elder);
    }
    for run in &young.runs {
        settled.calls.insert(run.tool_use_id.clone(), elder);
    }
    let target = settled.subagent_mut(elder);
    if let Some(name) = &young.names.agent_id {
        target.names.hear(name, young.names.kind);
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
    for rank in RANKS {
        let idle = target.idle.has(rank) || young.idle.has(rank);
        target.idle.set(rank, idle);
    }
    let rare = Arc::make_mut(&mut target.conversation.rare);
    rare.aliases = followed(&young.conversation.rare.aliases.clone().union(rare.aliases.clone()));
    let mut adopted: Vec<_> = rare.aliases.clone().into_iter().collect();
    rare.taken_out = young.conversation.rare.taken_out.clone().union(rare.taken_out.clone());
    let name = young.conversation.name.clone();
    let entries: Vec<_> = young.conversation.entries().cloned().collect();
    let slot = Slot::Subagent(elder);
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

    step.moved(|settled| Change::SubagentUnited {
        conversation_id: name,
        into: settled.conversation(slot).name.clone(),
        blocks: settled
            .conversation(slot)
            .entries()
            .map(|entry| entry.shown().into_owned())
            .collect(),
    });
}

/// Returns each name with the last of the names that it leads to; names that lead to each other
/// in a ring lead nowhere.
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

/// The calls that stood in the younger's conversation stand in the elder's now.
fn move_edges(step: &mut Step<'_>, entries: &[Arc<Entry>], elder: usize, younger: usize) {
    let settled = step.state.settled_mut();
    for call in entries.iter().filter_map(|entry| entry.call()) {
        let Some(&index) = settled.calls.get(call) else {
            continue;
        };
        let run = settled.subagent_mut(index).run_mut(call);
        run.edges.retain(|&slot| slot != Slot::Subagent(younger));
        run.stands_in(Slot::Subagent(elder));
    }
}

fn take_in(step: &mut Step<'_>, slot: Slot, entries: &[Arc<Entry>]) {
    let heard = |rank| step.conversation(slot).entries().any(|entry| entry.is_known(rank));
    let start = |rank| {
        if heard(rank) { Place::Unsaid } else { Place::First }
    };
    let mut behind = RANKS.map(start);
    for entry in entries {
        let id = step.conversation(slot).resolve(&entry.id).clone();
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
                    let position = conversation.place_of_new(rank, behind);
                    conversation.insert(position, id.clone(), facts.clone(), shown.clone());
                }
                Some(position) => {
                    let first = joined.as_ref().is_none_or(|mine| !mine.is_known(rank));
                    let news = if first { News::FirstSaid } else { News::SaidBefore };
                    conversation.set(position, facts.clone(), shown.clone());
                    conversation.bring_into_place(rank, position, behind, news);
                }
            }
            *behind = Place::After(id.clone());
        }
    }
}

/// Returns what both knew of one block; of equal rank, the younger's word is the later one.
fn join(mine: &Facts, its: &Facts) -> Facts {
    let mut joined = mine.clone();
    for rank in RANKS {
        let (said, other) = (joined.said_mut(rank), its.said(rank));
        if other.block.is_some() {
            said.block.clone_from(&other.block);
            said.idle = other.idle;
        }
        said.known |= other.known;
        said.inactive |= other.inactive;
    }
    joined.preview = mine.preview && its.preview;
    joined.confirmed = mine.confirmed || its.confirmed;
    joined.answer = its.answer.or(mine.answer);
    joined.call = its.call.clone().or_else(|| mine.call.clone());
    joined
}
