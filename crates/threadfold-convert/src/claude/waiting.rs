//! Subagents that no id links to their calls: found by the prompt, whichever comes first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::hash_map::Map;

/// Calls whose subagent is still unknown, in the order of the calls.
///
/// A session may have very many with one prompt, so they are indexed by both.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Vec<(Arc<str>, Arc<str>)>", into = "Vec<(Arc<str>, Arc<str>)>")]
pub(super) struct WaitingCalls {
    /// The calls of each prompt, by their order.
    by_prompt: Map<Arc<str>, BTreeMap<u64, Arc<str>>>,
    /// The prompt and the order of each call.
    by_call: Map<Arc<str>, (Arc<str>, u64)>,
    next: u64,
}

impl WaitingCalls {
    /// Adds a call, unless it waits already.
    pub(super) fn add(&mut self, prompt: Arc<str>, call: Arc<str>) {
        if self.by_call.contains_key(&call) {
            return;
        }
        self.by_prompt.entry(prompt.clone()).or_default().insert(self.next, call.clone());
        self.by_call.insert(call, (prompt, self.next));
        self.next += 1;
    }

    /// Removes a call, if it waits.
    pub(super) fn remove(&mut self, call: &str) {
        let Some((prompt, order)) = self.by_call.remove(call) else { return };
        if let Some(calls) = self.by_prompt.get_mut(&prompt) {
            calls.remove(&order);
            if calls.is_empty() {
                self.by_prompt.remove(&prompt);
            }
        }
    }

    /// Removes and returns the first call with this prompt.
    pub(super) fn take(&mut self, prompt: &str) -> Option<Arc<str>> {
        let call = self.by_prompt.get(prompt)?.values().next()?.clone();
        self.remove(&call);
        Some(call)
    }
}

impl From<Vec<(Arc<str>, Arc<str>)>> for WaitingCalls {
    fn from(pairs: Vec<(Arc<str>, Arc<str>)>) -> Self {
        let mut calls = Self::default();
        pairs.into_iter().for_each(|(prompt, call)| calls.add(prompt, call));
        calls
    }
}

impl From<WaitingCalls> for Vec<(Arc<str>, Arc<str>)> {
    fn from(calls: WaitingCalls) -> Self {
        let entries = calls.by_call.into_iter();
        let ordered: BTreeMap<_, _> =
            entries.map(|(call, (prompt, order))| (order, (prompt, call))).collect();
        ordered.into_values().collect()
    }
}

/// The first prompt in each subagent's own file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "BTreeMap<Arc<str>, Opening>", into = "BTreeMap<Arc<str>, Opening>")]
pub(super) struct Openings {
    by_agent: Map<Arc<str>, Opening>,
    /// The subagents of each prompt that are not linked to a call.
    unlinked: Map<Arc<str>, BTreeSet<Arc<str>>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Opening {
    prompt: Arc<str>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    linked: bool,
}

impl Openings {
    /// Adds the prompt of a subagent.
    pub(super) fn add(&mut self, agent: Arc<str>, prompt: Arc<str>, linked: bool) {
        self.link(&agent);
        if !linked {
            self.unlinked.entry(prompt.clone()).or_default().insert(agent.clone());
        }
        self.by_agent.insert(agent, Opening { prompt, linked });
    }

    /// Notes that a subagent is linked to a call.
    pub(super) fn link(&mut self, agent: &str) {
        let Some(opening) = self.by_agent.get_mut(agent) else { return };
        opening.linked = true;
        if let Some(agents) = self.unlinked.get_mut(&opening.prompt) {
            agents.remove(agent);
            if agents.is_empty() {
                self.unlinked.remove(&opening.prompt);
            }
        }
    }

    /// Returns the prompt of a subagent.
    pub(super) fn prompt(&self, agent: &str) -> Option<&Arc<str>> {
        self.by_agent.get(agent).map(|opening| &opening.prompt)
    }

    /// Returns the subagent with this prompt that is not linked to a call: the one with the smallest
    /// id, so that the choice does not depend on the order of files.
    pub(super) fn unlinked(&self, prompt: &str) -> Option<&Arc<str>> {
        self.unlinked.get(prompt)?.first()
    }
}

impl From<BTreeMap<Arc<str>, Opening>> for Openings {
    fn from(all: BTreeMap<Arc<str>, Opening>) -> Self {
        let mut openings = Self::default();
        for (agent, opening) in all {
            openings.add(agent, opening.prompt, opening.linked);
        }
        openings
    }
}

impl From<Openings> for BTreeMap<Arc<str>, Opening> {
    fn from(openings: Openings) -> Self {
        openings.by_agent.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_with_one_prompt_are_taken_in_their_order_also_after_a_restore() {
        let mut calls = WaitingCalls::default();
        for call in ["c", "a", "b", "a"] {
            calls.add("p".into(), call.into());
        }
        calls.remove("c");
        calls.add("q".into(), "d".into());
        let text = serde_json::to_string(&calls).unwrap();
        assert_eq!(text, r#"[["p","a"],["p","b"],["q","d"]]"#);
        let mut again: WaitingCalls = serde_json::from_str(&text).unwrap();
        for calls in [&mut calls, &mut again] {
            let taken: Vec<_> = ["p", "p", "p", "q"].map(|it| calls.take(it)).into();
            assert_eq!(taken, [Some("a".into()), Some("b".into()), None, Some("d".into())]);
        }
    }

    #[test]
    fn a_subagent_is_found_by_its_prompt_until_it_is_linked() {
        let mut openings = Openings::default();
        openings.add("b".into(), "p".into(), false);
        openings.add("a".into(), "p".into(), false);
        openings.add("0".into(), "p".into(), true);
        let text = serde_json::to_string(&openings).unwrap();
        let mut again: Openings = serde_json::from_str(&text).unwrap();
        for openings in [&mut openings, &mut again] {
            assert_eq!(openings.unlinked("p").map(|it| &**it), Some("a"));
            openings.link("a");
            assert_eq!(openings.unlinked("p").map(|it| &**it), Some("b"));
            openings.link("b");
            assert_eq!(openings.unlinked("p"), None);
            assert_eq!(openings.prompt("a").map(|it| &**it), Some("p"));
        }
    }
}
