//! Carries an interruption into everything that the interrupted run contains, and back out of it.

use crate::id::ToolUseId;
use crate::state::{CacheTrust, Slot, SubagentHeader};

use super::step::Step;

/// Updates a subagent after facts about its runs changed, and all runs inside it.
///
/// `before` is the header that readers saw last, if they saw one.
pub(super) fn update(step: &mut Step<'_>, index: usize, before: Option<&SubagentHeader>) {
    let mut trust = CacheTrust::Valid;
    let mut waiting = vec![(index, before.cloned())];
    while let Some((index, before)) = waiting.pop() {
        step.state.spill_if_crowded();
        step.load(Slot::Subagent(index));
        let cut_off = step.settled().runs_cut_off(index);
        let runs = &step.settled().subagents[index].runs;
        let changed: Vec<ToolUseId> = runs
            .iter()
            .zip(&cut_off)
            .filter(|(run, is_cut_off)| run.is_cut_off != **is_cut_off)
            .map(|(run, _)| run.tool_use_id.clone())
            .collect();
        if !changed.is_empty() {
            let subagent = step.state.settled_mut().subagent_mut(index);
            for (run, is_cut_off) in subagent.runs.iter_mut().zip(cut_off) {
                run.is_cut_off = is_cut_off;
            }
        }
        if before.is_none_or(|before| step.settled().subagents[index].header() != before) {
            step.header_changed(index);
        }
        changed.iter().for_each(|call| step.refresh_call(call));
        let slot = Slot::Subagent(index);
        let is_interrupted = step.settled().is_interrupted(index, trust);
        if step.conversation(slot).is_interrupted != is_interrupted {
            waiting.extend(inner_headers(step, index));
            step.state.settle_conversation(slot);
            step.conversation_mut(slot).is_interrupted = is_interrupted;
            if !is_interrupted {
                trust = CacheTrust::Falling;
            }
            refresh_open(step, slot);
        }
    }
}

/// Returns the subagents that a subagent's conversation calls, with their headers.
///
/// They are found by their runs and not by blocks: the block of a call that is being added is not
/// there yet, and events can claim calls that no block shows.
fn inner_headers(step: &Step<'_>, index: usize) -> Vec<(usize, Option<SubagentHeader>)> {
    let settled = step.settled();
    let inner = settled.called_inside(index).into_iter();
    inner.map(|index| (index, Some(settled.subagents.view(index).header()))).collect()
}

/// Recomputes the blocks that are open, or that only the interruption closed.
fn refresh_open(step: &mut Step<'_>, slot: Slot) {
    let conversation = step.conversation(slot);
    let mut open: Vec<_> =
        conversation.open.iter().filter_map(|id| conversation.position(id)).collect();
    // In the order of the conversation, so that the changes do not depend on block ids.
    open.sort_unstable();
    open.into_iter().for_each(|position| step.refresh(slot, position));
}
