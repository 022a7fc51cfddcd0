//! Subagents: spawned, known under several names, and completed.

use std::sync::Arc;

use crate::block::{self, Block, BlockBody, BlockStatus};
use crate::change::Change;
use crate::event::{CompletedStatus, Placement, SubagentCompleted, SubagentSpawned};
use crate::id::{AgentId, BlockId, ConversationId, ToolUseId, bare_agent_name};
use crate::outcome::{Anomaly, Outcome};
use crate::state::{Facts, NameKind, RunEnd, Slot, Subagent, SubagentHeader, fill};

use super::placement::insert;
use super::step::Step;
use super::unite::unite;

pub(super) fn spawned(
    step: &mut Step<'_>,
    conversation: &ConversationId,
    payload: &SubagentSpawned,
) -> Outcome {
    step.find_or_create(conversation);
    let names = names(&payload.agent_id, &payload.subagent_id);
    let anomaly = update_run(step, &payload.tool_use_id, names, |rank, run| {
        run.reported.insert(rank);
        run.background |= payload.background;
        fill(&mut run.prompt, rank, payload.prompt.clone());
        fill(&mut run.subagent_type, rank, payload.subagent_type.clone());
        fill(&mut run.description, rank, payload.description.clone());
    });
    // The update may have merged two subagents, so the caller's slot may have changed.
    let caller = step.find_or_create(conversation);
    adopt_shorter_name(step, caller, conversation);
    show_in_caller(step, caller, &payload.tool_use_id);
    step.outcome_with(anomaly)
}

pub(super) fn completed(
    step: &mut Step<'_>,
    conversation: &ConversationId,
    payload: &SubagentCompleted,
) -> Outcome {
    step.find_or_create(conversation);
    let names = names(&payload.agent_id, &payload.subagent_id);
    let anomaly = update_run(step, &payload.tool_use_id, names, |rank, run| {
        run.end(
            rank,
            RunEnd {
                failed: payload.status == CompletedStatus::Error,
                output: payload.output.clone(),
                duration_ms: payload.duration_ms,
            },
        );
    });
    let caller = step.find_or_create(conversation);
    adopt_shorter_name(step, caller, conversation);
    show_in_caller(step, caller, &payload.tool_use_id);
    step.outcome_with(anomaly)
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
    let _: Option<Anomaly> = update_run(step, call, names(&edge.agent_id, &None), |rank, run| {
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
    let index = *step.settled().calls.get(call)?;
    if !step.settled().subagents[index].run(call)?.edges.contains(&slot) {
        step.state.settled_mut().subagent_mut(index).run_mut(call).edges.push(slot);
    }
    Some(())
}

/// Forgets that a conversation contains a call, unless another block still shows it.
pub(super) fn drop_edge(step: &mut Step<'_>, call: &ToolUseId, slot: Slot) {
    let Some(&index) = step.settled().calls.get(call) else {
        return;
    };
    if step.conversation(slot).edges_of(call).next().is_none() {
        let run = step.state.settled_mut().subagent_mut(index).run_mut(call);
        run.edges.retain(|&edge| edge != slot);
    }
}

/// A name and its kind.
type Name<'a> = (&'a AgentId, NameKind);

fn names<'a>(own: &'a Option<AgentId>, older: &'a Option<AgentId>) -> Vec<Name<'a>> {
    let own = own.iter().map(|name| (name, NameKind::Own));
    own.chain(older.iter().map(|name| (name, NameKind::Older))).collect()
}

/// Finds or creates the subagent with this call and these names, and lets `update` modify the run.
fn update_run(
    step: &mut Step<'_>,
    call: &ToolUseId,
    names: Vec<Name<'_>>,
    update: impl FnOnce(crate::event::Rank, &mut crate::state::Run),
) -> Option<Anomaly> {
    let (index, before, anomaly) = find_or_create(step, call, names);
    let rank = step.rank;
    update(rank, step.state.settled_mut().subagent_mut(index).run_mut(call));
    rename(step, index);
    let now = step.settled().subagents[index].header();
    if before.as_ref() == Some(&now) {
        // Only the block shows the type and the description, so it may change even if the header
        // did not.
        step.refresh_call(call);
    } else if before.is_some_and(|before| before.agent_id == now.agent_id) {
        step.header_changed(index);
        step.refresh_call(call);
    } else {
        refresh_subagent(step, index);
    }
    anomaly
}

/// Finds or creates the subagent of this call, by any of its names. Also returns its header as it
/// was before.
fn find_or_create(
    step: &mut Step<'_>,
    call: &ToolUseId,
    names: Vec<Name<'_>>,
) -> (usize, Option<SubagentHeader>, Option<Anomaly>) {
    let settled = step.settled();
    let by_call = settled.calls.get(call).copied().or_else(|| {
        // A conversation known only under the call's id belongs to the call.
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
        self.names.entry(name.bare().into()).or_insert(index);
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
    if is_shorter && !settled.calls.contains_key(name.as_str()) {
        let name = AgentId::from(name.as_str());
        step.state.settled_mut().name(index, &name, NameKind::Guessed);
        rename(step, index);
        refresh_subagent(step, index);
    }
}

/// Recomputes a subagent's header and the blocks of all its calls.
fn refresh_subagent(step: &mut Step<'_>, index: usize) {
    step.header_changed(index);
    let runs = &step.settled().subagents[index].runs;
    let calls: Vec<_> = runs.iter().map(|run| run.tool_use_id.clone()).collect();
    calls.iter().for_each(|call| step.refresh_call(call));
}

/// Renames a subagent that is shown under a call's id. A call id takes precedence over every other
/// name, so the subagent that held the name needs another one.
fn rename_shadowed(step: &mut Step<'_>, call: &ToolUseId) {
    if let Some(&other) = step.settled().names.get(bare_agent_name(call.as_str())) {
        rename(step, other);
    }
}

/// Shows a subagent's conversation under its best name: its own id, else its first call.
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
        step.record_change(|_| Change::ConversationRenamed { from: old, to: best });
    }
}

/// Shows the call in the caller's conversation as the subagent that it spawned.
fn show_in_caller(step: &mut Step<'_>, caller: Slot, call: &ToolUseId) {
    let rank = step.rank;
    let Some(&index) = step.settled().calls.get(call) else {
        return;
    };
    let subagent = &step.settled().subagents[index];
    let Some(run) = subagent.run(call) else {
        return;
    };
    let position = step.conversation(caller).call(call);
    // Another conversation already shows the call; showing it here as well would duplicate it.
    if position.is_none() && !run.edges.is_empty() {
        return;
    }
    step.state.settled_mut().subagent_mut(index).run_mut(call).add_edge(caller);
    let known = position.and_then(|at| step.conversation(caller).at(at)).cloned();
    match (position, known) {
        (Some(position), Some(entry)) => {
            step.state.settle_block(caller, &entry.id);
            let Some(entry) = step.conversation(caller).at(position) else {
                return;
            };
            let mut facts = entry.facts().into_owned();
            facts.call = Some(call.clone());
            facts.report_mut(rank).known = true;
            step.set(caller, position, facts);
        }
        _ => {
            let mut facts = Facts { call: Some(call.clone()), ..Facts::default() };
            facts.report_mut(rank).known = true;
            insert(step, caller, BlockId::from(call), facts, &Placement::Unspecified);
        }
    }
}
