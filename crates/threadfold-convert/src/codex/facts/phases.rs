//! In which phase of a turn a text was spoken: a rollout has that with the item of the model, and with
//! the event or the item of the agent that repeats the text.

use std::collections::BTreeMap;

use serde_json::Value;
use threadfold_core::Json;

use super::text;
use crate::parity::{Facts, RecordName};

const REPORT: usize = 0;
const RESPONSE: usize = 1;

/// The phases that the files had so far.
#[derive(Default)]
pub(super) struct Phases {
    /// Those of each text, as events have it and as items of the model have it.
    by_words: BTreeMap<String, [Vec<Value>; 2]>,
    /// Those of each id, as items of the agent have it and as items of the model have it.
    by_id: BTreeMap<String, [Vec<Value>; 2]>,
}

impl Phases {
    /// Reads the event of a text.
    pub(super) fn read_event(&mut self, words: &str, event: &Value) {
        // Events of the first version have no phase.
        if let Some(phase) = event.get("phase") {
            self.by_words.entry(words.to_owned()).or_default()[REPORT].push(phase.clone());
        }
    }

    /// Reads the agent's item of a text.
    pub(super) fn read_item(&mut self, id: &str, item: &Value) {
        self.by_id.entry(id.to_owned()).or_default()[REPORT].push(item["phase"].clone());
    }

    /// Reads the model's item of a text.
    pub(super) fn read_response(&mut self, words: &str, response: &Value) {
        let phase = &response["phase"];
        self.by_words.entry(words.to_owned()).or_default()[RESPONSE].push(phase.clone());
        if let Some(id) = text(response, "id") {
            self.by_id.entry(id.to_owned()).or_default()[RESPONSE].push(phase.clone());
        }
    }

    /// Checks the texts that both forms have equally often: a review's are in several files.
    pub(super) fn finish(self, facts: &mut Facts) {
        for (kind, all) in [("spoken", self.by_words), ("item", self.by_id)] {
            for (name, phases) in all {
                let [reports, responses] = phases.map(|mut it| {
                    it.sort_by_key(Value::to_string);
                    it
                });
                if reports.len() == responses.len() && reports != responses {
                    let record = RecordName::new(kind, &name);
                    facts.contradict(&record, "phase", Json::of(&reports), Json::of(&responses));
                }
            }
        }
    }
}
