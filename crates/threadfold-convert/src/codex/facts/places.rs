//! Where a rollout has the items of the agent: in their turns and after the calls that they report. What
//! the model wrote is not inside a review, for which its thread waits.

use std::collections::BTreeSet;

use serde_json::Value;
use threadfold_core::Json;

use super::text;
use crate::codex::outputs::ModelOutput;
use crate::parity::{Facts, RecordName};

/// Items that are no calls, so that nothing of them can outlive their turn.
const OF_TURNS: [&str; 7] = [
    "AgentMessage",
    "ContextCompaction",
    "EnteredReviewMode",
    "ExitedReviewMode",
    "Plan",
    "Reasoning",
    "UserMessage",
];

/// What a file had so far.
#[derive(Default)]
pub(super) struct ItemPlaces {
    /// The turn that has begun last and not ended.
    open_turn: Option<String>,
    /// The turns that have begun: a review has a turn that only its items and its end name.
    begun: BTreeSet<String>,
    ended: BTreeSet<String>,
    /// Items of turns that nothing named before, with the turns, while another turn was open.
    early: Vec<(String, String)>,
    /// The items, by id.
    items: BTreeSet<String>,
    /// The calls that have returned by themselves.
    returned: BTreeSet<String>,
    /// What the model of this thread wrote since a review began.
    in_review: Option<Vec<String>>,
}

fn contradict(facts: &mut Facts, (kind, id): (&str, &str), field: &str, values: (&str, &str)) {
    let record = RecordName::new(kind, id);
    facts.contradict(&record, field, Json::string(values.0), Json::string(values.1));
}

impl ItemPlaces {
    /// Reads a line.
    pub(super) fn read(&mut self, facts: &mut Facts, record: &Value) {
        let payload = &record["payload"];
        match text(record, "type").unwrap_or("") {
            "session_meta" => *self = Self::default(),
            "response_item" => self.read_response(facts, payload),
            "event_msg" => self.read_event(facts, payload),
            _ => {}
        }
    }

    fn read_response(&mut self, facts: &mut Facts, payload: &Value) {
        let kind = text(payload, "type").unwrap_or("");
        let is_written =
            kind == "reasoning" || kind.ends_with("_call") || payload["role"] == "assistant";
        if let Some(written) = self.in_review.as_mut().filter(|_| is_written) {
            written.push(text(payload, "id").unwrap_or("").to_owned());
        }
        let Some(call) = text(payload, "call_id") else { return };
        if !kind.ends_with("_output") {
            if self.items.contains(call) {
                contradict(facts, ("item", call), "order", ("item", "call"));
            }
            return;
        }
        // What a person interrupts may be reported after that.
        let output = Json::of(&payload["output"]);
        if !ModelOutput::read(output.raw()).is_aborted {
            self.returned.insert(call.to_owned());
        }
    }

    fn read_event(&mut self, facts: &mut Facts, payload: &Value) {
        let turn = text(payload, "turn_id").unwrap_or("");
        match text(payload, "type").unwrap_or("") {
            "task_started" => {
                // The turn before was killed.
                self.early.clear();
                self.begun.insert(turn.to_owned());
                self.open_turn = Some(turn.to_owned());
            }
            "task_complete" | "turn_aborted" => {
                self.ended.insert(turn.to_owned());
                if self.open_turn.as_deref() == Some(turn) {
                    self.open_turn = None;
                    for (item, own) in std::mem::take(&mut self.early) {
                        contradict(facts, ("item", &item), "turn_id", (turn, &own));
                    }
                }
            }
            "item_completed" => {
                let item = &payload["item"];
                self.read_item(facts, item, text(item, "id").unwrap_or(""), turn);
            }
            "sub_agent_activity" => {
                self.read_activity(facts, text(payload, "event_id").unwrap_or(""));
            }
            "entered_review_mode" => self.in_review = Some(Vec::new()),
            "exited_review_mode" => self.end_review(facts),
            _ => {}
        }
    }

    fn read_item(&mut self, facts: &mut Facts, item: &Value, id: &str, turn: &str) {
        let kind = text(item, "type").unwrap_or("");
        let is_new = self.begun.insert(turn.to_owned());
        if OF_TURNS.contains(&kind) {
            let open = self.open_turn.as_deref();
            if self.ended.contains(turn) {
                contradict(facts, ("item", id), "turn_id", (open.unwrap_or(""), turn));
            }
            // The other turn may have been killed: it is wrong if that one ends after this.
            if is_new && open.is_some() {
                self.early.push((id.to_owned(), turn.to_owned()));
            }
        }
        match kind {
            "EnteredReviewMode" => self.in_review = Some(Vec::new()),
            "ExitedReviewMode" => self.end_review(facts),
            "SubAgentActivity" => self.read_activity(facts, id),
            _ => {
                self.items.insert(id.to_owned());
            }
        }
    }

    /// Reads what a call did with a subagent, which it does before it returns.
    fn read_activity(&mut self, facts: &mut Facts, call: &str) {
        if self.returned.contains(call) {
            contradict(facts, ("item", call), "order", ("output", "item"));
        }
        self.items.insert(call.to_owned());
    }

    /// Checks that the thread waited for its review.
    fn end_review(&mut self, facts: &mut Facts) {
        for id in self.in_review.take().into_iter().flatten() {
            contradict(facts, ("response_item", &id), "order", ("response", "review"));
        }
    }
}
