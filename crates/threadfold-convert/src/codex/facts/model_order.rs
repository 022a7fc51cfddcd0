//! The order of what a model said, thought, called and searched for: a rollout has the items of the model, and
//! events or items of the agent that repeat them.

use std::collections::{BTreeMap, BTreeSet};

use threadfold_core::Json;

use crate::parity::{Facts, RecordName};

/// What a model said, thought, called or searched for: its kind, its content and which one with that content it is.
type Name = (&'static str, String, usize);

/// The order in one file.
#[derive(Default)]
pub(super) struct ModelOrder {
    /// As the items of the model have it.
    responses: Vec<Name>,
    /// As it is reported first, in either form.
    reports: Vec<Name>,
    known: BTreeSet<Name>,
    counts: BTreeMap<(bool, &'static str, String), usize>,
}

impl ModelOrder {
    /// Reads an item of the model.
    pub(super) fn respond(&mut self, kind: &'static str, content: &str) {
        let name = self.name(true, kind, content);
        self.responses.push(name.clone());
        self.add(name);
    }

    /// Reads an event or an item of the agent.
    pub(super) fn report(&mut self, kind: &'static str, content: &str) {
        let name = self.name(false, kind, content);
        self.add(name);
    }

    fn name(&mut self, is_response: bool, kind: &'static str, content: &str) -> Name {
        let count = self.counts.entry((is_response, kind, content.to_owned())).or_default();
        *count += 1;
        (kind, content.to_owned(), *count)
    }

    fn add(&mut self, name: Name) {
        if self.known.insert(name.clone()) {
            self.reports.push(name);
        }
    }

    /// Checks at the end of a file that both orders are one.
    pub(super) fn check(&mut self, facts: &mut Facts) {
        let Self { responses, reports, .. } = std::mem::take(self);
        let in_both: BTreeSet<&Name> = responses.iter().collect();
        let reports: Vec<&Name> = reports.iter().filter(|it| in_both.contains(it)).collect();
        if !reports.iter().copied().eq(&responses) {
            let contents = |names: &mut dyn Iterator<Item = &Name>| {
                Json::of(&names.map(|(_, content, _)| content).collect::<Vec<_>>())
            };
            let record = RecordName::new("file", "");
            let (first, second) =
                (contents(&mut reports.into_iter()), contents(&mut responses.iter()));
            facts.contradict(&record, "order", first, second);
        }
    }
}
