//! Subagents: spawned, known under several names, and completed.

use std::sync::Arc;

use crate::block::{self, Block, BlockBody, BlockStatus};
use crate::change::Change;
use crate::event::{
    CompletedStatus, Context, Placement, Rank, SubagentCompleted, SubagentMarked, SubagentSpawned,
};
use crate::id::{AgentId, BlockId, ConversationId, ToolUseId, bare_agent_name};
use crate::outcome::{Anomaly, Outcome};
use crate::state::{Facts, NameKind, Run, RunEnd, Slot, Subagent, SubagentHeader, fill};

use super::block::take_out;
use super::interruption;
use super::merge_subagents::unite;
use super::placement::insert;
use super::step::Step;

pub(super) fn spawned(
    step: &mut Step<'_>,
    context: &Context,
    payload: &SubagentSpawned,
) -> Outcome {
    let caller = Caller::of(context, payload.unplaced);
    let names = names(&payload.agent_id, &payload.subagent_id);
    let call = &payload.tool_use_id;
    let anomaly = update_run(step, call, names, caller, |rank, run| {
        // Later events repeat what is known, at a later time.
        if !run.reported.has(rank) {
            fill(&mut run.time, rank, context.timestamp.clone());
        }
        run.reported.insert(rank);
        run.background |= payload.background;
        fill(&mut run.prompt, rank, payload.prompt.clone());
        fill(&mut run.subagent_type, rank, payload.subagent_type.clone());
        fill(&mut run.description, rank, payload.description.clone());
    });
    step.outcome_with(anomaly)
}

pub(super) fn completed(
    step: &mut Step<'_>,
    context: &Context,
    payload: &SubagentCompleted,
) -> Outcome {
    let caller = Caller::of(context, payload.unplaced);
    let names = names(&payload.agent_id, &payload.subagent_id);
    let call = &payload.tool_use_id;
    let anomaly = update_run(step, call, names, caller, |rank, run| {
        run.end(
            rank,
            RunEnd {
                failed: payload.status == CompletedStatus::Error,
                output: payload.output.clone(),
                duration_ms: payload.duration_ms,
            },
        );
    });
    step.outcome_with(anomaly)
}

pub(super) fn marked(
    step: &mut Step<'_>,
    conversation: &ConversationId,
    payload: &SubagentMarked,
) -> Outcome {
    // The main conversation is what a person reads, so no mark applies to it.
    if let (true, Slot::Subagent(index)) = (payload.internal, step.find_or_create(conversation)) {
        let before = step.settled().subagents[index].header();
        step.state.settled_mut().subagent_mut(index).internal = true;
        if step.settled().subagents[index].header() != before {
            step.header_changed(index);
        }
    }
    step.outcome()
}

/// Who called a subagent, according to an event.
#[derive(Clone, Copy)]
enum Caller<'a> {
    /// The conversation with this name.
    Known(&'a ConversationId),
    /// The event does not tell. A caller is never guessed.
    Unknown,
}

impl<'a> Caller<'a> {
    fn of(context: &'a Context, unplaced: bool) -> Self {
        if unplaced { Self::Unknown } else { Self::Known(&context.conversation_id) }
    }

    /// Returns the caller's conversation.
    fn find(self, step: &mut Step<'_>) -> Option<Slot> {
        match self {
            Self::Known(name) => Some(step.find_or_create(name)),
            Self::Unknown => None,
        }
    }
}

