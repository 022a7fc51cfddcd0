//! The end of a turn.

use crate::id::ConversationId;
use crate::outcome::{Anomaly, Outcome};
use crate::state::Slot;

use super::interruption;
use super::step::Step;
use super::subagent;

/// Closes the blocks that the idle source left open in this conversation.
///
/// Each source closes only blocks that it reported itself: the end of an earlier turn, read from a
/// transcript, must not close what the stream has just started.
pub(super) fn idle(step: &mut Step<'_>, conversation: &ConversationId) -> Outcome {
    let Some(slot) = step.find(conversation) else {
        let conversation = conversation.clone();
        return Outcome::Ignored(Anomaly::UnknownConversation { conversation });
    };
    let rank = step.rank;
    let mut open: Vec<_> = {
        let conversation = step.conversation(slot);
        conversation.open.iter().filter_map(|id| conversation.position(id)).collect()
    };
    // In the order of the conversation, so that the changes do not depend on block ids.
    open.sort_unstable();
    for position in open {
        step.state.spill_if_crowded();
        let Some(entry) = step.conversation(slot).at(position).cloned() else {
            continue;
        };
        if !entry.is_known(rank) {
            continue;
        }
        if let Some(call) = entry.call() {
            end_run(step, &call);
        } else {
            step.state.settle_block(slot, &entry.id());
            let Some(entry) = step.conversation(slot).at(position) else {
                continue;
            };
            let mut facts = entry.facts().into_owned();
            facts.report_mut(rank).idle = true;
            step.set(slot, position, facts);
        }
    }
    if let Slot::Subagent(index) = slot
        && step.settled().subagents[index].is_reported_by(rank)
    {
        let before = step.settled().subagents[index].header();
        step.state.settled_mut().subagent_mut(index).idle.insert(rank);
        subagent::idle_changed(step, index, &before);
    }
    step.outcome()
}

/// Ends a run whose caller's turn is over, unless it runs in the background.
fn end_run(step: &mut Step<'_>, call: &crate::id::ToolUseId) {
    let rank = step.rank;
    let Some(index) = step.called_by(call) else { return };
    let subagent = &step.settled().subagents[index];
    let Some(run) = subagent.run(call) else { return };
    if run.background || run.done().is_some() || !run.reported.has(rank) || run.idle.has(rank) {
        return;
    }
    let before = subagent.header();
    step.state.settled_mut().subagent_mut(index).run_mut(call).idle.insert(rank);
    interruption::update(step, index, Some(&before));
    step.refresh_call(call);
}
