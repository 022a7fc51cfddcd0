//! Subagents: spawned, heard of under several names, and done.

use std::sync::Arc;

use crate::block::{self, Block, BlockBody, BlockStatus};
use crate::change::Change;
use crate::event::{CompletedStatus, Place, SubagentCompleted, SubagentSpawned};
use crate::id::{AgentId, BlockId, ConversationId, ToolUseId, bare_agent_name};
use crate::outcome::{Anomaly, Outcome};
use crate::state::{Done, Facts, NameKind, Slot, Subagent, SubagentHeader, fill};

use super::placement::insert;
use super::step::Step;
use super::unite::unite;

pub(super) fn spawned(
    step: &mut Step<'_>,
    conversation: &ConversationId,
    said: &SubagentSpawned,
) -> Outcome {
    step.find_or_make(conversation);
    let names = names(&said.agent_id, &said.subagent_id);
    let heard = hear_of(step, &said.tool_use_id, names, |rank, run| {
        run.said.set(rank, true);
        run.background |= said.background;
        fill(&mut run.prompt, rank, said.prompt.clone());
        fill(&mut run.subagent_type, rank, said.subagent_type.clone());
        fill(&mut run.description, rank, said.description.clone());
    });
    // Two subagents may have become one just now, so the caller is looked up again.
    let caller = step.find_or_make(conversation);
    heard_as(step, caller, conversation);
    stand(step, caller, &said.tool_use_id);
    step.outcome_noting(heard)
}

pub(super) fn completed(
    step: &mut Step<'_>,
    conversation: &ConversationId,
    said: &SubagentCompleted,
) -> Outcome {
    step.find_or_make(conversation);
    let names = names(&said.agent_id, &said.subagent_id);
    let heard = hear_of(step, &said.tool_use_id, names, |rank, run| {
        run.end(
            rank,
            Done {
                failed: said.status == CompletedStatus::Error,
                output: said.output.clone(),
                duration_ms: said.duration_ms,
            },
        );
    });
    let caller = step.find_or_make(conversation);
    heard_as(step, caller, conversation);
    stand(step, caller, &said.tool_use_id);
    step.outcome_noting(heard)
}

/// Hears of a subagent from the block that shows it.
pub(super) fn heard_from_edge(step: &mut Step<'_>, edge: &block::Subagent, status: BlockStatus) {
    let Some(call) = &edge.tool_use_id else {
        return;
    };
    let prompt = edge.input.as_ref().map(|input| match input.to_text() {
        Some(text) => text.into(),
        None => input.as_str().into(),
    });
    // A name that belongs to another is said when a subagent event says it.
    let _: Option<Anomaly> = hear_of(step, call, names(&edge.agent_id, &None), |rank, run| {
        run.said.set(rank, true);
        fill(&mut run.prompt, rank, prompt);
        fill(&mut run.subagent_type, rank, Some(edge.name.clone()));
        fill(&mut run.description, rank, edge.description.clone());
        if !status.is_open() {
            let failed = status == BlockStatus::Error;
            let (output, duration_ms) = (edge.output.clone(), edge.duration_ms);
            run.end(rank, Done { failed, output, duration_ms });
        }
    });
}

/// Returns the call of this block if it made a subagent, and remembers where the call stands.
pub(super) fn run_of(
    step: &mut Step<'_>,
    slot: Slot,
    id: &BlockId,
    block: &Block,
) -> Option<ToolUseId> {
    let call = match &block.body {
        BlockBody::ToolUse(body) => &body.tool_use_id,
        BlockBody::Subagent(body) => body.tool_use_id.as_ref()?,
        _ => return None,
    };
    if !step.conversation(slot).may_claim(id, call) {
        return None;
    }
    stands_in(step, call, slot)?;
    Some(call.clone())
}

/// Remembers that a call that made a subagent stands in a conversation.
pub(super) fn stands_in(step: &mut Step<'_>, call: &ToolUseId, slot: Slot) -> Option<()> {
    let index = *step.settled().calls.get(call)?;
    if !step.settled().subagents[index].run(call)?.edges.contains(&slot) {
        step.state.settled_mut().subagent_mut(index).run_mut(call).edges.push(slot);
    }
    Some(())
}