/// Updates a subagent from the block that shows it.
pub(super) fn update_from_edge(
    step: &mut Step<'_>,
    edge: &block::SubagentBlock,
    status: BlockStatus,
) {
    let Some(call) = &edge.tool_use_id else {
        return;
    };
    let prompt = edge.input.as_ref().map(|input| match input.to_text() {
        Some(text) => text.into(),
        None => input.as_str().into(),
    });
    // A naming conflict is reported by the subagent event, not by the block.
    let _: Option<Anomaly> =
        update_run(step, call, names(&edge.agent_id, &None), Caller::Unknown, |rank, run| {
            run.reported.insert(rank);
            fill(&mut run.prompt, rank, prompt);
            fill(&mut run.subagent_type, rank, Some(edge.name.clone()));
            fill(&mut run.description, rank, edge.description.clone());
            if !status.is_open() {
                let failed = status == BlockStatus::Error;
                let (output, duration_ms) = (edge.output.clone(), edge.duration_ms);
                run.end(rank, RunEnd { failed, output, duration_ms });
            }
        });
}

/// Returns the block's call if it spawned a subagent, and records that the block shows it.
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
    add_edge(step, call, slot)?;
    Some(call.clone())
}

/// Records that a conversation contains a call that spawned a subagent.
pub(super) fn add_edge(step: &mut Step<'_>, call: &ToolUseId, slot: Slot) -> Option<()> {
    let index = step.called_by(call)?;
    let subagent = &step.settled().subagents[index];
    if !subagent.run(call)?.edges.contains(&slot) {
        let before = subagent.header();
        step.state.settled_mut().add_edge(index, call, slot);
        remove_stand_ins(step, index, call, slot);
        interruption::update(step, index, Some(&before));
        step.refresh_call(call);
    }
    Some(())
}

/// Forgets that a conversation contains a call, unless another block still shows it.
pub(super) fn drop_edge(step: &mut Step<'_>, call: &ToolUseId, slot: Slot) {
    let Some(index) = step.called_by(call) else { return };
    if step.conversation(slot).edges_of(call).is_empty() {
        let before = step.settled().subagents[index].header();
        let run = step.state.settled_mut().subagent_mut(index).run_mut(call);
        run.edges.retain(|&edge| edge != slot);
        interruption::update(step, index, Some(&before));
        step.refresh_call(call);
    }
}

/// Removes the blocks that stood for a call until the call itself appeared, in `slot`.
fn remove_stand_ins(step: &mut Step<'_>, index: usize, call: &ToolUseId, slot: Slot) {
    let edges = step.settled().subagents[index].run(call).map(|run| run.edges.clone());
    for other in edges.unwrap_or_default().into_iter().filter(|&other| other != slot) {
        step.load(other);
        let stand_ins: Vec<_> = {
            let conversation = step.conversation(other);
            let is_stand_in =
                |&at: &usize| conversation.at(at).is_some_and(|entry| !entry.facts().is_reported());
            conversation.edges_of(call).into_iter().filter(is_stand_in).collect()
        };
        for position in stand_ins.into_iter().rev() {
            take_out(step, other, position);
        }
    }
}

/// Updates a subagent after its turn ended, or began again.
pub(super) fn idle_changed(step: &mut Step<'_>, index: usize, before: &SubagentHeader) {
    interruption::update(step, index, Some(before));
    refresh_calls(step, index);
}

/// A name and its kind.
type Name<'a> = (&'a AgentId, NameKind);

fn names<'a>(own: &'a Option<AgentId>, older: &'a Option<AgentId>) -> Vec<Name<'a>> {
    let own = own.iter().map(|name| (name, NameKind::Own));
    own.chain(older.iter().map(|name| (name, NameKind::Older))).collect()
}

