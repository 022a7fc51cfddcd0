//! The history that the file of a subagent copies: what the model wrote there is what the file of the
//! thread has that began the subagent.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use threadfold_core::Json;

use super::text;
use crate::parity::{Facts, RecordName};

/// What the files had so far.
#[derive(Default)]
pub(super) struct CopiedHistory {
    /// The main thread.
    root: String,
    /// The thread that the file may copy, and the ordinal of the first record that is no copy.
    origin: Option<String>,
    own_from: Option<u64>,
    is_copying: bool,
    /// The items of each thread.
    originals: BTreeMap<String, BTreeSet<String>>,
    /// The copied items, with their threads.
    copies: Vec<(String, String)>,
}

impl CopiedHistory {
    /// Reads a line of a main file, or of the file of a subagent.
    pub(super) fn read(&mut self, record: &Value, subagent: Option<&str>) {
        let payload = &record["payload"];
        match text(record, "type").unwrap_or("") {
            "session_meta" => self.read_meta(payload, subagent),
            "event_msg" if text(payload, "type") == Some("task_started") => {
                // Ids of turns begin with their time: the subagent's own are younger than the subagent.
                let is_own = text(payload, "turn_id").zip(subagent).is_some_and(|(it, id)| it > id);
                self.is_copying &= self.own_from.is_some() || !is_own;
            }
            "response_item" if is_written(payload) => self.read_item(record, payload, subagent),
            _ => {}
        }
    }

    fn read_meta(&mut self, meta: &Value, subagent: Option<&str>) {
        let id = text(meta, "id").unwrap_or("");
        if self.root.is_empty() && subagent.is_none() {
            self.root = id.to_owned();
        }
        // The copy begins with the record of the other thread. A fork is a session of its own, which is
        // compared without the one that it copies.
        self.is_copying = subagent.is_some_and(|own| own != id);
        if !self.is_copying {
            self.origin = text(meta, "forked_from_id").map(str::to_owned);
            self.own_from = meta["subagent_history_start_ordinal"].as_u64();
        }
    }

    fn read_item(&mut self, record: &Value, item: &Value, subagent: Option<&str>) {
        let is_own = |first| record["ordinal"].as_u64().is_none_or(|it| it >= first);
        self.is_copying &= !self.own_from.is_some_and(is_own);
        let content = item.to_string();
        if let Some(origin) = self.origin.as_ref().filter(|_| self.is_copying) {
            self.copies.push((origin.clone(), content.clone()));
        }
        let thread = subagent.unwrap_or(&self.root).to_owned();
        self.originals.entry(thread).or_default().insert(content);
    }

    /// Checks the copies of threads whose files were read.
    pub(super) fn finish(self, facts: &mut Facts) {
        for (thread, content) in self.copies {
            let items = self.originals.get(&thread);
            if items.is_some_and(|it| !it.contains(&content)) {
                let record = RecordName::new("response_item", &thread);
                facts.contradict(&record, "copy", Json::string(&content), Json::of(&()));
            }
        }
    }
}

/// Returns whether the model wrote an item: what a subagent's model receives may be made for it.
fn is_written(item: &Value) -> bool {
    let kind = text(item, "type").unwrap_or("");
    kind == "reasoning"
        || kind.ends_with("_call")
        || (kind == "message" && item["role"] == "assistant")
}