/// Forgets that a call stands in a conversation, if it does no more.
pub(super) fn stands_no_more(step: &mut Step<'_>, call: &ToolUseId, slot: Slot) {
    let Some(&index) = step.settled().calls.get(call) else {
        return;
    };
    if step.conversation(slot).edges_of(call).next().is_none() {
        let run = step.state.settled_mut().subagent_mut(index).run_mut(call);
        run.edges.retain(|&edge| edge != slot);
    }
}

/// A name, and what it is.
type Name<'a> = (&'a AgentId, NameKind);

fn names<'a>(own: &'a Option<AgentId>, older: &'a Option<AgentId>) -> Vec<Name<'a>> {
    let own = own.iter().map(|name| (name, NameKind::Own));
    own.chain(older.iter().map(|name| (name, NameKind::Older))).collect()
}

/// Finds or makes the subagent of this call and these names, and lets `tell` add to the run.
fn hear_of(
    step: &mut Step<'_>,
    call: &ToolUseId,
    names: Vec<Name<'_>>,
    tell: impl FnOnce(crate::event::Rank, &mut crate::state::Run),
) -> Option<Anomaly> {
    let (index, before, anomaly) = find_or_make(step, call, names);
    let rank = step.rank;
    tell(rank, step.state.settled_mut().subagent_mut(index).run_mut(call));
    rename(step, index);
    let now = step.settled().subagents[index].header();
    if before.as_ref() == Some(&now) {
        // The type and the description are shown by the block alone.
        step.refresh_call(call);
    } else if before.is_some_and(|before| before.agent_id == now.agent_id) {
        step.header_moved(index);
        step.refresh_call(call);
    } else {
        show_anew(step, index);
    }
    anomaly
}

/// Finds or makes the subagent of this call, which may be known by its other names, and tells
/// what was shown of it before.
fn find_or_make(
    step: &mut Step<'_>,
    call: &ToolUseId,
    names: Vec<Name<'_>>,
) -> (usize, Option<SubagentHeader>, Option<Anomaly>) {
    let settled = step.settled();
    let by_call = settled.calls.get(call).copied().or_else(|| {
        // A conversation that was only ever called by this name is the call's.
        let index = *settled.names.get(bare_agent_name(call.as_str()))?;
        settled.subagents[index].names.is_guess().then_some(index)
    });
    let mut found: Vec<usize> = by_call.into_iter().collect();
    let mut anomaly = None;
    for &(name, kind) in &names {
        let Some(&index) = settled.names.get(name.bare()) else {
            continue;
        };
        let taken = |mine| {
            mine != index
                && settled.has_another_name(mine, name)
                && (kind == NameKind::Own || settled.has_another_name(index, name))
        };
        if by_call.is_some_and(taken) {
            anomaly = Some(Anomaly::NameTaken { call: call.clone(), agent: name.clone() });
        } else if !found.contains(&index) {
            found.push(index);
        }
    }
    let before = match *found.as_slice() {
        [only] => Some(settled.subagents[only].header()),
        _ => None,
    };
    let index = match found.iter().min() {
        None => step.add_subagent(Subagent::nameless()),
        Some(&eldest) => {
            found.iter().filter(|&&other| other != eldest).for_each(|&other| {
                unite(step, eldest, other);
            });
            eldest
        }
    };
    let settled = step.state.settled_mut();
    settled.calls.insert(call.clone(), index);
    let subagent = settled.subagent_mut(index);
    if subagent.names.is_guess()
        && subagent.names.agent_id.as_ref().is_some_and(|name| name.as_str() == call.as_str())
    {
        subagent.names.agent_id = None;
    }
    if anomaly.is_none() {
        names.into_iter().for_each(|(name, kind)| settled.name(index, name, kind));
    }
    shadow(step, call);
    (index, before, anomaly)
}

impl crate::state::Settled {
    /// Says whether this subagent is known by a name of its own that is not `name`.
    fn has_another_name(&self, index: usize, name: &AgentId) -> bool {
        let names = &self.subagents[index].names;
        names.kind == NameKind::Own
            && names.agent_id.as_ref().is_some_and(|mine| mine.bare() != name.bare())
    }