/// Finds or creates the subagent with this call and these names, lets `update` modify the run, and
/// shows the call in its caller as the subagent.
fn update_run(
    step: &mut Step<'_>,
    call: &ToolUseId,
    names: Vec<Name<'_>>,
    caller: Caller<'_>,
    update: impl FnOnce(Rank, &mut Run),
) -> Option<Anomaly> {
    caller.find(step);
    let (index, before, anomaly) = find_or_create(step, call, names);
    let rank = step.rank;
    let settled = step.state.settled_mut();
    let place = &mut settled.run_counts[rank as usize];
    if settled.subagents[index].run(call).is_none_or(|run| run.order[rank as usize].is_none()) {
        let order = *place;
        *place = place.saturating_add(1);
        settled.subagent_mut(index).order_run(call, rank, order);
    }
    update(rank, settled.subagent_mut(index).run_mut(call));
    rename(step, index);
    // Updating the names may have merged two subagents, so the caller is looked up again.
    let caller_slot = caller.find(step);
    let places = place_call(step, index, call, caller_slot);
    interruption::update(step, index, before.as_ref());
    let now = step.settled().subagents[index].header();
    if before.is_some_and(|before| before.agent_id == now.agent_id) {
        // Only the block shows the type and the description, so it may change even if the header
        // did not.
        step.refresh_call(call);
    } else {
        refresh_calls(step, index);
    }
    for slot in places {
        show_call(step, slot, call, caller_slot == Some(slot));
    }
    if let (Caller::Known(name), Some(slot)) = (caller, caller.find(step)) {
        adopt_shorter_name(step, slot, name);
    }
    anomaly
}

/// Records which conversations contain the call, and returns those whose block must show it.
///
/// Where the call itself appeared counts, and not what an event reports about its caller. Until it
/// appears, a block stands in for it in the caller.
fn place_call(
    step: &mut Step<'_>,
    index: usize,
    call: &ToolUseId,
    caller: Option<Slot>,
) -> Vec<Slot> {
    let mut places = step.settled().conversations_with(call);
    if let Some(caller) = caller.filter(|caller| !places.contains(caller)) {
        let is_shown =
            step.settled().subagents[index].run(call).is_some_and(|it| !it.edges.is_empty());
        if step.conversation(caller).call(call).is_some() || (places.is_empty() && !is_shown) {
            places.push(caller);
        }
    }
    let settled = step.state.settled_mut();
    places.iter().for_each(|&slot| settled.add_edge(index, call, slot));
    places
}

/// Shows the call in a conversation as the subagent that it spawned.
fn show_call(step: &mut Step<'_>, slot: Slot, call: &ToolUseId, is_caller: bool) {
    let rank = step.rank;
    let Some(position) = step.conversation(slot).call(call) else {
        let mut facts = Facts { call: Some(call.clone()), ..Facts::default() };
        facts.report_mut(rank).known = true;
        insert(step, slot, BlockId::from(call), facts, &Placement::Unspecified);
        return;
    };
    let Some(id) = step.conversation(slot).at(position).map(|entry| entry.id().into_owned()) else {
        return;
    };
    step.state.settle_block(slot, &id);
    let Some(entry) = step.conversation(slot).at(position) else {
        return;
    };
    let mut facts = entry.facts().into_owned();
    facts.call = Some(call.clone());
    facts.report_mut(rank).known |= is_caller;
    step.set(slot, position, facts);
}

