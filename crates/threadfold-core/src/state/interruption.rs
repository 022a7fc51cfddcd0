//! Interruption: what is inside an interrupted run is closed as well, at any depth.
//!
//! Whether a run is interrupted follows from facts about it and about the runs that contain it, so
//! it does not depend on the order in which sources report them. The answer is cached with each
//! conversation; `reduce::interruption` keeps the caches valid.

use super::{SettledState, Slot};

/// How far the caches can be trusted while they are updated.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum CacheTrust {
    /// What is cached as interrupted is interrupted.
    Valid,
    /// An interruption ended, and conversations around may still be cached as interrupted.
    Falling,
}

impl SettledState {
    /// Returns whether the run of a subagent is interrupted, by itself or from outside.
    ///
    /// Trusts the caches of the conversations around it, so that the answer costs the same at every
    /// depth of nesting.
    pub(crate) fn is_interrupted(&self, index: usize, trust: CacheTrust) -> bool {
        if self.is_interrupted_by_itself(index) {
            return true;
        }
        let is_inside = self.callers(index).into_iter().any(|slot| self.is_known_interrupted(slot));
        let is_trusted = trust == CacheTrust::Valid && !self.subagents.is_interrupted(index);
        // Events can claim that two runs contain each other, and then each would keep the other
        // interrupted after the cause is gone.
        is_inside && (is_trusted || self.has_cause(index))
    }

    fn is_interrupted_by_itself(&self, index: usize) -> bool {
        let subagent = self.subagents.view(index);
        subagent.runs.last().is_some_and(|run| run.is_interrupted_by_itself(subagent.idle))
    }

    /// Returns the conversations whose interruption interrupts the subagent's latest run.
    fn callers(&self, index: usize) -> Vec<Slot> {
        let subagent = self.subagents.view(index);
        let latest = subagent.runs.last();
        let latest = latest.filter(|run| !run.background && run.done().is_none());
        latest.map(|run| run.edges.clone()).unwrap_or_default()
    }

    /// Returns what is cached about a conversation. A corrupt snapshot may name one that is not there.
    fn is_known_interrupted(&self, slot: Slot) -> bool {
        match slot {
            Slot::Main => false,
            Slot::Subagent(index) => {
                index < self.subagents.len() && self.subagents.is_interrupted(index)
            }
        }
    }

    /// Looks outwards for a run that is interrupted by itself.
    fn has_cause(&self, index: usize) -> bool {
        let mut seen = std::collections::BTreeSet::from([index]);
        let mut waiting = vec![index];
        while let Some(index) = waiting.pop() {
            if self.is_interrupted_by_itself(index) {
                return true;
            }
            for slot in self.callers(index) {
                if let Slot::Subagent(caller) = slot
                    && caller < self.subagents.len()
                    && seen.insert(caller)
                {
                    waiting.push(caller);
                }
            }
        }
        false
    }

    /// Returns for each run of a subagent whether an interrupted run contains it.
    pub(crate) fn runs_cut_off(&self, index: usize) -> Vec<bool> {
        let is_cut_off = |&slot: &Slot| self.is_known_interrupted(slot);
        let runs = &self.subagents[index].runs;
        runs.iter().map(|run| run.edges.iter().any(is_cut_off)).collect()
    }

    /// Derives all caches, for a state that was just restored.
    pub(crate) fn derive_interruptions(&mut self) {
        for index in 0..self.subagents.len() {
            for slot in self.subagents[index].runs.iter().flat_map(|run| &run.edges) {
                if let Slot::Subagent(caller) = *slot {
                    self.inside.insert((caller, index));
                }
            }
        }
        let mut inside = vec![Vec::new(); self.subagents.len()];
        for index in 0..self.subagents.len() {
            for slot in self.callers(index) {
                if let Slot::Subagent(caller) = slot
                    && let Some(inside) = inside.get_mut(caller)
                {
                    inside.push(index);
                }
            }
        }
        let causes = (0..self.subagents.len()).filter(|&it| self.is_interrupted_by_itself(it));
        let mut waiting: Vec<_> = causes.collect();
        while let Some(index) = waiting.pop() {
            let conversation = &mut self.subagent_mut(index).conversation;
            if !std::mem::replace(&mut conversation.is_interrupted, true) {
                waiting.append(&mut inside[index]);
            }
        }
        for index in 0..self.subagents.len() {
            let cut_off = self.runs_cut_off(index);
            if cut_off.contains(&true) {
                let runs = self.subagent_mut(index).runs.iter_mut();
                runs.zip(cut_off).for_each(|(run, is_cut_off)| run.is_cut_off = is_cut_off);
            }
        }
    }
}