    /// Gives a subagent a name.
    fn name(&mut self, index: usize, name: &AgentId, kind: NameKind) {
        self.subagent_mut(index).names.hear(name, kind);
        self.names.entry(name.bare().into()).or_insert(index);
    }
}

/// A subagent's conversation was called by this name, which may be a shorter spelling of the
/// one that is shown.
pub(super) fn heard_as(step: &mut Step<'_>, slot: Slot, name: &ConversationId) {
    let Slot::Subagent(index) = slot else {
        return;
    };
    let settled = step.settled();
    let is_shorter = settled.subagents[index].names.agent_id.as_ref().is_some_and(|known| {
        name.as_str().len() < known.as_str().len() && known.bare() == bare_agent_name(name.as_str())
    });
    if is_shorter && !settled.calls.contains_key(name.as_str()) {
        let name = AgentId::from(name.as_str());
        step.state.settled_mut().name(index, &name, NameKind::Guessed);
        rename(step, index);
        show_anew(step, index);
    }
}

/// Shows a subagent and all its calls anew, after something about it moved.
fn show_anew(step: &mut Step<'_>, index: usize) {
    step.header_moved(index);
    let runs = &step.settled().subagents[index].runs;
    let calls: Vec<_> = runs.iter().map(|run| run.tool_use_id.clone()).collect();
    calls.iter().for_each(|call| step.refresh_call(call));
}

/// A call's name counts before any other, so a subagent that went by the same name is shown by
/// another.
fn shadow(step: &mut Step<'_>, call: &ToolUseId) {
    if let Some(&other) = step.settled().names.get(bare_agent_name(call.as_str())) {
        rename(step, other);
    }
}

/// Lets a subagent's conversation go by its best name: its own, else its first call's.
fn rename(step: &mut Step<'_>, index: usize) {
    let settled = step.settled();
    let subagent = &settled.subagents[index];
    let own = subagent.names.agent_id.as_ref().map(ConversationId::from);
    let best = own
        .filter(|name| settled.resolve(name) == Some(Slot::Subagent(index)))
        .or_else(|| subagent.runs.first().map(|run| ConversationId::from(&run.tool_use_id)));
    let old = subagent.conversation.name.clone();
    let Some(best) = best.filter(|best| *best != old) else {
        return;
    };

    let slot = Slot::Subagent(index);
    step.state.settle_conversation(slot);
    let conversation = step.conversation_mut(slot);
    conversation.name = best.clone();
    for position in 0..conversation.len() {
        let Some(entry) = conversation.at(position) else {
            continue;
        };
        let mut shown = Block::clone(&entry.shown());
        shown.conversation_id = best.clone();
        let facts = entry.facts().into_owned();
        conversation.set(position, facts, Arc::new(shown));
    }
    if !old.as_str().is_empty() {
        step.moved(|_| Change::ConversationRenamed { from: old, to: best });
    }
}

/// Shows the call in its caller's conversation as the subagent that it made.
fn stand(step: &mut Step<'_>, caller: Slot, call: &ToolUseId) {
    let rank = step.rank;
    let Some(&index) = step.settled().calls.get(call) else {
        return;
    };
    let subagent = &step.settled().subagents[index];
    let Some(run) = subagent.run(call) else {
        return;
    };
    let position = step.conversation(caller).call(call);
    if position.is_none() && !run.edges.is_empty() {
        return;
    }
    step.state.settled_mut().subagent_mut(index).run_mut(call).stands_in(caller);
    let known = position.and_then(|at| step.conversation(caller).at(at)).cloned();
    match (position, known) {
        (Some(position), Some(entry)) => {
            step.state.settle_block(caller, &entry.id);
            let Some(entry) = step.conversation(caller).at(position) else {
                return;
            };
            let mut facts = entry.facts().into_owned();
            facts.call = Some(call.clone());
            facts.said_mut(rank).known = true;
            step.set(caller, position, facts);
        }
        _ => {
            let mut facts = Facts { call: Some(call.clone()), ..Facts::default() };
            facts.said_mut(rank).known = true;
            insert(step, caller, BlockId::from(call), facts, &Place::Unsaid);
        }
    }
}