/// Finds or creates the subagent of this call, by any of its names. Also returns its header as it
/// was before.
fn find_or_create(
    step: &mut Step<'_>,
    call: &ToolUseId,
    names: Vec<Name<'_>>,
) -> (usize, Option<SubagentHeader>, Option<Anomaly>) {
    let settled = step.settled();
    let own = [settled.calls.get(call.as_str()), settled.names.get(bare_agent_name(call.as_str()))];
    let others = names.iter().map(|(name, _)| settled.names.get(name.bare()));
    let known: Vec<usize> = own.into_iter().chain(others).flatten().collect();
    known.into_iter().for_each(|index| step.load(Slot::Subagent(index)));
    let settled = step.settled();
    let by_call = settled.calls.get(call.as_str()).or_else(|| {
        // A conversation known only under the call's id belongs to the call.
        let index = settled.names.get(bare_agent_name(call.as_str()))?;
        settled.subagents[index].names.is_guess().then_some(index)
    });
    let mut found: Vec<usize> = by_call.into_iter().collect();
    let mut anomaly = None;
    for &(name, kind) in &names {
        let Some(index) = settled.names.get(name.bare()) else {
            continue;
        };
        let taken = |mine| {
            mine != index
                && settled.has_another_name(mine, name)
                && (kind == NameKind::Own || settled.has_another_name(index, name))
        };
        if by_call.is_some_and(taken) {
            anomaly = Some(Anomaly::NameConflict { call: call.clone(), agent: name.clone() });
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
    settled.calls.insert(call.as_str(), index);
    let subagent = settled.subagent_mut(index);
    if subagent.names.is_guess()
        && subagent.names.agent_id.as_ref().is_some_and(|name| name.as_str() == call.as_str())
    {
        subagent.names.agent_id = None;
    }
    if anomaly.is_none() {
        names.into_iter().for_each(|(name, kind)| settled.name(index, name, kind));
    }
    rename_shadowed(step, call);
    (index, before, anomaly)
}

impl crate::state::SettledState {
    /// Returns true if the subagent has an id of its own that is not `name`.
    fn has_another_name(&self, index: usize, name: &AgentId) -> bool {
        let names = &self.subagents[index].names;
        names.kind == NameKind::Own
            && names.agent_id.as_ref().is_some_and(|mine| mine.bare() != name.bare())
    }

    /// Adds a name to a subagent.
    fn name(&mut self, index: usize, name: &AgentId, kind: NameKind) {
        self.subagent_mut(index).names.add(name, kind);
        self.names.insert_if_free(name.bare(), index);
    }
}

/// Adopts `name` for the subagent if it is a shorter spelling of the name shown.
pub(super) fn adopt_shorter_name(step: &mut Step<'_>, slot: Slot, name: &ConversationId) {
    let Slot::Subagent(index) = slot else {
        return;
    };
    let settled = step.settled();
    let is_shorter = settled.subagents[index].names.agent_id.as_ref().is_some_and(|known| {
        name.as_str().len() < known.as_str().len() && known.bare() == bare_agent_name(name.as_str())
    });
    if is_shorter && settled.calls.get(name.as_str()).is_none() {
        let name = AgentId::from(name.as_str());
        step.state.settled_mut().name(index, &name, NameKind::Guessed);
        step.header_changed(index);
        refresh_calls(step, index);
    }
}

/// Recomputes the blocks of all calls of a subagent.
fn refresh_calls(step: &mut Step<'_>, index: usize) {
    let runs = &step.settled().subagents[index].runs;
    let calls: Vec<_> = runs.iter().map(|run| run.tool_use_id.clone()).collect();
    calls.iter().for_each(|call| step.refresh_call(call));
}

/// Renames a subagent that is shown under a call's id. A call id takes precedence over every other
/// name, so the subagent that held the name needs another one.
fn rename_shadowed(step: &mut Step<'_>, call: &ToolUseId) {
    if let Some(other) = step.settled().names.get(bare_agent_name(call.as_str())) {
        step.load(Slot::Subagent(other));
        rename(step, other);
    }
}

/// Names a subagent's conversation: its own id, else its first call.
///
/// A conversation keeps the name that it was first shown under, because clients know it by that
/// name. Only if another subagent takes the name away, the conversation gets another one.
fn rename(step: &mut Step<'_>, index: usize) {
    let settled = step.settled();
    let subagent = &settled.subagents[index];
    let old = subagent.conversation.name.clone();
    let leads_here = |name: &ConversationId| settled.resolve(name) == Some(Slot::Subagent(index));
    if !old.as_str().is_empty() && leads_here(&old) {
        return;
    }
    let own = subagent.names.agent_id.as_ref().map(ConversationId::from);
    let best = own
        .filter(leads_here)
        .or_else(|| subagent.runs.first().map(|run| ConversationId::from(&run.tool_use_id)));
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
        step.record_change(|_| Change::ConversationRenamed { from: old, to: best });
    }
}
